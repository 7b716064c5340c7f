// Element types of weights, caches and activations. Block formats follow ggml's GGUF layouts.
#pragma once

#include <cstdint>
#include <string>

namespace haast {

enum class DType : uint8_t { kF32, kF16, kBF16, kI8, kI32, kI64, kBool, kQ4_0, kQ4_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K };

struct DTypeInfo {
  const char* name;
  int block_elements;  // elements of one block; 1 for plain types
  int block_bytes;
};

// Q4_0: f16 d, 16 B nibbles; Q4_1: f16 d, f16 m, 16 B; Q8_0: f16 d, 32 x int8 (blocks of 32). K-quants: super-blocks of
// 256: Q4_K 144 B, Q5_K 176 B, Q6_K 210 B.
const DTypeInfo& Info(DType dtype);

// Bytes of `elements` consecutive elements; `elements` must be a multiple of the block.
int64_t BytesOf(DType dtype, int64_t elements);

inline bool IsQuantised(DType dtype) { return dtype >= DType::kQ4_0; }
inline bool IsFloat(DType dtype) { return dtype <= DType::kBF16; }

float HalfToFloat(uint16_t half);
uint16_t FloatToHalf(float value);  // round to nearest even
inline float Bf16ToFloat(uint16_t value) {
  const uint32_t bits = static_cast<uint32_t>(value) << 16;
  float result;
  __builtin_memcpy(&result, &bits, sizeof(result));
  return result;
}
uint16_t FloatToBf16(float value);  // round to nearest even

}  // namespace haast
