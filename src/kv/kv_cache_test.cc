#include "kv/kv_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace haast::kv {
namespace {

using ::testing::HasSubstr;

KvCache MustCreate(int layers, int64_t slots, int heads, int head_dim, DType dtype) {
  auto cache = KvCache::Create(layers, slots, heads, head_dim, dtype);
  EXPECT_TRUE(cache) << cache.error().message;
  return std::move(*cache);
}

// Every element of slot s holds a number of (side, layer, slot, element).
void Fill(KvCache* cache, int64_t row_elements) {
  for (int layer = 0; layer < cache->num_layers(); ++layer) {
    for (int side = 0; side < 2; ++side) {
      auto* data = static_cast<float*>(side == 0 ? cache->k(layer) : cache->v(layer));
      for (int64_t i = 0; i < cache->slots() * row_elements; ++i) data[i] = static_cast<float>(((side * 10 + layer) * 1000 + i));
    }
  }
}

// Slot s of every side and layer now holds what slot origin[s] held.
void ExpectOrigins(KvCache* cache, int64_t row_elements, const std::vector<int32_t>& origin) {
  for (int layer = 0; layer < cache->num_layers(); ++layer) {
    for (int side = 0; side < 2; ++side) {
      const auto* data = static_cast<const float*>(side == 0 ? cache->k(layer) : cache->v(layer));
      for (int64_t i = 0; i < cache->slots() * row_elements; ++i) {
        const int64_t slot = i / row_elements;
        const float expected = static_cast<float>((side * 10 + layer) * 1000 + origin[slot] * row_elements + i % row_elements);
        ASSERT_EQ(data[i], expected) << "layer " << layer << " side " << side << " slot " << slot;
      }
    }
  }
}

TEST(KvCache, Sizes) {
  KvCache f16 = MustCreate(3, 32, 2, 16, DType::kF16);
  EXPECT_EQ(f16.num_layers(), 3);
  EXPECT_EQ(f16.slots(), 32);
  EXPECT_EQ(f16.dtype(), DType::kF16);
  EXPECT_EQ(f16.bytes_per_slot(), 3 * 2 * 2 * 16 * 2);
  EXPECT_EQ(MustCreate(3, 32, 2, 16, DType::kF32).bytes_per_slot(), 3 * 2 * 2 * 16 * 4);
  EXPECT_NE(f16.k(0), f16.v(0));
  EXPECT_NE(f16.k(0), f16.k(1));
}

TEST(KvCache, RefusesWithNumbers) {
  const auto error = [](int layers, int64_t slots, int heads, int head_dim, DType dtype) {
    const auto cache = KvCache::Create(layers, slots, heads, head_dim, dtype);
    EXPECT_FALSE(cache);
    return cache ? Error{} : cache.error();
  };
  EXPECT_THAT(error(0, 1, 1, 1, DType::kF16).message, HasSubstr("0 layers, 1 slots, 1 KV heads of 1"));
  EXPECT_THAT(error(1, 0, 1, 1, DType::kF16).message, HasSubstr("0 slots"));
  EXPECT_THAT(error(1, -5, 1, 1, DType::kF16).message, HasSubstr("-5 slots"));
  EXPECT_THAT(error(1, 1, 0, 1, DType::kF16).message, HasSubstr("0 KV heads"));
  EXPECT_THAT(error(1, 1, 1, -1, DType::kF16).message, HasSubstr("KV heads of -1"));
  EXPECT_EQ(error(1, 1, 1, 1, DType::kBF16).code, ErrorCode::kUnsupported);
  EXPECT_THAT(error(1, 1, 1, 1, DType::kBF16).message, HasSubstr("expected F16 or F32"));
  const Error large = error(30, int64_t{1} << 40, 3, 64, DType::kF16);
  EXPECT_EQ(large.code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(large.message, HasSubstr("1099511627776 slots need 25332747903959040 bytes"));
  const Error wild = error(30, int64_t{1} << 62, 3, 64, DType::kF16);
  EXPECT_EQ(wild.code, ErrorCode::kOutOfMemory);
  EXPECT_THAT(wild.message, HasSubstr("4611686018427387904 slots of 30 layers, 3 KV heads of 64 exceed 64 bits"));
  EXPECT_EQ(error(2147483647, 1, 2147483647, 2147483647, DType::kF32).code, ErrorCode::kOutOfMemory);
}

// A pool whose byte offsets pass 2^31 and 2^32. Only touched pages take memory.
TEST(KvCache, AddressesPast4GiB) {
  constexpr int64_t kRow = 64 * 128 * 2;
  constexpr int64_t kSlots = (int64_t{9} << 29) / kRow;  // 4.5 GiB a side
  auto created = KvCache::Create(1, kSlots, 64, 128, DType::kF16);
  if (!created) GTEST_SKIP() << "needs 9 GiB of address space: " << created.error().message;
  KvCache& cache = *created;
  const int32_t top = static_cast<int32_t>(kSlots - 1), middle = static_cast<int32_t>((int64_t{1} << 31) / kRow);
  auto* k = static_cast<uint8_t*>(cache.k(0));
  auto* v = static_cast<uint8_t*>(cache.v(0));
  for (int64_t i = 0; i < kRow; ++i) {
    k[int64_t{top} * kRow + i] = static_cast<uint8_t>(i % 251 + 1);
    v[int64_t{top} * kRow + i] = static_cast<uint8_t>(i % 241 + 1);
  }
  cache.Move({top}, {middle});
  for (int64_t i = 0; i < kRow; ++i) {
    ASSERT_EQ(k[int64_t{middle} * kRow + i], i % 251 + 1);
    ASSERT_EQ(v[int64_t{middle} * kRow + i], i % 241 + 1);
  }
  EXPECT_EQ(k[((int64_t{top} * kRow) & 0xffffffff)], 0) << "nothing landed where a 32-bit offset would point";
}

TEST(KvCache, MoveTakesOverlappingSets) {
  const std::pair<std::vector<int32_t>, std::vector<int32_t>> moves[] = {
      {{}, {}},
      {{3}, {3}},
      {{1, 2, 3, 4}, {0, 1, 2, 3}},  // down
      {{0, 1, 2, 3}, {1, 2, 3, 4}},  // up: a copy in order would smear slot 0
      {{0, 1, 2}, {1, 2, 0}},        // a cycle
      {{5, 6}, {6, 5}},              // a swap
      {{4, 7, 2}, {4, 2, 0}},        // one stays
      {{6, 6}, {1, 2}},              // one slot to two
  };
  for (const auto& [src, dst] : moves) {
    KvCache cache = MustCreate(2, 8, 1, 3, DType::kF32);
    Fill(&cache, 3);
    std::vector<int32_t> origin(8);
    std::iota(origin.begin(), origin.end(), 0);
    for (size_t i = 0; i < src.size(); ++i) origin[dst[i]] = src[i];
    cache.Move(src, dst);
    ExpectOrigins(&cache, 3, origin);
  }
}

// Trees accept rows that are not dense: rows 0, 2, 5 of an 8-row tree of two sequences, the other one rows 0, 1.
TEST(KvCache, AcceptedBranchBecomesDense) {
  KvCache cache = MustCreate(3, 32, 2, 2, DType::kF32);
  Fill(&cache, 4);
  std::vector<int32_t> origin(32);
  std::iota(origin.begin(), origin.end(), 0);
  // Sequence a holds tree rows in slots 8..15, b in 16..23.
  cache.Move({8, 10, 13, 16, 17}, {8, 9, 10, 16, 17});
  origin[9] = 10;
  origin[10] = 13;
  ExpectOrigins(&cache, 4, origin);
}

TEST(KvCache, RandomMovesMatchACopy) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    KvCache cache = MustCreate(1, 24, 1, 2, DType::kF32);
    Fill(&cache, 2);
    std::vector<int32_t> origin(24), dst(24), src;
    std::iota(origin.begin(), origin.end(), 0);
    dst = origin;
    std::shuffle(dst.begin(), dst.end(), random);
    dst.resize(random() % 24);
    for (const int32_t slot : dst) src.push_back(origin[slot] = static_cast<int32_t>(random() % 24));
    cache.Move(src, dst);
    ExpectOrigins(&cache, 2, origin);
  }
}

TEST(KvCacheDeathTest, BugsOfTheCaller) {
  KvCache cache = MustCreate(1, 8, 1, 2, DType::kF32);
  EXPECT_DEATH(cache.Move({1, 2}, {1}), "2 sources, 1 destinations");
  EXPECT_DEATH(cache.Move({8}, {1}), "move of slot 8 to 1 in a cache of 8");
  EXPECT_DEATH(cache.Move({1}, {-1}), "move of slot 1 to -1");
  EXPECT_DEATH(cache.Move({1, 2}, {3, 3}), "two slots moved to one");
}

}  // namespace
}  // namespace haast::kv
