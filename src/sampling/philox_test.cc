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

TEST(RandomWords, KeysAreSeedPositionStreamAndIndex) {
  EXPECT_EQ(RandomWords(0, 0, Stream::kBlockTime, 0)[0], 0x6627e8d5u) << "the first known answer";
  // Every bit of each counts.
  std::set<Words> seen = {RandomWords(0, 0, Stream::kBlockTime, 0), RandomWords(0, 0, Stream::kTokenTime, 0)};
  for (int bit = 0; bit < 64; ++bit) {
    seen.insert(RandomWords(uint64_t{1} << bit, 0, Stream::kBlockTime, 0));
    if (bit < 63) seen.insert(RandomWords(0, int64_t{1} << bit, Stream::kBlockTime, 0));
    if (bit < 32) seen.insert(RandomWords(0, 0, Stream::kBlockTime, uint32_t{1} << bit));
  }
  EXPECT_EQ(seen.size(), 2u + 64u + 63u + 32u);
  EXPECT_EQ(RandomWords(7, 9, Stream::kTokenTime, 3), RandomWords(7, 9, Stream::kTokenTime, 3));
}

TEST(RandomPairs, AreTheWordsOneByOne) {
  for (size_t n : {0, 1, 15, 16, 17, 40}) {
    std::vector<uint32_t> indices(n);
    for (size_t i = 0; i < n; ++i) indices[i] = static_cast<uint32_t>(i * i * 77);
    std::vector<uint64_t> pairs(n);
    const uint64_t seed = 0x0123456789abcdef;
    const int64_t position = int64_t{5} << 33;
    RandomPairs(seed, position, Stream::kTokenTime, indices, pairs);
    for (size_t i = 0; i < n; ++i) {
      const Words words = RandomWords(seed, position, Stream::kTokenTime, indices[i]);
      EXPECT_EQ(pairs[i], uint64_t{words[0]} << 32 | words[1]) << i << " of " << n;
    }
  }
}

TEST(RandomPairsDeathTest, SizesThatDiffer) {
  std::vector<uint64_t> pairs(1);
  EXPECT_DEATH(RandomPairs(0, 0, Stream::kBlockTime, std::vector<uint32_t>(2), pairs), "2 indices, 1 pairs");
}

TEST(OpenUniform, GridWithoutItsEnds) {
  EXPECT_EQ(OpenUniform(0), 0x1p-53);
  EXPECT_EQ(OpenUniform(0xfff), 0x1p-53) << "the low 12 bits are not used";
  EXPECT_EQ(OpenUniform(0x1000), 0x3p-53);
  EXPECT_EQ(OpenUniform(uint64_t{1} << 63), 0.5 + 0x1p-53);
  EXPECT_EQ(OpenUniform(~uint64_t{0}), 1.0 - 0x1p-53);
}

TEST(OpenUniform, EvenAndIndependent) {
  constexpr int kBuckets = 64, kDraws = 200000;
  std::vector<int> counts(kBuckets);
  double sum = 0.0;
  double previous = 0.5;
  double product = 0.0;
  for (int64_t position = 0; position < kDraws; ++position) {
    const Words words = RandomWords(1234, position, Stream::kBlockTime, 5);
    const double u = OpenUniform(uint64_t{words[0]} << 32 | words[1]);
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
