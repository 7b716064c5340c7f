// What the contract of Ops::linear asks of its caller, checked by every backend. Private to src/kernels.
#pragma once

#include <span>

#include "kernels/ops.h"

namespace haast::kernels {

// At least one row and one task. Strides reach over the rows, all weights have the same K, no output overlaps `x` or `up`.
void CheckLinear(const LinearInput& input, std::span<const LinearTask> tasks);

}  // namespace haast::kernels
