// Step costs as a JSON file (docs/cli.md).
#pragma once

#include <string>

#include "haast/engine.h"

namespace haast::cli {

// Notes beside the costs what they hold for: model and threads.
Status WriteStepCosts(const std::string& path, const StepCosts& costs, const EngineOptions& measured);

// kInvalidFile where the file is no such JSON, with the field, or has what CheckStepCosts refuses; kNotFound or kIo where it is no regular
// file that can be read.
Result<StepCosts> ReadStepCosts(const std::string& path);

}  // namespace haast::cli
