// The refusal of an option or a parameter out of range.
#pragma once

#include "base/format.h"
#include "haast/result.h"

namespace haast::engine {

template <typename T>
Status CheckRange(const char* name, T value, T low, T high) {
  if (value >= low && value <= high) return {};
  return Err(ErrorCode::kInvalidArgument, "{} = {}: expected {} to {}", name, value, low, high);
}

}  // namespace haast::engine
