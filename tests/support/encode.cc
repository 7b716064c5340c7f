#include "support/encode.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

#include "base/check.h"
#include "support/gguf_writer.h"

namespace haast::testing {
namespace {

// Round half away from zero, clamped: the same on every machine.
int Round(float value, int low, int high) { return std::clamp(static_cast<int>(std::floor(value + 0.5f)), low, high); }

float Largest(std::span<const float> x) {
  float largest = 0;
  for (float value : x) largest = std::max(largest, std::fabs(value));
  return largest;
}

float Inverse(float scale) { return scale == 0 ? 0 : 1 / scale; }

std::string EncodeQ8_0(std::span<const float> x) {
  const uint16_t d = FloatToHalf(Largest(x) / 127);
  const float inverse = Inverse(HalfToFloat(d));
  std::string out = LittleEndian(d);
  for (float value : x) out += static_cast<char>(Round(value * inverse, -127, 127));
  return out;
}

// Two nibbles a byte: element i low, element i + 16 high.
template <typename ToNibble>
std::string Nibbles(std::span<const float> x, ToNibble to_nibble) {
  std::string out;
  for (size_t i = 0; i < 16; ++i) out += static_cast<char>(to_nibble(x[i]) | to_nibble(x[i + 16]) << 4);
  return out;
}

std::string EncodeQ4_0(std::span<const float> x) {
  const uint16_t d = FloatToHalf(Largest(x) / 7);
  const float inverse = Inverse(HalfToFloat(d));
  return LittleEndian(d) + Nibbles(x, [&](float value) { return Round(value * inverse, -8, 7) + 8; });
}

std::string EncodeQ4_1(std::span<const float> x) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  const uint16_t m = FloatToHalf(*low);
  const uint16_t d = FloatToHalf((*high - *low) / 15);
  const float base = HalfToFloat(m), inverse = Inverse(HalfToFloat(d));
  return LittleEndian(d) + LittleEndian(m) + Nibbles(x, [&](float value) { return Round((value - base) * inverse, 0, 15); });
}

// Scales and minima (6 bits each) of the eight 32-element parts of a Q4_K or Q5_K super-block, and its quants.
struct KParts {
  uint16_t d, dmin;
  std::array<int, 8> scale, minimum;
  std::array<int, 256> quant;
};

KParts SplitK(std::span<const float> x, int levels) {
  KParts parts{};
  std::array<float, 8> range, low;
  for (size_t part = 0; part < 8; ++part) {
    const auto [least, most] = std::minmax_element(x.begin() + part * 32, x.begin() + part * 32 + 32);
    low[part] = std::min(*least, 0.0f);
    range[part] = (*most - low[part]) / static_cast<float>(levels);
  }
  parts.d = FloatToHalf(*std::max_element(range.begin(), range.end()) / 63);
  parts.dmin = FloatToHalf(-*std::min_element(low.begin(), low.end()) / 63);
  const float d = HalfToFloat(parts.d), dmin = HalfToFloat(parts.dmin);
  for (size_t part = 0; part < 8; ++part) {
    parts.scale[part] = Round(range[part] * Inverse(d), 0, 63);
    parts.minimum[part] = Round(-low[part] * Inverse(dmin), 0, 63);
    const float inverse = Inverse(d * static_cast<float>(parts.scale[part]));
    const float base = dmin * static_cast<float>(parts.minimum[part]);
    for (size_t i = part * 32; i < part * 32 + 32; ++i) parts.quant[i] = Round((x[i] + base) * inverse, 0, levels);
  }
  return parts;
}

// d, dmin and the 12 bytes that hold 8 scales and 8 minima of 6 bits.
std::string KHeader(const KParts& parts) {
  std::array<int, 12> packed{};
  for (size_t i = 0; i < 4; ++i) {
    packed[i] = parts.scale[i] | (parts.scale[i + 4] >> 4) << 6;
    packed[i + 4] = parts.minimum[i] | (parts.minimum[i + 4] >> 4) << 6;
    packed[i + 8] = (parts.scale[i + 4] & 15) | (parts.minimum[i + 4] & 15) << 4;
  }
  std::string out = LittleEndian(parts.d) + LittleEndian(parts.dmin);
  for (int byte : packed) out += static_cast<char>(byte);
  return out;
}

// Low four bits: parts 2p and 2p + 1 share 32 bytes.
std::string KNibbles(const KParts& parts) {
  std::string out;
  for (size_t pair = 0; pair < 4; ++pair) {
    for (size_t i = pair * 64; i < pair * 64 + 32; ++i) out += static_cast<char>((parts.quant[i] & 15) | (parts.quant[i + 32] & 15) << 4);
  }
  return out;
}

std::string EncodeQ4_K(std::span<const float> x) {
  const KParts parts = SplitK(x, 15);
  return KHeader(parts) + KNibbles(parts);
}

std::string EncodeQ5_K(std::span<const float> x) {
  const KParts parts = SplitK(x, 31);
  std::string high;
  for (size_t i = 0; i < 32; ++i) {
    int bits = 0;
    for (size_t part = 0; part < 8; ++part) bits |= (parts.quant[part * 32 + i] >> 4) << part;
    high += static_cast<char>(bits);
  }
  return KHeader(parts) + high + KNibbles(parts);
}

std::string EncodeQ6_K(std::span<const float> x) {
  std::array<float, 16> range;
  for (size_t part = 0; part < 16; ++part) range[part] = Largest(x.subspan(part * 16, 16)) / 31;
  const uint16_t d = FloatToHalf(*std::max_element(range.begin(), range.end()) / 127);
  std::array<int, 16> scale;
  std::array<int, 256> quant;  // 0 .. 63
  for (size_t part = 0; part < 16; ++part) {
    scale[part] = Round(range[part] * Inverse(HalfToFloat(d)), 0, 127);
    const float inverse = Inverse(HalfToFloat(d) * static_cast<float>(scale[part]));
    for (size_t i = part * 16; i < part * 16 + 16; ++i) quant[i] = Round(x[i] * inverse, -32, 31) + 32;
  }
  std::string low, high, out;
  for (size_t half = 0; half < 256; half += 128) {
    for (size_t i = half; i < half + 64; ++i) low += static_cast<char>((quant[i] & 15) | (quant[i + 64] & 15) << 4);
    for (size_t i = half; i < half + 32; ++i) {
      high += static_cast<char>(quant[i] >> 4 | (quant[i + 32] >> 4) << 2 | (quant[i + 64] >> 4) << 4 | (quant[i + 96] >> 4) << 6);
    }
  }
  out = low + high;
  for (int value : scale) out += static_cast<char>(value);
  return out + LittleEndian(d);
}

std::string EncodeBlock(std::span<const float> x, DType dtype) {
  switch (dtype) {
    case DType::kF32: return LittleEndian(x[0]);
    case DType::kF16: return LittleEndian(FloatToHalf(x[0]));
    case DType::kBF16: return LittleEndian(FloatToBf16(x[0]));
    case DType::kQ8_0: return EncodeQ8_0(x);
    case DType::kQ4_0: return EncodeQ4_0(x);
    case DType::kQ4_1: return EncodeQ4_1(x);
    case DType::kQ4_K: return EncodeQ4_K(x);
    case DType::kQ5_K: return EncodeQ5_K(x);
    case DType::kQ6_K: return EncodeQ6_K(x);
    default: HAAST_CHECK(false) << "no encoder for " << Info(dtype).name; return {};
  }
}

}  // namespace

std::string Encode(std::span<const float> values, DType dtype) {
  const size_t block = static_cast<size_t>(Info(dtype).block_elements);
  HAAST_CHECK(values.size() % block == 0) << values.size() << " values of " << Info(dtype).name;
  std::string out;
  out.reserve(static_cast<size_t>(BytesOf(dtype, static_cast<int64_t>(values.size()))));
  for (size_t i = 0; i < values.size(); i += block) out += EncodeBlock(values.subspan(i, block), dtype);
  return out;
}

}  // namespace haast::testing
