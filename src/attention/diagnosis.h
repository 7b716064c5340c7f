// What a violation most likely comes from, judged by its numbers and by the launches before it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "attention/launch_dump.h"

namespace haast::attention {

// A launch that came before, by its line.
struct EarlierLaunch {
  int64_t line = 0;
  std::shared_ptr<const LaunchDump> dump;
};

// One sentence; empty where the numbers point to nothing. `earlier`: the nearest first.
std::string LikelyCause(const Finding& finding, const LaunchDump& launch, const std::vector<EarlierLaunch>& earlier);

}  // namespace haast::attention
