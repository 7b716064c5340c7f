#include "attention/metadata_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <random>

#include "attention/metadata_check.h"

namespace haast::attention {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ForwardMode kModes[] = {ForwardMode::kExtend,       ForwardMode::kDecode,      ForwardMode::kDraftDecode,
                                  ForwardMode::kTargetVerify, ForwardMode::kDraftExtend, ForwardMode::kIdle};

std::string BuildError(int page_size, std::vector<SequenceRows> sequences) {
  ForwardMetadata m;  // holds an earlier launch
  const std::vector<int32_t> page = {1};
  const SequenceRows earlier{.pages = page, .num_rows = 3};
  EXPECT_TRUE(BuildMetadata(ForwardMode::kExtend, 16, {&earlier, 1}, &m));
  const Status status = BuildMetadata(ForwardMode::kExtend, page_size, sequences, &m);
  EXPECT_EQ(m.batch(), 0) << "a refused build leaves an idle launch";
  EXPECT_EQ(m.rows(), 0);
  return status ? "" : status.error().message;
}

TEST(BuildMetadata, StartingCaseDraftExtendAfterPrefill) {
  const std::vector<int32_t> pages = {7, 3, 9, 1, 4, 12};
  std::vector<int32_t> slots;
  for (int t = 0; t < 84; ++t) slots.push_back(pages[t / 16] * 16 + t % 16);
  ForwardMetadata m;
  const SequenceRows prefill{.pages = pages, .num_rows = 80};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kExtend, 16, {&prefill, 1}, &m));
  EXPECT_THAT(m.qo_indptr, ElementsAre(0, 80));
  EXPECT_EQ(m.max_q_len, 80);

  // The same object, as the engine reuses it: nothing of the prefill may remain.
  const SequenceRows extend{.pages = pages, .kv_before = 80, .num_rows = 4};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDraftExtend, 16, {&extend, 1}, &m));
  EXPECT_EQ(m.mode, ForwardMode::kDraftExtend);
  EXPECT_THAT(m.qo_indptr, ElementsAre(0, 4));
  EXPECT_THAT(m.kv_indptr, ElementsAre(0, 84));
  EXPECT_EQ(m.kv_indices, slots);
  EXPECT_EQ(m.max_q_len, 4);
  EXPECT_EQ(m.max_kv_len, 84);
  EXPECT_THAT(m.kv_len, ElementsAre(84));
  EXPECT_THAT(m.positions, ElementsAre(80, 81, 82, 83));
  EXPECT_THAT(m.out_slots, ElementsAre(192, 193, 194, 195)) << "page 12";
  EXPECT_EQ(m.block_table, pages);
  EXPECT_EQ(m.block_table_stride, 6);
  EXPECT_TRUE(CheckLaunch(m, {.q_rows = 4, .kv_rows = 4, .out_rows = 4, .pool_slots = 13 * 16}, CheckLevel::kFull));
}

TEST(BuildMetadata, RaggedDraftExtendCountsNewTokensOnce) {
  // Two sequences of 11 and 21 committed tokens that accepted 1 and 3: the prefix is what precedes the launch.
  const std::vector<int32_t> a = {5, 2}, b = {8, 1, 6};
  const SequenceRows sequences[] = {{.pages = a, .kv_before = 11, .num_rows = 1}, {.pages = b, .kv_before = 21, .num_rows = 3}};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDraftExtend, 8, sequences, &m));
  EXPECT_THAT(m.qo_indptr, ElementsAre(0, 1, 4));
  EXPECT_THAT(m.kv_indptr, ElementsAre(0, 12, 36));
  EXPECT_THAT(m.kv_len, ElementsAre(12, 24));
  EXPECT_THAT(m.positions, ElementsAre(11, 21, 22, 23));
  EXPECT_THAT(m.out_slots, ElementsAre(2 * 8 + 3, 6 * 8 + 5, 6 * 8 + 6, 6 * 8 + 7));
  EXPECT_THAT(m.block_table, ElementsAre(5, 2, -1, 8, 1, 6));
  EXPECT_EQ(m.max_q_len, 3);
  EXPECT_EQ(m.max_kv_len, 24);
}

TEST(BuildMetadata, ModeIsALabelOnly) {
  const std::vector<int32_t> a = {5, 2}, b = {8, 1, 6};
  const std::vector<int32_t> parents = {-1, 0, 0};
  const SequenceRows sequences[] = {{.pages = a, .kv_before = 11, .num_rows = 5},
                                    {.pages = b, .kv_before = 20, .num_rows = 3, .tree_parents = parents}};
  ForwardMetadata first, other;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kExtend, 8, sequences, &first));
  for (const ForwardMode mode : kModes) {
    ASSERT_TRUE(BuildMetadata(mode, 8, sequences, &other));
    EXPECT_EQ(other.mode, mode);
    other.mode = ForwardMode::kExtend;
    const Status same = CompareMetadata(first, other);
    EXPECT_TRUE(same) << ForwardModeName(mode) << ": " << same.error().message;
  }
}

TEST(BuildMetadata, TreeSeesAncestorsAndCountsDepth) {
  const std::vector<int32_t> pages = {1, 2};
  //  0 -> 1, 2;  1 -> 3, 4;  2 -> 5;  a second child of the last committed token: 6
  const std::vector<int32_t> parents = {-1, 0, 0, 1, 1, 2, -1};
  const SequenceRows tree{.pages = pages, .kv_before = 5, .num_rows = 7, .tree_parents = parents};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kTargetVerify, 8, {&tree, 1}, &m));
  EXPECT_THAT(m.tree_flags, ElementsAre(1));
  EXPECT_THAT(m.tree_mask, ElementsAre(0b1, 0b11, 0b101, 0b1011, 0b10011, 0b100101, 0b1000000));
  EXPECT_THAT(m.positions, ElementsAre(5, 6, 6, 7, 7, 7, 5));
  EXPECT_THAT(m.out_slots, ElementsAre(13, 14, 15, 16, 17, 18, 19)) << "slots are dense in row order, whatever the depth";
}

// The same tree launched whole, and level by level: every row has the same position, mask and slot.
TEST(BuildMetadata, TreeGrowsLevelByLevel) {
  const std::vector<int32_t> pages = {1, 2, 3};
  const std::vector<int32_t> parents = {-1, -1, 0, 1, 1, 2, 3};
  ForwardMetadata whole;
  const SequenceRows tree{.pages = pages, .kv_before = 5, .num_rows = 7, .tree_parents = parents};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDraftDecode, 4, {&tree, 1}, &whole));
  int64_t cached = 0;
  for (const int64_t level_end : {2, 5, 7}) {
    const SequenceRows level{.pages = pages,
                             .kv_before = 5,
                             .num_rows = level_end - cached,
                             .tree_parents = std::span(parents).first(static_cast<size_t>(level_end)),
                             .tree_cached = cached};
    ForwardMetadata m;
    ASSERT_TRUE(BuildMetadata(ForwardMode::kDraftDecode, 4, {&level, 1}, &m));
    EXPECT_THAT(m.kv_len, ElementsAre(5 + level_end));
    EXPECT_THAT(m.tree_cached, ElementsAre(cached));
    for (int64_t row = 0; row < level.num_rows; ++row) {
      EXPECT_EQ(m.positions[row], whole.positions[cached + row]);
      EXPECT_EQ(m.tree_mask[row], whole.tree_mask[cached + row]);
      EXPECT_EQ(m.out_slots[row], whole.out_slots[cached + row]);
    }
    const LaunchShape shape{.q_rows = level.num_rows,
                            .kv_rows = level.num_rows,
                            .out_rows = level.num_rows,
                            .pool_slots = 16,
                            .page_owner = {},
                            .sequence_owner = {}};
    const Status checked = CheckLaunch(m, shape, CheckLevel::kFull);
    EXPECT_TRUE(checked) << checked.error().message;
    cached = level_end;
  }
}

TEST(BuildMetadata, CachedTreeRowsAreRefusedWhereTheyCannotBe) {
  const std::vector<int32_t> pages = {1, 2, 3};
  const std::vector<int32_t> parents = {-1, 0, 1};
  ForwardMetadata m;
  auto refuses = [&](const SequenceRows& rows, const char* message) {
    const Status status = BuildMetadata(ForwardMode::kDraftDecode, 4, {&rows, 1}, &m);
    ASSERT_FALSE(status);
    EXPECT_THAT(status.error().message, HasSubstr(message));
  };
  refuses({.pages = pages, .kv_before = 5, .num_rows = 2, .tree_parents = {}, .tree_cached = 1},
          "0 tree parents for 3 rows, 1 of them cached");
  refuses({.pages = pages, .kv_before = 5, .num_rows = 3, .tree_parents = parents, .tree_cached = 1}, "3 tree parents for 4 rows");
  refuses({.pages = pages, .kv_before = 5, .num_rows = 3, .tree_parents = parents, .tree_cached = -1}, "-1 cached tree rows");
}

TEST(BuildMetadata, TreeOf64RowsUsesEveryBit) {
  const std::vector<int32_t> pages = {1, 2, 3, 4};
  std::vector<int32_t> parents(64);
  std::iota(parents.begin(), parents.end(), -1);
  const SequenceRows chain{.pages = pages, .num_rows = 64, .tree_parents = parents};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kTargetVerify, 16, {&chain, 1}, &m));
  EXPECT_EQ(m.tree_mask[63], ~uint64_t{0});
  EXPECT_TRUE(CheckLaunch(m, {.q_rows = 64, .kv_rows = 64, .out_rows = 64, .pool_slots = 80}, CheckLevel::kFull));
}

TEST(BuildMetadata, IdleAndEmptySequences) {
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kIdle, 16, {}, &m));
  EXPECT_EQ(m.batch(), 0);
  EXPECT_THAT(m.qo_indptr, ElementsAre(0));
  EXPECT_TRUE(CheckLaunch(m, {}, CheckLevel::kFull));
  const std::vector<int32_t> pages = {3};
  const SequenceRows sequences[] = {{}, {.pages = pages, .kv_before = 2}, {.pages = pages, .kv_before = 2, .num_rows = 1}};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 4, sequences, &m));
  EXPECT_THAT(m.qo_indptr, ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(m.kv_indptr, ElementsAre(0, 0, 2, 5));
}

TEST(BuildMetadata, RefusesWithNumbers) {
  const std::vector<int32_t> pages = {1, 2};
  EXPECT_THAT(BuildError(16, {{.pages = pages, .kv_before = 30, .num_rows = 3}}),
              HasSubstr("33 tokens need 3 pages of 16 slots but the sequence has 2"));
  EXPECT_THAT(BuildError(0, {}), HasSubstr("page size 0"));
  EXPECT_THAT(BuildError(16, {{.pages = pages, .kv_before = -1, .num_rows = 3}}), HasSubstr("-1 tokens before the launch"));
  EXPECT_THAT(BuildError(16, {{.pages = pages, .num_rows = -2}}), HasSubstr("-2 rows in it"));
  const std::vector<int32_t> self = {-1, 1}, wild = {-2, 0}, few = {-1};
  EXPECT_THAT(BuildError(16, {{}, {.pages = pages, .num_rows = 2, .tree_parents = self}}),
              HasSubstr("row 1 of the tree has parent 1, which must be -1 or an earlier row (sequence 1 of 2)"));
  EXPECT_THAT(BuildError(16, {{.pages = pages, .num_rows = 2, .tree_parents = wild}}), HasSubstr("row 0 of the tree has parent -2"));
  EXPECT_THAT(BuildError(16, {{.pages = pages, .num_rows = 2, .tree_parents = few}}), HasSubstr("1 tree parents for 2 rows"));
  const std::vector<int32_t> five = {1, 2, 3, 4, 5};
  std::vector<int32_t> long_chain(65);
  std::iota(long_chain.begin(), long_chain.end(), -1);
  EXPECT_THAT(BuildError(16, {{.pages = five, .num_rows = 65, .tree_parents = long_chain}}), HasSubstr("a tree of 65 rows, at most 64"));
  const std::vector<int32_t> negative = {-1};
  EXPECT_THAT(BuildError(16, {{.pages = negative, .num_rows = 1}}), HasSubstr("page 0 of the sequence has id -1"));
}

TEST(BuildMetadata, SizesBeyond32Bits) {
  constexpr int kPage = 1 << 20;
  std::vector<int32_t> pages(2047);
  std::iota(pages.begin(), pages.end(), 1);
  const SequenceRows large{.pages = pages, .kv_before = int64_t{1500} * kPage, .num_rows = 1};
  EXPECT_THAT(BuildError(kPage, {large, large}),
              HasSubstr("3145728002 KV entries up to sequence 1 of 2 exceed the 32-bit limit 2147483647"));
  EXPECT_THAT(BuildError(kPage, {{.pages = pages, .kv_before = int64_t{1} << 31, .num_rows = 1}}), HasSubstr("exceed the 32-bit limit"));
  EXPECT_THAT(BuildError(kPage, {{.pages = pages, .kv_before = 1, .num_rows = int64_t{1} << 40}}), HasSubstr("exceed the 32-bit limit"));
  const std::vector<int32_t> far = {2048};  // its last slot would be 2^31 + 2^20 - 1
  EXPECT_THAT(BuildError(kPage, {{.pages = far, .num_rows = 1}}), HasSubstr("id 2048, outside [0, 2048)"));
  const std::vector<int32_t> last = {2047};
  const SequenceRows top{.pages = last, .kv_before = 5, .num_rows = 1};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, kPage, {&top, 1}, &m));
  EXPECT_EQ(m.out_slots[0], 2047 * kPage + 5);
}

// The row and its ancestors, a bit each; none without a tree.
uint64_t VisibleRows(const std::vector<int32_t>& parents, int32_t row) {
  uint64_t visible = 0;
  if (parents.empty()) return visible;
  for (; row >= 0; row = parents[row]) visible |= uint64_t{1} << row;
  return visible;
}

// Against the definition, entry by entry, for random batches; every built launch passes its own check.
TEST(BuildMetadata, RandomBatchesMatchTheDefinition) {
  std::mt19937 random(1);
  ForwardMetadata m;
  for (int round = 0; round < 300; ++round) {
    const int page_size = 1 + static_cast<int>(random() % 20);
    const size_t batch = random() % 6;
    std::vector<std::vector<int32_t>> pages(batch), parents(batch);
    std::vector<SequenceRows> sequences(batch);
    int32_t next_page = 1;
    for (size_t b = 0; b < batch; ++b) {
      const int64_t before = random() % 100, rows = random() % 30;
      const int64_t count = (before + rows + page_size - 1) / page_size + random() % 2;
      for (int64_t i = 0; i < count; ++i) pages[b].push_back(next_page++);
      std::shuffle(pages[b].begin(), pages[b].end(), random);
      if (random() % 2 == 0) {
        for (int64_t j = 0; j < rows; ++j) parents[b].push_back(static_cast<int32_t>(random() % (j + 1)) - 1);
      }
      sequences[b] = {.pages = pages[b], .kv_before = before, .num_rows = rows, .tree_parents = parents[b]};
    }
    ASSERT_TRUE(BuildMetadata(kModes[random() % 6], page_size, sequences, &m));
    const int64_t rows = m.rows();
    const Status checked = CheckLaunch(m, {.q_rows = rows, .kv_rows = rows, .out_rows = rows, .pool_slots = int64_t{next_page} * page_size},
                                       CheckLevel::kFull);
    ASSERT_TRUE(checked) << checked.error().message;
    for (size_t b = 0; b < batch; ++b) {
      const SequenceRows& s = sequences[b];
      for (int64_t t = 0; t < s.kv_before + s.num_rows; ++t) {
        ASSERT_EQ(m.kv_indices[m.kv_indptr[b] + t], s.pages[t / page_size] * page_size + t % page_size);
      }
      for (int64_t j = 0; j < s.num_rows; ++j) {
        const uint64_t visible = VisibleRows(parents[b], static_cast<int32_t>(j));
        const int64_t depth = parents[b].empty() ? j : std::popcount(visible) - 1;
        ASSERT_EQ(m.positions[m.qo_indptr[b] + j], s.kv_before + depth);
        ASSERT_EQ(m.tree_mask[m.qo_indptr[b] + j], visible);
      }
    }
  }
}

TEST(BuildMetadata, BucketAddsDummiesOnTheReservedPage) {
  const std::vector<int32_t> a = {5, 2}, b = {8, 1, 6};
  const SequenceRows sequences[] = {{.pages = a, .kv_before = 5, .num_rows = 1}, {.pages = b, .kv_before = 8, .num_rows = 3}};
  const Bucket bucket{.batch = 4, .rows = 10, .max_q_len = 4, .max_kv_len = 16};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDraftExtend, 4, sequences, &m, &bucket));
  EXPECT_EQ(m.padded_sequences, 2);
  EXPECT_EQ(m.real_batch(), 2);
  EXPECT_EQ(m.real_rows(), 4);
  EXPECT_THAT(m.qo_indptr, ElementsAre(0, 1, 4, 7, 10));
  EXPECT_THAT(m.kv_len, ElementsAre(6, 11, 3, 3));
  EXPECT_THAT(m.out_slots, ElementsAre(9, 24, 25, 26, 0, 1, 2, 0, 1, 2));
  EXPECT_THAT(m.positions, ElementsAre(5, 8, 9, 10, 0, 1, 2, 0, 1, 2));
  EXPECT_THAT(m.block_table, ElementsAre(5, 2, -1, -1, 8, 1, 6, -1, 0, -1, -1, -1, 0, -1, -1, -1));
  EXPECT_EQ(m.block_table_stride, 4) << "that of the bucket, not of the batch";
  // More dummies than padding rows: a dummy without rows still has an entry and a page to look at.
  const Bucket wide{.batch = 5, .rows = 6, .max_q_len = 4, .max_kv_len = 16};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDraftExtend, 4, sequences, &m, &wide));
  EXPECT_THAT(m.qo_indptr, ElementsAre(0, 1, 4, 5, 6, 6));
  EXPECT_THAT(m.kv_len, ElementsAre(6, 11, 1, 1, 1));
  // A page of one slot: every padding row writes slot 0.
  const SequenceRows one{.pages = a, .kv_before = 1, .num_rows = 1};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 1, {&one, 1}, &m, &bucket));
  EXPECT_THAT(std::vector<int32_t>(m.out_slots.begin() + 1, m.out_slots.end()), ::testing::Each(0));
  EXPECT_TRUE(CheckLaunch(m, {.q_rows = 10, .kv_rows = 10, .out_rows = 10, .pool_slots = 9, .real_rows = 1}, CheckLevel::kFull));
}

TEST(BuildMetadata, BucketKeepsAddressesWhateverTheBatch) {
  const Bucket bucket{.batch = 8, .rows = 32, .max_q_len = 16, .max_kv_len = 64};
  std::mt19937 random(3);
  ForwardMetadata m;
  const auto addresses = [&] {
    return std::vector<const void*>{m.qo_indptr.data(), m.kv_indptr.data(), m.kv_indices.data(), m.block_table.data(), m.kv_len.data(),
                                    m.out_slots.data(), m.positions.data(), m.tree_flags.data(), m.tree_cached.data(), m.tree_mask.data()};
  };
  std::vector<const void*> first;
  int launches = 0;
  for (int round = 0; round < 200; ++round) {
    const size_t batch = 1 + random() % 8;
    std::vector<std::vector<int32_t>> pages(batch);
    std::vector<SequenceRows> sequences(batch);
    int32_t next_page = 1;
    for (size_t b = 0; b < batch; ++b) {
      for (int i = 0; i < 8; ++i) pages[b].push_back(next_page++);
      sequences[b] = {
          .pages = pages[b], .kv_before = static_cast<int64_t>(random() % 60), .num_rows = 1 + static_cast<int64_t>(random() % 4)};
    }
    if (ChooseBucket({&bucket, 1}, sequences) == nullptr) continue;
    ++launches;
    ASSERT_TRUE(BuildMetadata(ForwardMode::kTargetVerify, 8, sequences, &m, &bucket));
    if (first.empty()) first = addresses();
    EXPECT_EQ(addresses(), first) << "a captured launch reads these addresses";
    EXPECT_EQ(m.batch(), 8);
    EXPECT_EQ(m.rows(), 32);
    const LaunchShape shape{.q_rows = 32, .kv_rows = 32, .out_rows = 32, .pool_slots = 8 * next_page, .real_rows = m.real_rows()};
    const Status checked = CheckLaunch(m, shape, CheckLevel::kFull);
    ASSERT_TRUE(checked) << checked.error().message;
    ForwardMetadata eager;
    ASSERT_TRUE(BuildMetadata(ForwardMode::kTargetVerify, 8, sequences, &eager));
    const Status same = CompareMetadata(eager, WithoutPadding(m));
    EXPECT_TRUE(same) << same.error().message;
  }
  EXPECT_GT(launches, 100);
}

TEST(BuildMetadata, BucketsAreChosenAndRefusedBySize) {
  const std::vector<int32_t> pages = {1, 2, 3, 4};
  const Bucket buckets[] = {{.batch = 1, .rows = 1, .max_q_len = 1, .max_kv_len = 16},
                            {.batch = 2, .rows = 8, .max_q_len = 4, .max_kv_len = 16},
                            {.batch = 4, .rows = 8, .max_q_len = 4, .max_kv_len = 16}};
  const auto chosen = [&](std::vector<SequenceRows> sequences) {
    const Bucket* bucket = ChooseBucket(buckets, sequences);
    return bucket == nullptr ? -1 : static_cast<int>(bucket - buckets);
  };
  const SequenceRows one{.pages = pages, .kv_before = 3, .num_rows = 1}, four{.pages = pages, .kv_before = 3, .num_rows = 4};
  EXPECT_EQ(chosen({one}), 0);
  EXPECT_EQ(chosen({four}), 1);
  EXPECT_EQ(chosen({four, four}), 1);
  EXPECT_EQ(chosen({four, one}), 2) << "three padding rows need a dummy that the exact batch has no room for";
  EXPECT_EQ(chosen({one, one, one, one, one}), -1) << "above the largest: eager";
  EXPECT_EQ(chosen({{.pages = pages, .kv_before = 13, .num_rows = 4}}), -1) << "longer than the plan";
  EXPECT_EQ(chosen({{.pages = pages, .kv_before = 0, .num_rows = 5}}), -1) << "more query rows than the plan";
  ForwardMetadata m;
  const std::vector<SequenceRows> five(5, one);
  Status status = BuildMetadata(ForwardMode::kDecode, 8, five, &m, &buckets[2]);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("decode: 5 sequences of 5 rows do not fit the bucket of 4 sequences, 8 rows"));
  EXPECT_EQ(m.batch(), 0) << "a refused build leaves an idle launch";
  const Bucket vast{.batch = 64, .rows = 64, .max_q_len = 1, .max_kv_len = int64_t{1} << 28};
  status = BuildMetadata(ForwardMode::kDecode, 8, {&one, 1}, &m, &vast);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("exceeds the 32-bit limit"));
}

TEST(ForwardMetadata, ClearKeepsMemoryAndIsIdle) {
  const std::vector<int32_t> pages = {1};
  const SequenceRows rows{.pages = pages, .kv_before = 3, .num_rows = 4};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 16, {&rows, 1}, &m));
  const int32_t* kept = m.kv_indices.data();
  m.Clear();
  EXPECT_EQ(m.mode, ForwardMode::kIdle);
  EXPECT_EQ(m.rows(), 0);
  EXPECT_EQ(m.max_kv_len, 0);
  EXPECT_TRUE(CheckLaunch(m, {}, CheckLevel::kFull));
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 16, {&rows, 1}, &m));
  EXPECT_EQ(m.kv_indices.data(), kept) << "a second launch of the same size allocates nothing";
}

TEST(ForwardMetadata, ModesHaveNames) {
  EXPECT_STREQ(ForwardModeName(ForwardMode::kExtend), "extend");
  EXPECT_STREQ(ForwardModeName(ForwardMode::kDecode), "decode");
  EXPECT_STREQ(ForwardModeName(ForwardMode::kDraftDecode), "draft_decode");
  EXPECT_STREQ(ForwardModeName(ForwardMode::kTargetVerify), "target_verify");
  EXPECT_STREQ(ForwardModeName(ForwardMode::kDraftExtend), "draft_extend");
  EXPECT_STREQ(ForwardModeName(ForwardMode::kIdle), "idle");
}

}  // namespace
}  // namespace haast::attention
