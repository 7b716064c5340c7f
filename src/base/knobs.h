// The one table of environment variables this program reads. Anything a user should set often is a flag instead.
#pragma once

#include <optional>
#include <string>

namespace haast::base {

// HAAST_ISA=portable|avx2|avx512|avx512-vnni: use this instruction set's kernels instead of the best supported one.
std::optional<std::string> KnobIsa();
// XDG_CACHE_HOME, else HOME/.cache: where downloaded models are kept, without the trailing "/haast".
std::string KnobCacheHome();
// NO_COLOR: set and not empty, terminal output has no colours.
bool KnobNoColor();

}  // namespace haast::base
