#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cases/inputs.h"
#include "kernels/ops.h"

namespace haast::kernels {
namespace {

#include "kernels/cases/dequant_golden.inc"

// The blocks as a matrix of two rows where there are two blocks: the second row is found by its bytes.
void ExpectGolden(DType dtype, std::span<const uint8_t> blocks, std::span<const uint32_t> floats) {
  const int64_t rows = static_cast<int64_t>(blocks.size()) / Info(dtype).block_bytes;
  const int64_t k = static_cast<int64_t>(floats.size()) / rows;
  const TensorView matrix{.data = blocks.data(), .dtype = dtype, .rank = 2, .shape = {rows, k}};
  for (int64_t r = 0; r < rows; ++r) {
    std::vector<float> out(static_cast<size_t>(k));
    DequantiseRow(matrix, r, out.data());
    for (int64_t i = 0; i < k; ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(out[static_cast<size_t>(i)]), floats[static_cast<size_t>(r * k + i)])
          << Info(dtype).name << " row " << r << " element " << i;
    }
  }
}

TEST(Dequantise, EqualsTheGgufPackageBitForBit) {
  ExpectGolden(DType::kQ4_0, kBlocksQ4_0, kFloatsQ4_0);
  ExpectGolden(DType::kQ4_1, kBlocksQ4_1, kFloatsQ4_1);
  ExpectGolden(DType::kQ8_0, kBlocksQ8_0, kFloatsQ8_0);
  ExpectGolden(DType::kQ4_K, kBlocksQ4_K, kFloatsQ4_K);
  ExpectGolden(DType::kQ5_K, kBlocksQ5_K, kFloatsQ5_K);
  ExpectGolden(DType::kQ6_K, kBlocksQ6_K, kFloatsQ6_K);
}

TEST(Quantise, EqualsTheGgufPackageByteForByte) {
  std::vector<float> row;
  for (uint32_t bits : kRow) row.push_back(std::bit_cast<float>(bits));
  auto expect = [&](DType dtype, std::span<const uint8_t> golden) {
    std::vector<uint8_t> out(golden.size());
    QuantiseRow(row.data(), static_cast<int64_t>(row.size()), dtype, out.data());
    for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], golden[i]) << Info(dtype).name << " byte " << i;
  };
  expect(DType::kQ4_0, kRoundedQ4_0);
  expect(DType::kQ4_1, kRoundedQ4_1);
  expect(DType::kQ8_0, kRoundedQ8_0);
}

TEST(Dequantise, FloatFormats) {
  const float values[] = {1.5f, -0.25f, 65504.0f, 0.0f};
  for (DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    std::vector<uint8_t> bytes(static_cast<size_t>(BytesOf(dtype, 4)));
    for (int i = 0; i < 4; ++i) {
      const uint16_t half = dtype == DType::kF16 ? FloatToHalf(values[i]) : FloatToBf16(values[i]);
      if (dtype == DType::kF32) std::memcpy(bytes.data() + 4 * i, &values[i], 4);
      if (dtype != DType::kF32) std::memcpy(bytes.data() + 2 * i, &half, 2);
    }
    float out[4];
    DequantiseRow({.data = bytes.data(), .dtype = dtype, .rank = 2, .shape = {1, 4}}, 0, out);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out[i], i == 2 && dtype == DType::kBF16 ? 65536.0f : values[i]) << Info(dtype).name;
  }
}

TEST(Quantise, RoundingErrorIsWithinHalfAStep) {
  const std::vector<float> x = cases::Numbers(256, 3);
  struct Step {
    DType dtype;
    double largest;  // of a block whose numbers lie in [-1, 1): the widest step, halved, and the rounding of the f16 scale
  };
  // Q4_0 cuts the far end of its range (16 steps of max/8 cover [-max, 7/8 max]): a whole step there.
  for (const Step& step : {Step{DType::kQ8_0, 0.5 / 127}, Step{DType::kQ4_1, 1.0 / 15}, Step{DType::kQ4_0, 1.0 / 8}}) {
    std::vector<uint8_t> blocks(static_cast<size_t>(BytesOf(step.dtype, 256)));
    QuantiseRow(x.data(), 256, step.dtype, blocks.data());
    std::vector<float> out(256);
    DequantiseRow({.data = blocks.data(), .dtype = step.dtype, .rank = 2, .shape = {1, 256}}, 0, out.data());
    for (size_t i = 0; i < 256; ++i) EXPECT_NEAR(out[i], x[i], step.largest + 1.0 / 1024) << Info(step.dtype).name;
  }
}

TEST(Quantise, BrokenNumbersGiveSomeBlock) {
  std::vector<float> x(32, 1.0f);
  x[3] = std::numeric_limits<float>::quiet_NaN();
  x[7] = std::numeric_limits<float>::infinity();
  x[9] = -std::numeric_limits<float>::infinity();
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    std::vector<uint8_t> block(static_cast<size_t>(BytesOf(dtype, 32)));
    QuantiseRow(x.data(), 32, dtype, block.data());  // the sanitizers watch the conversions
    std::vector<float> out(32);
    DequantiseRow({.data = block.data(), .dtype = dtype, .rank = 2, .shape = {1, 32}}, 0, out.data());
    EXPECT_FALSE(std::isfinite(out[7])) << Info(dtype).name << ": an infinity must not become an ordinary number";
  }
}

TEST(Dequantise, RefusesWhatIsABug) {
  const float x[32] = {};
  float out[32];
  EXPECT_DEATH(DequantiseRow({.data = x, .dtype = DType::kF32, .rank = 2, .shape = {1, 32}}, 1, out), "row 1 of \\[1, 32\\]");
  EXPECT_DEATH(DequantiseRow({.data = x, .dtype = DType::kI32, .rank = 2, .shape = {1, 32}}, 0, out), "no float values");
  uint8_t block[40];
  EXPECT_DEATH(QuantiseRow(x, 31, DType::kQ8_0, block), "k = 31");
  EXPECT_DEATH(QuantiseRow(x, 32, DType::kF16, block), "F16");
}

}  // namespace
}  // namespace haast::kernels
