// The GGUF container (github.com/ggml-org/ggml, docs/gguf.md), versions 2 and 3, little-endian: metadata and tensors of
// one file. What the keys mean is gguf_model.h's business.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "haast/result.h"
#include "io/raw_tensor.h"

namespace haast::io {

enum class GgufType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

// A value as it lies in the file; nothing is copied, so that a hostile length costs no memory.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;  // of an array
  uint64_t count = 1;                // of an array
  std::span<const uint8_t> bytes;    // number, characters of a string, or all elements of an array
};

// Keys and values. Readers give the value or the given default, and remember the first value that is of the wrong type or
// out of range: read all keys, then ask `status()` once.
class GgufMetadata {
 public:
  explicit GgufMetadata(std::string path) : path_(std::move(path)) {}

  bool Has(std::string_view key) const { return values_.contains(key); }
  // Any integer type, within [low, high]. An array counts where all its elements are equal (settings by layer).
  int64_t Integer(std::string_view key, int64_t absent, int64_t low, int64_t high) const;
  double Number(std::string_view key, double absent) const;
  float Positive(std::string_view key, float absent) const;  // above 0, and fp32 holds it
  bool Boolean(std::string_view key, bool absent) const;
  std::string Text(std::string_view key, std::string absent) const;
  // Arrays; empty where absent.
  std::vector<std::string> Texts(std::string_view key) const;
  std::vector<float> Floats(std::string_view key) const;
  std::vector<int32_t> Integers(std::string_view key) const;
  void Require(std::string_view key) const;

  // False where the key was there already.
  bool Add(std::string_view key, GgufValue value) { return values_.emplace(key, value).second; }
  // Remembers a complaint about `key`; the first one stays.
  void Fail(std::string_view key, const std::string& expected, const std::string& got, ErrorCode code = ErrorCode::kInvalidFile) const;
  Status status() const { return status_; }
  const std::string& path() const { return path_; }

 private:
  const GgufValue* Array(std::string_view key, GgufType element) const;

  std::string path_;
  std::map<std::string, GgufValue, std::less<>> values_;
  mutable Status status_;
};

struct GgufFile {
  uint32_t version = 0;
  GgufMetadata metadata;
  std::vector<RawTensor> tensors;  // names as stored, shapes row-major; in the order of the file
};

// Reads one file's bytes; views and values point into them.
Result<GgufFile> ReadGguf(std::span<const uint8_t> bytes, const std::string& path);

bool IsGguf(std::span<const uint8_t> bytes);

}  // namespace haast::io
