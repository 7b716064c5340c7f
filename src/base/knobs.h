// The one table of environment variables this program reads. Anything a user should set often is a flag instead.
#pragma once

#include <string>

#include "base/cpu.h"
#include "haast/result.h"

namespace haast::base {

// HAAST_ISA: the instruction set of the kernels to use (IsaName); else BestIsa(). kInvalidArgument where this processor has no such one.
Result<Isa> KnobIsa();
// XDG_CACHE_HOME, else HOME/.cache: where downloaded models are kept, without the trailing "/haast".
std::string KnobCacheHome();
// NO_COLOR: set and not empty, terminal output has no colours.
bool KnobNoColor();

}  // namespace haast::base
