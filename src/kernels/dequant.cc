// Block formats to floats and back, following ggml's layouts (ggml-common.h, ggml-quants.c of the ggml project).
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "kernels/ops.h"

namespace haast::kernels {
namespace {

constexpr int kBlock = 32;   // elements of Q4_0, Q4_1 and Q8_0 blocks
constexpr int kSuper = 256;  // elements of a K-quant super-block

float LoadHalf(const uint8_t* p) {
  uint16_t half;
  std::memcpy(&half, p, sizeof(half));
  return HalfToFloat(half);
}

void StoreHalf(uint16_t half, uint8_t* p) { std::memcpy(p, &half, sizeof(half)); }

void DequantiseQ4_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const uint8_t* nibbles = block + 2;
  for (int i = 0; i < kBlock / 2; ++i) {
    out[i] = static_cast<float>((nibbles[i] & 15) - 8) * d;
    out[i + kBlock / 2] = static_cast<float>((nibbles[i] >> 4) - 8) * d;
  }
}

void DequantiseQ4_1(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  const float minimum = LoadHalf(block + 2);
  const uint8_t* nibbles = block + 4;
  for (int i = 0; i < kBlock / 2; ++i) {
    out[i] = static_cast<float>(nibbles[i] & 15) * d + minimum;
    out[i + kBlock / 2] = static_cast<float>(nibbles[i] >> 4) * d + minimum;
  }
}

void DequantiseQ8_0(const uint8_t* block, float* out) {
  const float d = LoadHalf(block);
  for (int i = 0; i < kBlock; ++i) out[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
}

struct ScaleAndMin {
  int scale;
  int min;
};

// Q4_K and Q5_K: eight 6-bit scales and eight 6-bit minima in 12 bytes. Sub-blocks 0-3 hold theirs in the low six bits of bytes
// 0-3 and 4-7; sub-blocks 4-7 take four bits from bytes 8-11 and the two high bits left over above.
ScaleAndMin UnpackScale(const uint8_t* packed, int sub_block) {
  if (sub_block < 4) return {packed[sub_block] & 63, packed[sub_block + 4] & 63};
  return {(packed[sub_block + 4] & 15) | ((packed[sub_block - 4] >> 6) << 4),
          (packed[sub_block + 4] >> 4) | ((packed[sub_block] >> 6) << 4)};
}

// Q4_K and Q5_K after their scales: out = scale * quant(sub_block, low nibble, i) - min. Each 32 bytes of nibbles hold one sub-block in the
// low and the next in the high nibbles.
template <typename Quant>
void DequantiseSubBlocks(const uint8_t* block, const uint8_t* all_nibbles, float* out, Quant quant) {
  const float d = LoadHalf(block);
  const float dmin = LoadHalf(block + 2);
  for (int sub = 0; sub < 8; ++sub) {
    const ScaleAndMin packed = UnpackScale(block + 4, sub);
    const float scale = d * static_cast<float>(packed.scale);
    const float min = dmin * static_cast<float>(packed.min);
    const uint8_t* nibbles = all_nibbles + sub / 2 * 32;
    for (int i = 0; i < 32; ++i) {
      const int low = sub % 2 == 0 ? nibbles[i] & 15 : nibbles[i] >> 4;
      out[sub * 32 + i] = scale * static_cast<float>(quant(sub, low, i)) - min;
    }
  }
}

// d, dmin, 12 bytes of scales, 128 bytes of nibbles.
void DequantiseQ4_K(const uint8_t* block, float* out) {
  DequantiseSubBlocks(block, block + 16, out, [](int, int low, int) { return low; });
}

// As Q4_K with a fifth bit: bit `sub` of byte i of the 32 bytes that stand between the scales and the nibbles.
void DequantiseQ5_K(const uint8_t* block, float* out) {
  const uint8_t* high = block + 16;
  DequantiseSubBlocks(block, block + 48, out, [high](int sub, int low, int i) { return low | (((high[i] >> sub) & 1) << 4); });
}

// 128 bytes of low nibbles, 64 bytes of high bit pairs, 16 signed 8-bit scales, d. Each half of 128 elements uses 64 and 32 bytes.
void DequantiseQ6_K(const uint8_t* block, float* out) {
  const float d = LoadHalf(block + 208);
  for (int i = 0; i < kSuper; ++i) {
    const int half = i / 128;
    const int quarter = i % 128 / 32;  // low nibbles of bytes 0-31, of 32-63, then the high nibbles of both
    const int lane = i % 32;
    const uint8_t low_byte = block[half * 64 + quarter % 2 * 32 + lane];
    const int low = quarter < 2 ? low_byte & 15 : low_byte >> 4;
    const int high = (block[128 + half * 32 + lane] >> (2 * quarter)) & 3;
    const int scale = static_cast<int8_t>(block[192 + i / 16]);
    out[i] = d * static_cast<float>(scale) * static_cast<float>((low | (high << 4)) - 32);
  }
}

using DequantiseBlock = void (*)(const uint8_t* block, float* out);

DequantiseBlock BlockFunction(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return DequantiseQ4_0;
    case DType::kQ4_1: return DequantiseQ4_1;
    case DType::kQ8_0: return DequantiseQ8_0;
    case DType::kQ4_K: return DequantiseQ4_K;
    case DType::kQ5_K: return DequantiseQ5_K;
    case DType::kQ6_K: return DequantiseQ6_K;
    default: return nullptr;
  }
}

// The element of largest magnitude with its sign; the first one on ties.
float SignedMaximum(const float* x) {
  float magnitude = 0.0f;
  float signed_max = 0.0f;
  for (int i = 0; i < kBlock; ++i) {
    if (std::fabs(x[i]) > magnitude) {
      magnitude = std::fabs(x[i]);
      signed_max = x[i];
    }
  }
  return signed_max;
}

// Truncation to [0, 15]; NaN, which a broken file may hold, gives 0.
int Nibble(float value) { return value > 0.0f ? static_cast<int>(std::min(value, 15.0f)) : 0; }

int8_t Byte(float value) {
  const float rounded = std::round(value);
  return rounded >= -127.0f ? static_cast<int8_t>(std::min(rounded, 127.0f)) : (rounded < -127.0f ? -127 : 0);
}

void QuantiseQ4_0(const float* x, uint8_t* block) {
  const float d = SignedMaximum(x) / -8.0f;
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  StoreHalf(FloatToHalf(d), block);
  for (int i = 0; i < kBlock / 2; ++i) {
    const int low = Nibble(x[i] * inverse + 8.5f);
    const int high = Nibble(x[i + kBlock / 2] * inverse + 8.5f);
    block[2 + i] = static_cast<uint8_t>(low | (high << 4));
  }
}

void QuantiseQ4_1(const float* x, uint8_t* block) {
  const auto [min, max] = std::minmax_element(x, x + kBlock);
  const float d = (*max - *min) / 15.0f;
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  StoreHalf(FloatToHalf(d), block);
  StoreHalf(FloatToHalf(*min), block + 2);
  for (int i = 0; i < kBlock / 2; ++i) {
    const int low = Nibble((x[i] - *min) * inverse + 0.5f);
    const int high = Nibble((x[i + kBlock / 2] - *min) * inverse + 0.5f);
    block[4 + i] = static_cast<uint8_t>(low | (high << 4));
  }
}

void QuantiseQ8_0(const float* x, uint8_t* block) {
  const float d = std::fabs(SignedMaximum(x)) / 127.0f;
  const float inverse = d != 0.0f ? 1.0f / d : 0.0f;
  StoreHalf(FloatToHalf(d), block);
  for (int i = 0; i < kBlock; ++i) block[2 + i] = static_cast<uint8_t>(Byte(x[i] * inverse));
}

}  // namespace

void DequantiseRow(const TensorView& matrix, int64_t row, float* out) {
  const int64_t k = matrix.cols();
  HAAST_CHECK(row >= 0 && row < matrix.rows()) << "row " << row << " of " << matrix.ToString();
  const uint8_t* data = static_cast<const uint8_t*>(matrix.data) + row * BytesOf(matrix.dtype, k);
  if (matrix.dtype == DType::kF32) {
    std::memcpy(out, data, static_cast<size_t>(k) * sizeof(float));
    return;
  }
  if (matrix.dtype == DType::kF16 || matrix.dtype == DType::kBF16) {
    const bool half = matrix.dtype == DType::kF16;
    for (int64_t i = 0; i < k; ++i) {
      uint16_t bits;
      std::memcpy(&bits, data + 2 * i, sizeof(bits));
      out[i] = half ? HalfToFloat(bits) : Bf16ToFloat(bits);
    }
    return;
  }
  const DequantiseBlock dequantise = BlockFunction(matrix.dtype);
  HAAST_CHECK(dequantise != nullptr) << matrix.ToString() << " has no float values";
  const DTypeInfo& info = Info(matrix.dtype);
  for (int64_t i = 0; i < k; i += info.block_elements, data += info.block_bytes) dequantise(data, out + i);
}

void QuantiseRow(const float* x, int64_t k, DType dtype, uint8_t* out) {
  HAAST_CHECK(k % kBlock == 0) << "k = " << k;
  HAAST_CHECK(dtype == DType::kQ4_0 || dtype == DType::kQ4_1 || dtype == DType::kQ8_0) << Info(dtype).name;
  const int block_bytes = Info(dtype).block_bytes;
  for (int64_t i = 0; i < k; i += kBlock, out += block_bytes) {
    if (dtype == DType::kQ4_0) QuantiseQ4_0(x + i, out);
    if (dtype == DType::kQ4_1) QuantiseQ4_1(x + i, out);
    if (dtype == DType::kQ8_0) QuantiseQ8_0(x + i, out);
  }
}

}  // namespace haast::kernels
