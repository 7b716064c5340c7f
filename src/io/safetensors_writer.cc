#include "io/safetensors_writer.h"

#include <cstring>

#include "base/check.h"
#include "base/format.h"

namespace haast::io {

Result<SafetensorsImage> SafetensorsImage::Create(const std::vector<TensorSlot>& tensors) {
  SafetensorsImage image;
  std::string header = "{";
  size_t end = 0;
  for (const TensorSlot& tensor : tensors) {
    HAAST_CHECK(!IsQuantised(tensor.dtype) && tensor.dtype != DType::kBool) << tensor.name;
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= size;
    image.offsets_.push_back(end);
    const size_t begin = end;
    end += static_cast<size_t>(BytesOf(tensor.dtype, elements));
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", image.offsets_.size() > 1 ? "," : "",
                          tensor.name, Info(tensor.dtype).name, fmt::join(tensor.shape, ","), begin, end);
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const uint64_t length = header.size();
  const size_t start = sizeof(length) + header.size();
  HAAST_ASSIGN_OR_RETURN(image.buffer_, Buffer::Allocate(start + end, "a safetensors file"));
  std::memcpy(image.buffer_.data(), &length, sizeof(length));
  std::memcpy(image.buffer_.data() + sizeof(length), header.data(), header.size());
  for (size_t& offset : image.offsets_) offset += start;
  return image;
}

}  // namespace haast::io
