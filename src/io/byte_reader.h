// Reads little-endian numbers and byte runs from a span, never beyond its end.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace haast::io {

static_assert(std::endian::native == std::endian::little, "model files are little-endian and are read in place");

// After the first read beyond the end every read gives zero or nothing, and `ok()` is false.
class ByteReader {
 public:
  explicit ByteReader(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  template <typename T>
  T Number() {
    T value{};
    const auto run = Run(sizeof(T));
    if (run.size() == sizeof(T)) std::memcpy(&value, run.data(), sizeof(T));
    return value;
  }

  std::span<const uint8_t> Run(uint64_t size) {
    if (!ok_ || size > remaining()) {
      ok_ = false;
      return {};
    }
    const auto run = bytes_.subspan(position_, size);
    position_ += size;
    return run;
  }

  // A 64-bit length and its characters.
  std::string_view String() {
    const auto run = Run(Number<uint64_t>());
    return {reinterpret_cast<const char*>(run.data()), run.size()};
  }

  bool ok() const { return ok_; }
  uint64_t position() const { return position_; }
  uint64_t remaining() const { return bytes_.size() - position_; }
  // What lies between `begin` and here.
  std::span<const uint8_t> Since(uint64_t begin) const { return bytes_.subspan(begin, position_ - begin); }

 private:
  std::span<const uint8_t> bytes_;
  uint64_t position_ = 0;
  bool ok_ = true;
};

}  // namespace haast::io
