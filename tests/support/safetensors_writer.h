// Writes safetensors files for tests. Format: github.com/huggingface/safetensors README.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace haast::testing {

struct SafeTensor {
  std::string name;
  std::string dtype;  // as in the header: "F32", "BF16", "I64"
  std::vector<int64_t> shape;
  std::string data;
};

// Header (padded with spaces to 8 bytes), then the data without gaps in the given order.
std::string SafetensorsBytes(const std::vector<SafeTensor>& tensors);
// Any header in front of any data.
std::string SafetensorsBytes(const std::string& header, const std::string& data);

}  // namespace haast::testing
