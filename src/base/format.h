// One way to format text: fmt, and an Error from a format string.
#pragma once

#include <fmt/format.h>

#include "haast/result.h"

namespace haast {

template <typename... Args>
tl::unexpected<Error> Err(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace haast
