#include "support/gguf_writer.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/check.h"

namespace haast::testing {

std::string GgufStringBytes(const std::string& text) { return LittleEndian<uint64_t>(text.size()) + text; }

void GgufWriter::Raw(const std::string& key, uint32_t type, const std::string& payload) {
  values_.emplace_back(key, LittleEndian(type) + payload);
}

void GgufWriter::String(const std::string& key, const std::string& value) { Raw(key, kGgufString, GgufStringBytes(value)); }
void GgufWriter::U32(const std::string& key, uint32_t value) { Raw(key, kGgufU32, LittleEndian(value)); }
void GgufWriter::U64(const std::string& key, uint64_t value) { Raw(key, kGgufU64, LittleEndian(value)); }
void GgufWriter::I32(const std::string& key, int32_t value) { Raw(key, kGgufI32, LittleEndian(value)); }
void GgufWriter::F32(const std::string& key, float value) { Raw(key, kGgufF32, LittleEndian(value)); }
void GgufWriter::Bool(const std::string& key, bool value) { Raw(key, kGgufBool, std::string(1, value ? '\1' : '\0')); }

void GgufWriter::Strings(const std::string& key, const std::vector<std::string>& values) {
  std::string payload = LittleEndian<uint32_t>(kGgufString) + LittleEndian<uint64_t>(values.size());
  for (const std::string& value : values) payload += GgufStringBytes(value);
  Raw(key, kGgufArray, payload);
}

void GgufWriter::Floats(const std::string& key, const std::vector<float>& values) {
  std::string payload = LittleEndian<uint32_t>(kGgufF32) + LittleEndian<uint64_t>(values.size());
  for (float value : values) payload += LittleEndian(value);
  Raw(key, kGgufArray, payload);
}

void GgufWriter::Ints(const std::string& key, const std::vector<int32_t>& values) {
  std::string payload = LittleEndian<uint32_t>(kGgufI32) + LittleEndian<uint64_t>(values.size());
  for (int32_t value : values) payload += LittleEndian(value);
  Raw(key, kGgufArray, payload);
}

bool GgufWriter::Remove(const std::string& key) {
  return std::erase_if(values_, [&](const auto& value) { return value.first == key; }) > 0;
}

std::string GgufWriter::Bytes() const {
  std::string out = LittleEndian(magic) + LittleEndian(version);
  out += LittleEndian<uint64_t>(tensor_count < 0 ? tensors_.size() : static_cast<uint64_t>(tensor_count));
  out += LittleEndian<uint64_t>(value_count < 0 ? values_.size() : static_cast<uint64_t>(value_count));
  for (const auto& [key, value] : values_) out += GgufStringBytes(key) + value;
  const auto pad = [this](std::string& bytes) { bytes.resize((bytes.size() + alignment - 1) / alignment * alignment, '\0'); };
  std::string data;
  for (const GgufTensor& tensor : tensors_) {
    out += GgufStringBytes(tensor.name) + LittleEndian<uint32_t>(static_cast<uint32_t>(tensor.dims.size()));
    for (uint64_t dim : tensor.dims) out += LittleEndian(dim);
    out += LittleEndian(tensor.type) + LittleEndian<uint64_t>(tensor.offset < 0 ? data.size() : static_cast<uint64_t>(tensor.offset));
    data += tensor.data;
    pad(data);
  }
  pad(out);
  return out + data;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  HAAST_CHECK(file.good()) << "cannot write " << path;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  HAAST_CHECK(file.good()) << "cannot read " << path;
  return bytes.str();
}

}  // namespace haast::testing
