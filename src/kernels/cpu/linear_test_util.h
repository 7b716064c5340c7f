// Random weights and inputs for the tests of the products.
#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/linear_kernels.h"

namespace haast::kernels {

#if defined(__x86_64__)
// The AVX-512 kernels as this test compiled them: through SIMDe, for processors without these instructions.
const IsaKernels& EmulatedAvx512Linear();
const IsaKernels& EmulatedAvx512VnniLinear();
#endif

namespace testing_util {

// Every instruction set that can run here; the AVX-512 ones at least emulated.
inline std::vector<const IsaKernels*> Isas() {
  std::vector<const IsaKernels*> isas;
  for (const base::Isa isa : base::SupportedIsas()) isas.push_back(&IsaKernelsFor(isa));
#if defined(HAAST_TEST_SIMDE)
  isas.push_back(&EmulatedAvx512Linear());
  isas.push_back(&EmulatedAvx512VnniLinear());
#endif
  return isas;
}

inline std::vector<float> RandomFloats(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> result(static_cast<size_t>(count));
  for (float& x : result) x = normal(random);
  return result;
}

// Values compare by their bits: -0 and 0 differ, equal NaNs do not.
inline std::vector<uint32_t> Bits(const std::vector<float>& values) {
  std::vector<uint32_t> bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

struct SourceWeight {
  std::vector<uint8_t> bytes;
  TensorView view;  // of bytes: move this object only as a whole
};

// Where in a block of `dtype` its f16 scales are.
inline std::vector<int> HalfOffsets(DType dtype) {
  switch (dtype) {
    case DType::kQ4_1:
    case DType::kQ4_K:
    case DType::kQ5_K: return {0, 2};
    case DType::kQ6_K: return {208};
    case DType::kQ4_0:
    case DType::kQ8_0: return {0};
    default: return {};
  }
}

// Random bytes in valid blocks: every number and sub-scale occurs; f16 scales are of either sign and about 0.01.
inline SourceWeight MakeWeight(DType dtype, int64_t n, int64_t k, uint32_t seed) {
  SourceWeight weight;
  std::mt19937 random(seed);
  weight.bytes.resize(static_cast<size_t>(BytesOf(dtype, n * k)));
  const auto put = [&](size_t at, uint16_t value) { std::memcpy(weight.bytes.data() + at, &value, 2); };
  if (IsQuantised(dtype)) {
    for (uint8_t& byte : weight.bytes) byte = static_cast<uint8_t>(random());
    for (size_t at = 0; at < weight.bytes.size(); at += static_cast<size_t>(Info(dtype).block_bytes)) {
      for (int offset : HalfOffsets(dtype))
        put(at + static_cast<size_t>(offset), static_cast<uint16_t>(0x2000 + random() % 0x400 + random() % 2 * 0x8000));
    }
  } else {
    const std::vector<float> values = RandomFloats(n * k, seed);
    for (size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::kF32) std::memcpy(weight.bytes.data() + 4 * i, &values[i], 4);
      if (dtype == DType::kF16) put(2 * i, FloatToHalf(values[i]));
      if (dtype == DType::kBF16) put(2 * i, FloatToBf16(values[i]));
    }
  }
  weight.view = {.data = weight.bytes.data(), .dtype = dtype, .rank = 2, .shape = {n, k}};
  return weight;
}

// Every byte of every block but the f16 scales becomes `fill`.
inline void FillNumbers(SourceWeight& weight, uint8_t fill) {
  const size_t block = static_cast<size_t>(Info(weight.view.dtype).block_bytes);
  for (size_t i = 0; i < weight.bytes.size(); ++i) {
    bool scale = false;
    for (int offset : HalfOffsets(weight.view.dtype)) scale |= static_cast<int>(i % block) / 2 == offset / 2;
    if (!scale) weight.bytes[i] = fill;
  }
}

// One weight, packed, with as many random input rows; rows are apart by more than K.
struct Product {
  Product(const SourceWeight& source, int64_t row_count, Prologue kind, base::ThreadPool& pool)
      : rows(row_count),
        k(source.view.shape[1]),
        ld_x(k + 3),
        prologue(kind),
        x(RandomFloats(rows * ld_x, 11)),
        up(RandomFloats(rows * ld_x, 12)),
        norm(RandomFloats(k, 13)) {
    auto result = PackWeight(source.view, nullptr, pool);
    HAAST_CHECK(result) << result.error().message;
    packed = std::move(*result);
    for (int64_t i = 0; i < rows; ++i) x[static_cast<size_t>(i * ld_x)] *= 20;  // blocks of very different scales
  }
  Product(const Product& other)
      : rows(other.rows), k(other.k), ld_x(other.ld_x), prologue(other.prologue), x(other.x), up(other.up), norm(other.norm) {
    packed.n = other.packed.n;
    packed.k = other.packed.k;
    packed.dtype = other.packed.dtype;
    packed.layout = other.packed.layout;
    packed.bytes_per_pass = other.packed.bytes_per_pass;
    packed.data = std::move(*Buffer::Allocate(other.packed.data.size(), "copy"));
    std::memcpy(packed.data.data(), other.packed.data.data(), packed.data.size());
  }
  Product(Product&&) = default;

  LinearInput Input(int64_t first, int64_t count) const {
    return {.x = x.data() + first * ld_x,
            .ld_x = ld_x,
            .rows = count,
            .prologue = prologue,
            .norm_weight = norm.data(),
            .eps = eps,
            .up = up.data() + first * ld_x};
  }

  int64_t rows, k, ld_x;
  Prologue prologue;
  std::vector<float> x, up, norm, bias;
  float eps = 1e-5f;
  bool accumulate = false;
  PackedWeight packed;
};

// [count, N] of the rows [first, first + count), in a workspace for `workspace_rows` rows.
inline std::vector<float> RunProduct(const IsaKernels& isa, const Product& product, base::ThreadPool& pool, int64_t first = 0,
                                     int64_t count = -1, int64_t workspace_rows = 512) {
  if (count < 0) count = product.rows;
  std::vector<float> out(static_cast<size_t>(count * product.packed.n));
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(i % static_cast<size_t>(product.packed.n));
  LinearTask task{.weight = &product.packed, .out = out.data(), .ld_out = product.packed.n, .accumulate = product.accumulate};
  if (!product.bias.empty()) task.bias = product.bias.data();
  auto workspace = Workspace::Create(workspace_rows, product.k);
  HAAST_CHECK(workspace) << workspace.error().message;
  RunLinear(isa, product.Input(first, count), {&task, 1}, *workspace, pool);
  return out;
}

}  // namespace testing_util
}  // namespace haast::kernels
