#include "core/tensor.h"

#include <fmt/format.h>

#include <algorithm>

namespace haast {

int64_t TensorView::elements() const {
  int64_t count = rank == 0 ? 0 : 1;
  for (int i = 0; i < rank; ++i) count *= shape[i];
  return count;
}

std::string TensorView::ToString() const {
  return fmt::format("[{}] {}", fmt::join(shape.begin(), shape.begin() + rank, ", "), Info(dtype).name);
}

bool TensorView::HasShape(std::initializer_list<int64_t> expected) const {
  return static_cast<size_t>(rank) == expected.size() && std::equal(expected.begin(), expected.end(), shape.begin());
}

std::string ShapeToString(std::initializer_list<int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

}  // namespace haast
