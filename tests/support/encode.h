// Rounds fp32 values to any element type, block formats included. For tests: simple rounding, no search for best scales.
#pragma once

#include <span>
#include <string>

#include "core/dtype.h"

namespace haast::testing {

// `values.size()` must be a multiple of the block. Layouts: ggml's block formats (core/dtype.h).
std::string Encode(std::span<const float> values, DType dtype);

}  // namespace haast::testing
