// What steps cost on this machine, measured once and then followed: what automatic speculation decides by.
#pragma once

#include <array>

#include "engine/drafters.h"
#include "spec/depth_policy.h"

namespace haast::engine {

struct StepCosts {
  spec::CostCurve pass;
  std::array<spec::CostCurve, kNumSpeculativeAlgorithms> draft_step;
  std::array<spec::CostCurve, kNumSpeculativeAlgorithms> draft_extend;

  spec::CostModel Of(SpeculativeAlgorithm algorithm) const {
    const size_t i = static_cast<size_t>(algorithm);
    return {&pass, &draft_step[i], &draft_extend[i]};
  }
};

// Tokens whose pages MeasureStepCosts takes for a while.
extern const int64_t kMeasuredTokens;

// Runs every kind of launch a few times on pages of its own (some 0.2 s for a model of 100 MB). Where the pool has no room for
// them now, the costs stay as they are; false then.
Result<bool> MeasureStepCosts(const LoadedModels& models, const Drafters& drafters, StepCosts* costs);

}  // namespace haast::engine
