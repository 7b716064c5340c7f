// Writes GGUF v3 files for tests, well-formed or deliberately not: every field of a tensor entry can be set by hand.
// Format: github.com/ggml-org/ggml docs/gguf.md.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace haast::testing {

// Value types of metadata and tensor types as the format numbers them.
enum GgufValue : uint32_t { kGgufU32 = 4, kGgufI32 = 5, kGgufF32 = 6, kGgufBool = 7, kGgufString = 8, kGgufArray = 9, kGgufU64 = 10 };
enum GgmlType : uint32_t {
  kGgmlF32 = 0,
  kGgmlF16 = 1,
  kGgmlQ4_0 = 2,
  kGgmlQ4_1 = 3,
  kGgmlQ5_0 = 6,
  kGgmlQ8_0 = 8,
  kGgmlQ4_K = 12,
  kGgmlQ5_K = 13,
  kGgmlQ6_K = 14,
  kGgmlBF16 = 30
};

struct GgufTensor {
  std::string name;
  std::vector<uint64_t> dims;  // as stored: the contiguous one first
  uint32_t type = kGgmlF32;
  std::string data;
  int64_t offset = -1;  // -1: behind the tensor before, aligned
};

class GgufWriter {
 public:
  uint32_t magic = 0x46554747;  // "GGUF"
  uint32_t version = 3;
  int64_t tensor_count = -1;  // -1: the true one
  int64_t value_count = -1;
  uint32_t alignment = 32;  // of the data; set the key general.alignment by hand where it differs

  void String(const std::string& key, const std::string& value);
  void U32(const std::string& key, uint32_t value);
  void U64(const std::string& key, uint64_t value);
  void I32(const std::string& key, int32_t value);
  void F32(const std::string& key, float value);
  void Bool(const std::string& key, bool value);
  void Strings(const std::string& key, const std::vector<std::string>& values);
  void Floats(const std::string& key, const std::vector<float>& values);
  void Ints(const std::string& key, const std::vector<int32_t>& values);
  // `payload` is what follows the type number, byte for byte.
  void Raw(const std::string& key, uint32_t type, const std::string& payload);
  // Removes a key that was added; true where it was there.
  bool Remove(const std::string& key);
  void Tensor(GgufTensor tensor) { tensors_.push_back(std::move(tensor)); }
  std::vector<GgufTensor>& tensors() { return tensors_; }

  std::string Bytes() const;

 private:
  std::vector<std::pair<std::string, std::string>> values_;  // key, type and value as bytes
  std::vector<GgufTensor> tensors_;
};

// Little-endian bytes of a number.
template <typename T>
std::string LittleEndian(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}
std::string GgufStringBytes(const std::string& text);  // 64-bit length, bytes

void WriteFile(const std::string& path, const std::string& bytes);
std::string ReadFile(const std::string& path);

}  // namespace haast::testing
