#include "io/raw_tensor.h"

#include <algorithm>

#include "base/format.h"
#include "base/printable.h"

namespace haast::io {

namespace {
constexpr int64_t kMaxElements = int64_t{1} << 56;  // times 8 bytes still fits 63 bits
}

Result<uint64_t> SetShape(RawTensor* tensor, std::span<const int64_t> shape, DType dtype, const std::string& path) {
  TensorView& view = tensor->view;
  if (shape.empty() || shape.size() > view.shape.size()) {
    return Err(ErrorCode::kUnsupported, "{}: tensor {}: expected 1 to {} dimensions, got {}", path, base::Label(tensor->name),
               view.shape.size(), shape.size());
  }
  int64_t elements = 1;
  for (const int64_t dim : shape) {
    if (dim <= 0)
      return Err(ErrorCode::kInvalidFile, "{}: tensor {}: expected dimensions above zero, got [{}]", path, base::Label(tensor->name),
                 fmt::join(shape, ", "));
    if (dim > kMaxElements / elements) {
      return Err(ErrorCode::kInvalidFile, "{}: tensor {}: expected at most 2^56 elements, got [{}]", path, base::Label(tensor->name),
                 fmt::join(shape, ", "));
    }
    elements *= dim;
  }
  const DTypeInfo& info = Info(dtype);
  if (shape.back() % info.block_elements != 0) {
    return Err(ErrorCode::kInvalidFile, "{}: tensor {}: expected rows of a multiple of {} elements for {}, got {}", path,
               base::Label(tensor->name), info.block_elements, info.name, shape.back());
  }
  view.dtype = dtype;
  view.rank = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  return static_cast<uint64_t>(view.bytes());
}

Status CheckDistinct(const std::vector<RawTensor>& tensors, const std::string& path) {
  std::vector<const RawTensor*> order;
  order.reserve(tensors.size());
  for (const RawTensor& tensor : tensors) order.push_back(&tensor);
  std::sort(order.begin(), order.end(), [](const RawTensor* a, const RawTensor* b) { return a->begin < b->begin; });
  for (size_t i = 1; i < order.size(); ++i) {
    const uint64_t end = order[i - 1]->begin + static_cast<uint64_t>(order[i - 1]->view.bytes());
    if (order[i]->begin < end) {
      return Err(ErrorCode::kInvalidFile, "{}: tensors {} and {} overlap: expected the second at byte {} of the data or later, got {}",
                 path, base::Label(order[i - 1]->name), base::Label(order[i]->name), end, order[i]->begin);
    }
  }
  std::sort(order.begin(), order.end(), [](const RawTensor* a, const RawTensor* b) { return a->name < b->name; });
  for (size_t i = 1; i < order.size(); ++i) {
    if (order[i]->name == order[i - 1]->name) {
      return Err(ErrorCode::kInvalidFile, "{}: expected tensors of different names, got two of {}", path, base::Label(order[i]->name));
    }
  }
  return {};
}

}  // namespace haast::io
