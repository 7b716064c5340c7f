// Monotonic time in seconds, for measurements only: policies get time as an argument.
#pragma once

#include <chrono>

namespace haast::base {

inline double NowSeconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace haast::base
