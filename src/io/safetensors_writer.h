// Writes the safetensors format (github.com/huggingface/safetensors, README "Format").
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/buffer.h"
#include "core/dtype.h"
#include "haast/result.h"

namespace haast::io {

struct TensorSlot {
  std::string name;           // printable ASCII without quotes or backslashes
  DType dtype = DType::kF32;  // F32, F16, BF16, I8, I32 or I64
  std::vector<int64_t> shape;
};

// Bytes of such a file.
int64_t SafetensorsSize(const std::vector<TensorSlot>& tensors);

// A whole file in memory, header included, whose tensors are filled in place.
class SafetensorsImage {
 public:
  // Zeroed tensors, one after another in the given order: the largest elements first, and all are aligned. kOutOfMemory.
  static Result<SafetensorsImage> Create(const std::vector<TensorSlot>& tensors);

  uint8_t* data(size_t tensor) { return buffer_.data() + offsets_[tensor]; }
  std::span<const uint8_t> bytes() const { return {buffer_.data(), buffer_.size()}; }

 private:
  Buffer buffer_;
  std::vector<size_t> offsets_;  // of each tensor in the file
};

}  // namespace haast::io
