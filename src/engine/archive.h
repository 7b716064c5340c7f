// Plain values to bytes and back. The fields of a struct are named once, for both directions, in a function
//   template <typename Archive, typename Value> void Describe(Archive& archive, Value& value)
// beside the archive's user. Numbers are little-endian and of fixed size; what is read is never trusted.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "io/byte_reader.h"

namespace haast::engine {

template <typename T>
inline constexpr bool kIsVector = false;
template <typename T>
inline constexpr bool kIsVector<std::vector<T>> = true;
template <typename T>
inline constexpr bool kIsArray = false;
template <typename T, size_t n>
inline constexpr bool kIsArray<std::array<T, n>> = true;
// Numbers and enums; a vector of bool has no elements to point at.
template <typename T>
inline constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

// Appends to `bytes`.
class ArchiveWriter {
 public:
  explicit ArchiveWriter(std::vector<uint8_t>* bytes) : bytes_(*bytes) {}

  template <typename... T>
  void operator()(const T&... values) {
    (One(values), ...);
  }
  void Raw(const void* data, size_t size);

 private:
  template <typename T>
  void One(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      One(static_cast<uint8_t>(value));
    } else if constexpr (kIsPlain<T>) {
      Raw(&value, sizeof(value));
    } else if constexpr (std::is_same_v<T, std::string>) {
      One(static_cast<uint64_t>(value.size()));
      Raw(value.data(), value.size());
    } else if constexpr (kIsVector<T>) {
      One(static_cast<uint64_t>(value.size()));
      if constexpr (kIsPlain<typename T::value_type>) {
        Raw(value.data(), value.size() * sizeof(typename T::value_type));
      } else {
        for (const auto& element : value) One(element);
      }
    } else if constexpr (kIsArray<T>) {
      for (const auto& element : value) One(element);
    } else {
      Describe(*this, value);
    }
  }

  std::vector<uint8_t>& bytes_;
};

// After the first value that is not there or not well-formed, `ok()` is false and every further one is left as it is.
class ArchiveReader {
 public:
  explicit ArchiveReader(std::span<const uint8_t> bytes) : reader_(bytes) {}

  template <typename... T>
  void operator()(T&... values) {
    (One(values), ...);
  }
  std::span<const uint8_t> Raw(uint64_t size) { return reader_.Run(size); }
  bool ok() const { return ok_ && reader_.ok(); }
  bool at_end() const { return ok() && reader_.remaining() == 0; }

 private:
  template <typename T>
  void One(T& value) {
    if (!ok()) return;
    if constexpr (std::is_same_v<T, bool>) {
      const auto byte = reader_.Number<uint8_t>();
      ok_ = byte <= 1;
      value = byte == 1;
    } else if constexpr (kIsPlain<T>) {
      value = reader_.Number<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = std::string(reader_.String());
    } else if constexpr (kIsVector<T>) {
      Elements(value);
    } else if constexpr (kIsArray<T>) {
      for (auto& element : value) One(element);
    } else {
      Describe(*this, value);
    }
  }

  // A count is believed only as far as the bytes that are left.
  template <typename E>
  void Elements(std::vector<E>& values) {
    const uint64_t count = reader_.Number<uint64_t>();
    const uint64_t least = kIsPlain<E> ? sizeof(E) : 1;
    ok_ = count <= reader_.remaining() / least;
    values.clear();
    if (!ok()) return;
    if constexpr (kIsPlain<E>) {
      const auto run = reader_.Run(count * sizeof(E));
      values.resize(count);
      if (count > 0) std::memcpy(values.data(), run.data(), run.size());
    } else {
      for (uint64_t i = 0; i < count && ok(); ++i) One(values.emplace_back());
    }
  }

  io::ByteReader reader_;
  bool ok_ = true;
};

}  // namespace haast::engine
