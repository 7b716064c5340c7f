// A tensor somebody else owns: pointer, element type, shape.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/dtype.h"

namespace haast {

// Row-major: shape[rank-1] is contiguous. Block formats have their blocks along the last dimension.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::kF32;
  int rank = 0;
  std::array<int64_t, 4> shape{};

  int64_t elements() const;
  int64_t bytes() const { return BytesOf(dtype, elements()); }
  int64_t rows() const { return rank == 0 ? 0 : elements() / shape[rank - 1]; }
  int64_t cols() const { return rank == 0 ? 0 : shape[rank - 1]; }
  // "[576, 1728] BF16"
  std::string ToString() const;
  bool HasShape(std::initializer_list<int64_t> expected) const;
};

std::string ShapeToString(std::initializer_list<int64_t> shape);

}  // namespace haast
