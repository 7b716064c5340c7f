#include "support/safetensors_writer.h"

#include <nlohmann/json.hpp>

#include "support/gguf_writer.h"

namespace haast::testing {

std::string SafetensorsBytes(const std::string& header, const std::string& data) {
  return LittleEndian<uint64_t>(header.size()) + header + data;
}

std::string SafetensorsBytes(const std::vector<SafeTensor>& tensors) {
  nlohmann::ordered_json header{{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const SafeTensor& tensor : tensors) {
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {data.size(), data.size() + tensor.data.size()}}};
    data += tensor.data;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return SafetensorsBytes(text, data);
}

}  // namespace haast::testing
