#include "core/dtype.h"

#include <cstring>

#include "base/check.h"

namespace haast {

const DTypeInfo& Info(DType dtype) {
  static constexpr DTypeInfo kInfo[] = {
      {"F32", 1, 4},    {"F16", 1, 2},    {"BF16", 1, 2},   {"I8", 1, 1},       {"I32", 1, 4},      {"I64", 1, 8},      {"BOOL", 1, 1},
      {"Q4_0", 32, 18}, {"Q4_1", 32, 20}, {"Q8_0", 32, 34}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
  };
  return kInfo[static_cast<int>(dtype)];
}

int64_t BytesOf(DType dtype, int64_t elements) {
  const DTypeInfo& info = Info(dtype);
  HAAST_CHECK(elements % info.block_elements == 0) << elements << " elements of " << info.name;
  return elements / info.block_elements * info.block_bytes;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = (half >> 10) & 31;
  uint32_t mantissa = half & 1023;
  uint32_t bits;
  if (exponent == 31) {
    bits = sign | 0x7f800000 | (mantissa << 13);
  } else if (exponent != 0) {
    bits = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else if (mantissa == 0) {
    bits = sign;
  } else {  // subnormal: normalise
    int shift = 0;
    while ((mantissa & 1024) == 0) {
      mantissa <<= 1;
      ++shift;
    }
    bits = sign | (static_cast<uint32_t>(113 - shift) << 23) | ((mantissa & 1023) << 13);
  }
  float result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

uint16_t FloatToHalf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;   // NaN
  if (magnitude >= 0x477ff000) return sign | 0x7c00;  // 65520 and more round to infinity
  if (magnitude < 0x38800000) {                       // below 2^-14: subnormal result
    if (magnitude < 0x33000000) return sign;          // below 2^-25
    const uint32_t exponent = magnitude >> 23;
    const uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
    const uint32_t shift = 126 - exponent;  // 14 .. 24
    const uint32_t kept = mantissa >> shift;
    const uint32_t rest = mantissa & ((1u << shift) - 1);
    const uint32_t half = 1u << (shift - 1);
    return sign | static_cast<uint16_t>(kept + (rest > half || (rest == half && (kept & 1))));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded >> 13) - (112 << 10));
}

uint16_t FloatToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits >> 16) | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

}  // namespace haast
