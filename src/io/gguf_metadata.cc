#include <cmath>

#include "base/format.h"
#include "io/byte_reader.h"
#include "io/config_check.h"
#include "io/gguf.h"

namespace haast::io {
namespace {

const char* TypeName(GgufType type) {
  static constexpr const char* kNames[] = {"uint8", "int8",   "uint16", "int16",  "uint32", "int32",  "float32",
                                           "bool",  "string", "array",  "uint64", "int64",  "float64"};
  return kNames[static_cast<size_t>(type)];
}

// An integer of any width; nothing for other types and for what exceeds int64.
std::optional<int64_t> WholeNumber(GgufType type, std::span<const uint8_t> bytes) {
  ByteReader reader(bytes);
  switch (type) {
    case GgufType::kU8: return reader.Number<uint8_t>();
    case GgufType::kI8: return reader.Number<int8_t>();
    case GgufType::kU16: return reader.Number<uint16_t>();
    case GgufType::kI16: return reader.Number<int16_t>();
    case GgufType::kU32: return reader.Number<uint32_t>();
    case GgufType::kI32: return reader.Number<int32_t>();
    case GgufType::kI64: return reader.Number<int64_t>();
    case GgufType::kU64: {
      const uint64_t value = reader.Number<uint64_t>();
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return std::nullopt;
      return static_cast<int64_t>(value);
    }
    default: return std::nullopt;
  }
}

std::string Describe(const GgufValue& value) {
  if (value.type == GgufType::kArray) return fmt::format("an array of {} {}", value.count, TypeName(value.element));
  if (value.type == GgufType::kString) return fmt::format("a string of {} bytes", value.bytes.size());
  const auto whole = WholeNumber(value.type, value.bytes);
  return whole ? fmt::format("{} {}", TypeName(value.type), *whole) : fmt::format("a {}", TypeName(value.type));
}

// The one value of an array whose elements are all equal.
std::optional<int64_t> CommonNumber(const GgufValue& array) {
  if (array.count == 0 || array.bytes.size() % array.count != 0) return std::nullopt;
  const uint64_t width = array.bytes.size() / array.count;
  const auto first = WholeNumber(array.element, array.bytes.first(width));
  for (uint64_t i = 1; first && i < array.count; ++i) {
    if (WholeNumber(array.element, array.bytes.subspan(i * width, width)) != first) return std::nullopt;
  }
  return first;
}

}  // namespace

void GgufMetadata::Fail(std::string_view key, const std::string& expected, const std::string& got, ErrorCode code) const {
  if (status_) status_ = Err(code, "{}: key {}: expected {}, got {}", path_, key, expected, got);
}

void GgufMetadata::Require(std::string_view key) const {
  if (!Has(key)) Fail(key, "a value", "no such key");
}

int64_t GgufMetadata::Integer(std::string_view key, int64_t absent, int64_t low, int64_t high) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return absent;
  const GgufValue& value = found->second;
  const auto number = value.type == GgufType::kArray ? CommonNumber(value) : WholeNumber(value.type, value.bytes);
  if (number && *number >= low && *number <= high) return *number;
  Fail(key, fmt::format("a whole number from {} to {}", low, high), Describe(value));
  return absent;
}

double GgufMetadata::Number(std::string_view key, double absent) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return absent;
  const GgufValue& value = found->second;
  ByteReader reader(value.bytes);
  if (value.type == GgufType::kF32) return reader.Number<float>();
  if (value.type == GgufType::kF64) return reader.Number<double>();
  if (const auto whole = WholeNumber(value.type, value.bytes)) return static_cast<double>(*whole);
  Fail(key, "a number", Describe(value));
  return absent;
}

float GgufMetadata::Positive(std::string_view key, float absent) const {
  const double number = Number(key, absent);
  if (IsPositiveFloat(number)) return static_cast<float>(number);
  Fail(key, kPositiveFloat, fmt::format("{}", number));
  return absent;
}

bool GgufMetadata::Boolean(std::string_view key, bool absent) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return absent;
  if (found->second.type == GgufType::kBool && found->second.bytes[0] <= 1) return found->second.bytes[0] == 1;
  Fail(key, "a bool of 0 or 1", Describe(found->second));
  return absent;
}

std::string GgufMetadata::Text(std::string_view key, std::string absent) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return absent;
  const auto bytes = found->second.bytes;
  if (found->second.type == GgufType::kString) return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  Fail(key, "a string", Describe(found->second));
  return absent;
}

const GgufValue* GgufMetadata::Array(std::string_view key, GgufType element) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  if (found->second.type == GgufType::kArray && found->second.element == element) return &found->second;
  Fail(key, fmt::format("an array of {}", TypeName(element)), Describe(found->second));
  return nullptr;
}

std::vector<std::string> GgufMetadata::Texts(std::string_view key) const {
  std::vector<std::string> result;
  const GgufValue* array = Array(key, GgufType::kString);
  if (array == nullptr) return result;
  result.reserve(array->count);  // the file holds at least 8 bytes for each
  ByteReader reader(array->bytes);
  for (uint64_t i = 0; i < array->count; ++i) result.emplace_back(reader.String());
  return result;
}

std::vector<float> GgufMetadata::Floats(std::string_view key) const {
  std::vector<float> result;
  const GgufValue* array = Array(key, GgufType::kF32);
  if (array == nullptr) return result;
  ByteReader reader(array->bytes);
  for (uint64_t i = 0; i < array->count; ++i) result.push_back(reader.Number<float>());
  return result;
}

std::vector<int32_t> GgufMetadata::Integers(std::string_view key) const {
  std::vector<int32_t> result;
  const GgufValue* array = Array(key, GgufType::kI32);
  if (array == nullptr) return result;
  ByteReader reader(array->bytes);
  for (uint64_t i = 0; i < array->count; ++i) result.push_back(reader.Number<int32_t>());
  return result;
}

}  // namespace haast::io
