#include "io/safetensors_writer.h"

#include <cstring>

#include "base/check.h"
#include "base/format.h"

namespace haast::io {

namespace {

struct Layout {
  std::string header;
  std::vector<size_t> offsets;  // of each tensor behind the header
  size_t end = 0;
  size_t start() const { return sizeof(uint64_t) + header.size(); }
};

Layout MakeLayout(const std::vector<TensorSlot>& tensors) {
  Layout layout;
  layout.header.push_back('{');
  for (const TensorSlot& tensor : tensors) {
    HAAST_CHECK(!IsQuantised(tensor.dtype) && tensor.dtype != DType::kBool) << tensor.name;
    int64_t elements = 1;
    for (const int64_t size : tensor.shape) elements *= size;
    layout.offsets.push_back(layout.end);
    const size_t begin = layout.end;
    layout.end += static_cast<size_t>(BytesOf(tensor.dtype, elements));
    layout.header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", layout.offsets.size() > 1 ? "," : "",
                                 tensor.name, Info(tensor.dtype).name, fmt::join(tensor.shape, ","), begin, layout.end);
  }
  layout.header.push_back('}');
  layout.header.resize((layout.header.size() + 7) / 8 * 8, ' ');
  return layout;
}

}  // namespace

int64_t SafetensorsSize(const std::vector<TensorSlot>& tensors) {
  const Layout layout = MakeLayout(tensors);
  return static_cast<int64_t>(layout.start() + layout.end);
}

Result<SafetensorsImage> SafetensorsImage::Create(const std::vector<TensorSlot>& tensors) {
  SafetensorsImage image;
  Layout layout = MakeLayout(tensors);
  const uint64_t length = layout.header.size();
  HAAST_ASSIGN_OR_RETURN(image.buffer_, Buffer::Allocate(layout.start() + layout.end, "a safetensors file"));
  std::memcpy(image.buffer_.data(), &length, sizeof(length));
  std::memcpy(image.buffer_.data() + sizeof(length), layout.header.data(), layout.header.size());
  image.offsets_ = std::move(layout.offsets);
  for (size_t& offset : image.offsets_) offset += layout.start();
  return image;
}

}  // namespace haast::io
