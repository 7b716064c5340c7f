#include "kv/kv_image.h"

#include <gtest/gtest.h>

#include <cstring>

namespace haast::kv {
namespace {

// Element (layer, side, token) of a sequence, written where `pages` keep it.
float Value(int layer, int side, int64_t token) { return static_cast<float>(layer * 1000000 + side * 100000 + token); }

void Fill(KvCache* cache, const std::vector<int32_t>& pages, int page_size, int64_t tokens) {
  const int64_t row = cache->row_bytes() / 4;
  for (int layer = 0; layer < cache->num_layers(); ++layer) {
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t slot = int64_t{pages[t / page_size]} * page_size + t % page_size;
      for (int64_t e = 0; e < row; ++e) {
        static_cast<float*>(cache->k(layer))[slot * row + e] = Value(layer, 0, t);
        static_cast<float*>(cache->v(layer))[slot * row + e] = Value(layer, 1, t);
      }
    }
  }
}

void ExpectFilled(const KvCache& cache, const std::vector<int32_t>& pages, int page_size, int64_t first, int64_t tokens) {
  const int64_t row = cache.row_bytes() / 4;
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    for (int64_t t = 0; t < tokens; ++t) {
      const int64_t slot = int64_t{pages[t / page_size]} * page_size + t % page_size;
      for (int64_t e = 0; e < row; ++e) {
        ASSERT_EQ(static_cast<const float*>(cache.k(layer))[slot * row + e], t < first ? 0.0f : Value(layer, 0, t)) << layer << " " << t;
        ASSERT_EQ(static_cast<const float*>(cache.v(layer))[slot * row + e], t < first ? 0.0f : Value(layer, 1, t)) << layer << " " << t;
      }
    }
  }
}

TEST(KvImage, MovesBetweenPagesOfAnySize) {
  const std::vector<int32_t> from = {5, 1, 3}, small = {9, 2, 4, 7, 1}, large = {1};
  KvCache source = *KvCache::Create(2, 48, 2, 3, DType::kF32);
  for (const int64_t tokens : {0, 1, 7, 8, 9, 17, 24}) {
    Fill(&source, from, 8, tokens);
    std::vector<uint8_t> image(static_cast<size_t>(KvImageBytes(source, tokens)));
    EXPECT_EQ(KvImageBytes(source, tokens), tokens * 2 * 2 * 2 * 3 * 4);
    ReadKvImage(source, from, 8, tokens, image.data());
    for (const int64_t first : {int64_t{0}, std::min<int64_t>(5, tokens), tokens}) {
      KvCache target = *KvCache::Create(2, 64, 2, 3, DType::kF32);
      WriteKvImage(image.data(), first, tokens, small, 5, &target);
      ExpectFilled(target, small, 5, first, tokens);
      target = *KvCache::Create(2, 64, 2, 3, DType::kF32);
      WriteKvImage(image.data(), first, tokens, large, 32, &target);
      ExpectFilled(target, large, 32, first, tokens);
    }
  }
}

// Slots around 2^16 and at the end of a pool of more.
TEST(KvImage, HighPages) {
  constexpr int kPage = 16;
  const std::vector<int32_t> high = {(1 << 16) / kPage, 5, (1 << 16) / kPage - 1, (1 << 17) / kPage - 1};
  KvCache cache = *KvCache::Create(1, 1 << 17, 1, 2, DType::kF32);
  Fill(&cache, high, kPage, 60);
  std::vector<uint8_t> image(static_cast<size_t>(KvImageBytes(cache, 60)));
  ReadKvImage(cache, high, kPage, 60, image.data());
  KvCache target = *KvCache::Create(1, 1 << 17, 1, 2, DType::kF32);
  WriteKvImage(image.data(), 0, 60, high, kPage, &target);
  ExpectFilled(target, high, kPage, 0, 60);
}

TEST(KvImageDeathTest, BugsOfTheCaller) {
  KvCache cache = *KvCache::Create(1, 32, 1, 2, DType::kF16);
  std::vector<uint8_t> image(1024);
  const std::vector<int32_t> one = {1}, beyond = {4};
  EXPECT_DEATH(ReadKvImage(cache, one, 8, 9, image.data()), "9 tokens in 1 pages");
  EXPECT_DEATH(WriteKvImage(image.data(), 0, 1, beyond, 8, &cache), "slot 32 of 32");
}

}  // namespace
}  // namespace haast::kv
