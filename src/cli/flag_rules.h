// Flags that would do nothing as they were given: refused where what they belong to is missing, noted where another flag turns them off.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/options.h"
#include "cli/output.h"
#include "haast/result.h"

namespace haast::cli {

enum class Verdict { kRefused, kNoted };

struct FlagRule {
  Verdict verdict;
  bool broken;                     // by the values of other flags
  std::vector<const char*> flags;  // a rule counts where at least one of them was given
  std::string why;                 // follows their names
};

// What holds for the flags of AddModelFlags and AddSamplingFlags in every command. `resumed`: the request is that of a file.
std::vector<FlagRule> ModelFlagRules(const ModelFlags& flags, bool resumed);
std::vector<FlagRule> SamplingFlagRules(const SamplingFlags& flags);

// kInvalidArgument by the first broken rule that refuses; a line on `err` for each that notes. `app` has parsed.
Status CheckFlagRules(const CLI::App& app, const std::vector<FlagRule>& rules, Output& err);

}  // namespace haast::cli
