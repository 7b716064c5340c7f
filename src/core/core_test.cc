#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "core/arena.h"
#include "core/buffer.h"
#include "core/dtype.h"
#include "core/tensor.h"

namespace haast {
namespace {

TEST(DType, EveryHalfSurvivesARoundTrip) {
  for (int h = 0; h < 65536; ++h) {
    const float value = HalfToFloat(static_cast<uint16_t>(h));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(HalfToFloat(FloatToHalf(value))));
    } else {
      ASSERT_EQ(FloatToHalf(value), h);
    }
  }
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
TEST(DType, FloatToHalfRoundsAsTheCompilerDoes) {
  uint32_t state = 1;
  for (int i = 0; i < 2000000; ++i) {
    state = state * 1664525u + 1013904223u;
    float value;
    std::memcpy(&value, &state, sizeof(value));
    if (std::isnan(value)) continue;
    const _Float16 expected = static_cast<_Float16>(value);
    uint16_t bits;
    std::memcpy(&bits, &expected, sizeof(bits));
    ASSERT_EQ(FloatToHalf(value), bits) << value;
  }
}
#endif

TEST(DType, Bf16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBf16(1.0f), 0x3f80);
  EXPECT_EQ(FloatToBf16(1.00390625f), 0x3f80);  // halfway, even below
  EXPECT_EQ(FloatToBf16(1.01171875f), 0x3f82);  // halfway, even above
  EXPECT_TRUE(std::isnan(Bf16ToFloat(FloatToBf16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Tensor, ShapeAndBytes) {
  TensorView view{nullptr, DType::kQ4_1, 2, {3, 64}};
  EXPECT_EQ(view.elements(), 192);
  EXPECT_EQ(view.bytes(), 120);
  EXPECT_EQ(view.rows(), 3);
  EXPECT_EQ(view.ToString(), "[3, 64] Q4_1");
  EXPECT_TRUE(view.HasShape({3, 64}));
  EXPECT_FALSE(view.HasShape({64, 3}));
  EXPECT_FALSE(view.HasShape({3, 64, 1}));
}

TEST(Buffer, AllocatesZeroedMemoryAndRefusesMoreThanTheMachineHas) {
  auto buffer = Buffer::Allocate(1000, "test");
  ASSERT_TRUE(buffer);
  EXPECT_EQ(buffer->data()[999], 0);
  auto huge = Buffer::Allocate(size_t{1} << 60, "KV pool");
  ASSERT_FALSE(huge);
  EXPECT_EQ(huge.error().code, ErrorCode::kOutOfMemory);
  EXPECT_NE(huge.error().message.find("KV pool"), std::string::npos);
}

TEST(Arena, AlignsAndRefusesOverflow) {
  Arena arena(std::move(*Buffer::Allocate(256, "arena")));
  arena.Take<char>(1);
  float* second = arena.Take<float>(16);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(second) % 64, 0u);
  EXPECT_DEATH(arena.Take<char>(200), "arena of 256 bytes");
}

}  // namespace
}  // namespace haast
