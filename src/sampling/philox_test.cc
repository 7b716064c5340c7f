#include "sampling/philox.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <vector>

namespace haast::sampling {
namespace {

using Words = std::array<uint32_t, 4>;

// The "philox4x32 10" lines of Random123's tests/kat_vectors.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, KeysAreSeedPositionAndStream) {
  EXPECT_EQ(Uniform(0, 0, Stream::kTarget), static_cast<float>(0x6627e8) / 16777216.0f) << "the first known answer's 24 high bits";
  // Every bit of the seed and of the position counts, and the streams differ.
  std::set<float> seen = {Uniform(0, 0, Stream::kTarget), Uniform(0, 0, Stream::kDraft), Uniform(0, 0, Stream::kAccept)};
  for (int bit = 0; bit < 64; ++bit) {
    seen.insert(Uniform(uint64_t{1} << bit, 0, Stream::kTarget));
    if (bit < 63) seen.insert(Uniform(0, int64_t{1} << bit, Stream::kTarget));
  }
  EXPECT_EQ(seen.size(), 3u + 64u + 63u);
  EXPECT_EQ(Uniform(7, 9, Stream::kDraft), Uniform(7, 9, Stream::kDraft));
}

TEST(Uniform, HalfOpenAndEven) {
  constexpr int kBuckets = 64, kDraws = 200000;
  std::vector<int> counts(kBuckets);
  double sum = 0.0;
  float previous = 0.5f;
  double product = 0.0;
  for (int64_t position = 0; position < kDraws; ++position) {
    const float u = Uniform(1234, position, Stream::kTarget);
    ASSERT_GE(u, 0.0f);
    ASSERT_LT(u, 1.0f);
    ASSERT_EQ(u * 16777216.0f, static_cast<float>(static_cast<uint32_t>(u * 16777216.0f))) << "24 bits";
    ++counts[static_cast<int>(u * kBuckets)];
    sum += u;
    product += (u - 0.5) * (previous - 0.5);
    previous = u;
  }
  double chi_square = 0.0;
  for (const int count : counts) {
    const double expected = static_cast<double>(kDraws) / kBuckets;
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 112.0) << "63 degrees of freedom: exceeded with probability 1e-4";
  EXPECT_NEAR(sum / kDraws, 0.5, 4.0 * 0.2887 / std::sqrt(kDraws)) << "4 standard errors";
  EXPECT_NEAR(product / kDraws, 0.0, 4.0 / 12.0 / std::sqrt(kDraws)) << "neighbouring positions are independent";
}

}  // namespace
}  // namespace haast::sampling
