// Single launches op by op: what each kind of step reads and computes, and where its time goes.
#pragma once

#include <string>
#include <vector>

#include "engine/loaded_models.h"
#include "engine/step_bench.h"
#include "haast/bench.h"

namespace haast::engine {

enum class StepKind { kVerify, kDraftStep, kDraftExtend };

struct StepToProfile {
  std::string name;
  StepKind kind;
  StepSize size;
};

// Runs every step `passes` times, in turns and after a first run that is not counted, on runners of its own whose ops are recorded.
// The pool must have pages for the longest of them.
Result<std::vector<StepProfile>> ProfileSteps(const LoadedModels& models, const std::vector<StepToProfile>& steps, int passes);

}  // namespace haast::engine
