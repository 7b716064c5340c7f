// A tensor entry of either format as it was read, and the checks that both share.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "haast/result.h"

namespace haast::io {

struct RawTensor {
  std::string name;
  TensorView view;     // `data` is set once its range is known to be inside the file
  uint64_t begin = 0;  // of its bytes, from the start of the data section
};

// A shape from the file, row-major. Sets rank, shape and dtype of `tensor` and gives its bytes. Refused, with path and
// name: no or more than four dimensions, a dimension of zero or less, more elements than 2^56, and for block formats a
// last dimension that is no multiple of the block.
Result<uint64_t> SetShape(RawTensor* tensor, std::span<const int64_t> shape, DType dtype, const std::string& path);

// Two tensors that share bytes, or a name that occurs twice. Sorts nothing that the caller can see.
Status CheckDistinct(const std::vector<RawTensor>& tensors, const std::string& path);

}  // namespace haast::io
