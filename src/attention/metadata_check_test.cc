#include "attention/metadata_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <limits>

#include "attention/metadata_builder.h"

namespace haast::attention {
namespace {

using ::testing::HasSubstr;

constexpr ForwardMode kModes[] = {ForwardMode::kExtend,       ForwardMode::kDecode,      ForwardMode::kDraftDecode,
                                  ForwardMode::kTargetVerify, ForwardMode::kDraftExtend, ForwardMode::kIdle};

// A launch of three sequences with pages of 4 slots: a decode row, a tree of 4 rows, a prefill of 6 rows.
struct Launch {
  Launch() {
    const std::vector<int32_t> a = {1, 2}, b = {3, 4, 5}, c = {6, 7};
    const std::vector<int32_t> parents = {-1, 0, 0, 2};
    const SequenceRows sequences[] = {{.pages = a, .kv_before = 6, .num_rows = 1},
                                      {.pages = b, .kv_before = 7, .num_rows = 4, .tree_parents = parents},
                                      {.pages = c, .kv_before = 0, .num_rows = 6}};
    const Status built = BuildMetadata(ForwardMode::kTargetVerify, 4, sequences, &m);
    EXPECT_TRUE(built);
    shape.page_owner = page_owner;
    shape.sequence_owner = sequence_owner;
  }
  Launch(const Launch&) = delete;

  std::string Error(CheckLevel level) const {
    const Status status = CheckLaunch(m, shape, level);
    return status ? "" : status.error().message;
  }

  ForwardMetadata m;
  std::vector<int32_t> page_owner = {-2, 10, 10, 11, 11, 11, 12, 12, -1};
  std::vector<int32_t> sequence_owner = {10, 11, 12};
  LaunchShape shape{.q_rows = 11, .kv_rows = 11, .out_rows = 11, .pool_slots = 36, .page_owner = {}, .sequence_owner = {}};
};

struct Refusal {
  const char* name;
  CheckLevel level;  // the lowest level that refuses
  std::function<void(Launch&)> damage;
  const char* message;
};

const Refusal kRefusals[] = {
    {"qo_indptr size", CheckLevel::kLaunch, [](Launch& l) { l.m.qo_indptr.pop_back(); }, "qo_indptr has 3 elements but 3 sequences need 4"},
    {"kv_indptr size", CheckLevel::kLaunch, [](Launch& l) { l.m.kv_indptr.push_back(24); }, "kv_indptr has 5 elements"},
    {"qo_indptr start", CheckLevel::kLaunch, [](Launch& l) { l.m.qo_indptr[0] = 1; },
     "qo_indptr starts at 1 instead of 0 (sequence 0 of 3)"},
    {"kv_indptr start", CheckLevel::kLaunch, [](Launch& l) { l.m.kv_indptr[0] = -7; }, "kv_indptr starts at -7 instead of 0"},
    {"qo_indptr order", CheckLevel::kLaunch, [](Launch& l) { l.m.qo_indptr[2] = 0; }, "qo_indptr decreases from 1 to 0 (sequence 1 of 3)"},
    {"kv_indptr order", CheckLevel::kLaunch, [](Launch& l) { l.m.kv_indptr[2] = 30; },
     "kv_indptr decreases from 30 to 24 (sequence 2 of 3)"},
    {"q rows", CheckLevel::kLaunch, [](Launch& l) { l.shape.q_rows = 4; },
     "target_verify: q has 4 rows but qo_indptr ends at 11 (sequence 2 of 3)"},
    {"kv rows", CheckLevel::kLaunch, [](Launch& l) { l.shape.kv_rows = 12; }, "k has 12 rows but qo_indptr ends at 11"},
    {"out rows", CheckLevel::kLaunch, [](Launch& l) { l.shape.out_rows = 10; }, "out has 10 rows but qo_indptr ends at 11"},
    {"out_slots size", CheckLevel::kLaunch, [](Launch& l) { l.m.out_slots.push_back(9); }, "out_slots has 12 rows"},
    {"positions size", CheckLevel::kLaunch, [](Launch& l) { l.m.positions.pop_back(); }, "positions has 10 rows"},
    {"tree_mask size", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_mask.clear(); }, "tree_mask has 0 rows but qo_indptr ends at 11"},
    {"tree_flags size", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_flags.pop_back(); }, "tree_flags has 2 elements for 3 sequences"},
    {"kv_indices size", CheckLevel::kLaunch, [](Launch& l) { l.m.kv_indices.pop_back(); },
     "kv_indices has 23 entries but kv_indptr ends at 24"},
    {"kv_len", CheckLevel::kLaunch, [](Launch& l) { l.m.kv_len[0] = int64_t{7} + (int64_t{1} << 32); },
     "kv_len is 4294967303 but kv_indptr holds 7 entries (sequence 0 of 3)"},
    {"kv_len below q_len", CheckLevel::kLaunch,
     [](Launch& l) {
       l.m.kv_indptr = {0, 7, 10, 24};
       l.m.kv_len = {7, 3, 14};
     },
     "kv_len 3 is less than its 4 query rows (sequence 1 of 3)"},
    {"tree_cached size", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_cached.pop_back(); }, "tree_cached has 2 elements for 3 sequences"},
    {"cached rows without a tree", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_cached[0] = 1; }, "1 cached tree rows but no tree"},
    {"cached rows", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_cached[1] = 8; }, "8 cached tree rows among 7 KV entries before"},
    {"negative cached rows", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_cached[1] = -1; }, "-1 cached tree rows among 7"},
    {"stale cached rows", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_cached[1] = 2; }, "which hides the row from itself"},
    {"tree flag", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_flags[2] = 0x7f; }, "tree flag is 127, neither 0 nor 1 (sequence 2 of 3)"},
    {"max_q_len", CheckLevel::kLaunch, [](Launch& l) { l.m.max_q_len = 0; },
     "max_q_len is 0 but the longest sequence has 6 query rows (sequence 2 of 3)"},
    {"max_q_len above", CheckLevel::kLaunch, [](Launch& l) { l.m.max_q_len = 7; }, "max_q_len is 7"},
    {"max_kv_len", CheckLevel::kLaunch, [](Launch& l) { l.m.max_kv_len = 10; },
     "max_kv_len is 10 but the longest sequence has 11 KV entries (sequence 1 of 3)"},
    {"page size", CheckLevel::kLaunch, [](Launch& l) { l.m.page_size = 0; }, "page size 0"},
    {"block table cells", CheckLevel::kLaunch, [](Launch& l) { l.m.block_table.pop_back(); },
     "block_table has 8 cells but its stride is 3"},
    {"block table stride", CheckLevel::kLaunch, [](Launch& l) { l.m.block_table_stride = std::numeric_limits<int64_t>::max(); },
     "block_table has 9 cells but its stride is 9223372036854775807"},
    {"block table narrow", CheckLevel::kLaunch, [](Launch& l) { l.m.page_size = 2; },
     "7 KV entries need 4 pages of 2 slots but a row of block_table has 3"},
    {"out slot", CheckLevel::kLaunch, [](Launch& l) { l.m.out_slots[0] = 36; },
     "out_slots[0] is slot 36, outside the pool of 36 slots (sequence 0 of 3)"},
    {"negative out slot", CheckLevel::kLaunch, [](Launch& l) { l.m.out_slots[10] = -1; }, "out_slots[10] is slot -1"},
    {"new kv index", CheckLevel::kLaunch, [](Launch& l) { l.m.kv_indices[6] = 0x7f7f7f7f; },
     "kv_indices[6] is slot 2139062143, outside the pool of 36"},
    {"new page", CheckLevel::kLaunch, [](Launch& l) { l.m.block_table[1] = 9; },
     "page 1 of the sequence is 9 in block_table, outside the pool of 36 slots of 4 slots a page"},
    {"new entry off its page", CheckLevel::kLaunch, [](Launch& l) { l.m.block_table[1] = 8; },
     "kv_indices[6] is slot 10 but page 8 of block_table puts token 6 into slot 34"},
    {"write and read differ", CheckLevel::kLaunch, [](Launch& l) { l.m.out_slots[0] = 11; },
     "row 0 writes slot 11 (out_slots) but is read from slot 10"},
    {"position too far", CheckLevel::kLaunch, [](Launch& l) { l.m.positions[0] = 7; }, "row 0 is at position 7, outside [6, 7)"},
    {"position in the past", CheckLevel::kLaunch, [](Launch& l) { l.m.positions[1] = 6; }, "row 1 is at position 6, outside [7, 11)"},
    {"mask without itself", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_mask[3] = 1; },
     "tree_mask of row 2 is 0x1, which hides the row from itself"},
    {"mask of later rows", CheckLevel::kLaunch, [](Launch& l) { l.m.tree_mask[2] |= uint64_t{1} << 63; },
     "which shows rows after it (sequence 1 of 3)"},
    {"old slot outside", CheckLevel::kFull, [](Launch& l) { l.m.kv_indices[0] = -5; }, "kv_indices[0] is slot -5, outside the pool of 36"},
    {"old slot off its page", CheckLevel::kFull, [](Launch& l) { l.m.kv_indices[2] = 9; }, "kv_indices[2] is slot 9 but page 1"},
    {"old page", CheckLevel::kFull, [](Launch& l) { l.m.block_table[0] = -1; }, "page 0 of the sequence is -1 in block_table"},
    {"surplus page", CheckLevel::kFull, [](Launch& l) { l.m.block_table[2] = 8; },
     "block_table has page 8 in cell 2 but the sequence uses 2 pages"},
    {"position not its depth", CheckLevel::kFull, [](Launch& l) { l.m.positions[7] = 1; },
     "row 7 is at position 1 but 0 tokens precede the launch and its depth is 2"},
    {"tree position", CheckLevel::kFull, [](Launch& l) { l.m.positions[3] = 9; },
     "row 3 is at position 9 but 7 tokens precede the launch and its depth is 1"},
    {"mask skips an ancestor", CheckLevel::kFull, [](Launch& l) { l.m.tree_mask[4] = 0b1100; }, "not the ancestors of one row"},
    {"mask of two branches", CheckLevel::kFull, [](Launch& l) { l.m.tree_mask[4] = 0b1111; },
     "tree_mask of row 3 is 0xf, which shows rows of two branches"},
    {"foreign page", CheckLevel::kFull, [](Launch& l) { l.page_owner[4] = 12; },
     "page 4 belongs to owner 12 but the sequence may use pages of owner 11 (sequence 1 of 3)"},
    {"shared page written", CheckLevel::kFull, [](Launch& l) { l.page_owner[4] = kSharedPageOwner; },
     "page 4 is shared and read-only, but tokens from 7 on are written and it holds tokens 4 to 7 (sequence 1 of 3)"},
    {"free page", CheckLevel::kFull, [](Launch& l) { l.page_owner[1] = -1; }, "page 1 belongs to owner -1"},
    {"owners too few", CheckLevel::kFull, [](Launch& l) { l.shape.page_owner = l.shape.page_owner.first(7); },
     "block_table names page 7 but only 7 pages have an owner"},
    {"sequence owners too few", CheckLevel::kFull, [](Launch& l) { l.shape.sequence_owner = l.shape.sequence_owner.first(2); },
     "sequence_owner has 2 elements for 3 sequences"},
};

TEST(CheckLaunch, AcceptsTheLaunch) {
  EXPECT_EQ(Launch().Error(CheckLevel::kLaunch), "");
  EXPECT_EQ(Launch().Error(CheckLevel::kFull), "");
  Launch shared;
  shared.page_owner[1] = shared.page_owner[3] = kSharedPageOwner;
  EXPECT_EQ(shared.Error(CheckLevel::kFull), "") << "full pages before the rows of the launch may be anybody's";
}

TEST(CheckLaunch, EveryInvariantHasANumberedRefusal) {
  for (const Refusal& refusal : kRefusals) {
    Launch launch;
    refusal.damage(launch);
    EXPECT_THAT(launch.Error(CheckLevel::kFull), HasSubstr(refusal.message)) << refusal.name;
    if (refusal.level == CheckLevel::kLaunch) {
      EXPECT_THAT(launch.Error(CheckLevel::kLaunch), HasSubstr(refusal.message)) << refusal.name;
    } else {
      EXPECT_EQ(launch.Error(CheckLevel::kLaunch), "") << refusal.name << ": the launch level is O(B + new rows)";
    }
  }
}

// The bug that this project began with: indptr left from an 80-token prefill, 4 rows launched.
TEST(CheckLaunch, StaleIndptrIsRefusedInEveryMode) {
  const std::vector<int32_t> pages = {1, 2, 3, 4, 5, 6};
  const SequenceRows rows{.pages = pages, .kv_before = 80, .num_rows = 4};
  const LaunchShape shape{.q_rows = 4, .kv_rows = 4, .out_rows = 4, .pool_slots = 112, .page_owner = {}, .sequence_owner = {}};
  for (const ForwardMode mode : kModes) {
    for (const CheckLevel level : {CheckLevel::kLaunch, CheckLevel::kFull}) {
      ForwardMetadata m;
      ASSERT_TRUE(BuildMetadata(mode, 16, {&rows, 1}, &m));
      EXPECT_TRUE(CheckLaunch(m, shape, level));
      m.qo_indptr = {0, 80};
      m.max_q_len = 0;
      const Status status = CheckLaunch(m, shape, level);
      ASSERT_FALSE(status);
      EXPECT_EQ(status.error().message, std::string(ForwardModeName(mode)) + ": q has 4 rows but qo_indptr ends at 80 (sequence 0 of 1)");
      EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    }
  }
}

TEST(CheckLaunch, TreeOf65RowsIsRefused) {
  const std::vector<int32_t> pages = {1, 2, 3, 4, 5};
  const SequenceRows rows{.pages = pages, .num_rows = 65};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kTargetVerify, 16, {&rows, 1}, &m));
  m.tree_flags[0] = 1;
  const Status status = CheckLaunch(
      m, {.q_rows = 65, .kv_rows = 65, .out_rows = 65, .pool_slots = 96, .page_owner = {}, .sequence_owner = {}}, CheckLevel::kLaunch);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("a tree of 65 rows, 0 of them cached; at most 64 fit the mask"));
}

TEST(CheckLaunch, WritersDoNotCollide) {
  const LaunchShape shape{.q_rows = 2, .kv_rows = 2, .out_rows = 2, .pool_slots = 64, .page_owner = {}, .sequence_owner = {}};
  const std::vector<int32_t> a = {1, 2}, shared = {1, 3};
  ForwardMetadata m;
  // Sharing a prefix page that nobody writes is fine.
  const SequenceRows prefix[] = {{.pages = a, .kv_before = 16, .num_rows = 1}, {.pages = shared, .kv_before = 16, .num_rows = 1}};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 16, prefix, &m));
  EXPECT_TRUE(CheckLaunch(m, shape, CheckLevel::kFull));
  const SequenceRows both[] = {{.pages = a, .kv_before = 3, .num_rows = 1}, {.pages = a, .kv_before = 3, .num_rows = 1}};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 16, both, &m));
  Status status = CheckLaunch(m, shape, CheckLevel::kFull);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("row 1 writes slot 19, which row 0 of sequence 0 writes too (sequence 1 of 2)"));
  const SequenceRows reader[] = {{.pages = a, .kv_before = 3, .num_rows = 1}, {.pages = a, .kv_before = 5, .num_rows = 1}};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 16, reader, &m));
  status = CheckLaunch(m, shape, CheckLevel::kFull);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("kv_indices[7] reads slot 19, which sequence 0 writes (sequence 1 of 2)"));
}

// A decode row and a draft extend of two rows in a bucket of 5 sequences and 8 rows, pages of 4 slots.
struct PaddedLaunch {
  PaddedLaunch() {
    const std::vector<int32_t> a = {1, 2}, b = {3};
    const SequenceRows sequences[] = {{.pages = a, .kv_before = 6, .num_rows = 1}, {.pages = b, .kv_before = 1, .num_rows = 2}};
    const Bucket bucket{.batch = 5, .rows = 8, .max_q_len = 4, .max_kv_len = 16};
    const Status built = BuildMetadata(ForwardMode::kDraftExtend, 4, sequences, &m, &bucket);
    EXPECT_TRUE(built) << built.error().message;
    shape.page_owner = page_owner;
    shape.sequence_owner = sequence_owner;
  }
  PaddedLaunch(const PaddedLaunch&) = delete;

  std::string Error(CheckLevel level) const {
    const Status status = CheckLaunch(m, shape, level);
    return status ? "" : status.error().message;
  }

  ForwardMetadata m;
  std::vector<int32_t> page_owner = {-2, 10, 10, 11, -1};
  std::vector<int32_t> sequence_owner = {10, 11};
  LaunchShape shape{.q_rows = 8, .kv_rows = 8, .out_rows = 8, .pool_slots = 20, .real_rows = 3};
};

TEST(CheckLaunch, PaddingKeepsToTheReservedPage) {
  struct Damage {
    const char* name;
    CheckLevel level;
    std::function<void(PaddedLaunch&)> apply;
    const char* message;
  };
  const Damage damages[] = {
      {"padded rows counted as real", CheckLevel::kLaunch, [](PaddedLaunch& l) { l.shape.real_rows = 8; },
       "8 rows are taken as real but the 2 real sequences have 3 (qo_indptr[2])"},
      {"padding taken for a real sequence", CheckLevel::kLaunch, [](PaddedLaunch& l) { l.m.padded_sequences = 2; },
       "3 rows are taken as real but the 3 real sequences have 5"},
      {"more padding than sequences", CheckLevel::kLaunch, [](PaddedLaunch& l) { l.m.padded_sequences = 6; },
       "6 of 5 sequences are said to be padding"},
      {"negative padding", CheckLevel::kLaunch, [](PaddedLaunch& l) { l.m.padded_sequences = -1; }, "-1 of 5 sequences"},
      {"q not padded", CheckLevel::kLaunch, [](PaddedLaunch& l) { l.shape.q_rows = 3; }, "q has 3 rows but qo_indptr ends at 8"},
      {"padding writes a request's slot", CheckLevel::kLaunch, [](PaddedLaunch& l) { l.m.out_slots[4] = 10; },
       "padding row 4 writes slot 10, which is not on the reserved page 0 (sequence 2 of 5)"},
      {"a request writes the reserved page", CheckLevel::kLaunch, [](PaddedLaunch& l) { l.m.out_slots[0] = 3; },
       "real row 0 writes slot 3, which is on the reserved page 0 (sequence 0 of 5)"},
      {"padding reads a request's page", CheckLevel::kFull,
       [](PaddedLaunch& l) {
         l.m.block_table[3 * l.m.block_table_stride] = 4;
         for (int64_t i = l.m.kv_indptr[3]; i < l.m.kv_indptr[4]; ++i) l.m.kv_indices[i] += 16;
         for (int64_t row = l.m.qo_indptr[3]; row < l.m.qo_indptr[4]; ++row) l.m.out_slots[row] += 16;
       },
       "padding row 5 writes slot 16, which is not on the reserved page 0"},
      {"a request reads the reserved page", CheckLevel::kFull,
       [](PaddedLaunch& l) {
         l.m.block_table[0] = 0;
         for (int64_t i = 0; i < 4; ++i) l.m.kv_indices[i] -= 4;
         l.page_owner[0] = 10;
       },
       "the sequence names page 0, which is reserved for padding (sequence 0 of 5)"},
  };
  EXPECT_EQ(PaddedLaunch().Error(CheckLevel::kLaunch), "");
  EXPECT_EQ(PaddedLaunch().Error(CheckLevel::kFull), "");
  for (const Damage& damage : damages) {
    PaddedLaunch launch;
    damage.apply(launch);
    EXPECT_THAT(launch.Error(CheckLevel::kFull), HasSubstr(damage.message)) << damage.name;
    if (damage.level == CheckLevel::kFull) continue;
    EXPECT_THAT(launch.Error(CheckLevel::kLaunch), HasSubstr(damage.message)) << damage.name;
  }
}

TEST(CheckLaunch, PageTwiceInOneSequence) {
  const std::vector<int32_t> pages = {2, 1, 2};
  const SequenceRows rows{.pages = pages, .kv_before = 40, .num_rows = 1};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 16, {&rows, 1}, &m));
  const Status status = CheckLaunch(m, {.q_rows = 1, .kv_rows = 1, .out_rows = 1, .pool_slots = 64, .page_owner = {}, .sequence_owner = {}},
                                    CheckLevel::kFull);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("block_table names page 2 twice"));
}

// Poison, an off-by-one or an overflow in any single element of any array is noticed: the arrays describe each other.
TEST(CheckLaunch, NoSingleElementCanBeWrong) {
  Launch launch;
  const auto refuses_each = [&](const char* name, auto& values) {
    using T = std::remove_reference_t<decltype(values[0])>;
    for (size_t i = 0; i < values.size(); ++i) {
      const T good = values[i];
      T poison;
      std::memset(&poison, 0x7f, sizeof(poison));
      const T bad[] = {static_cast<T>(good + 1),      static_cast<T>(good - 1),     T{0}, poison,
                       std::numeric_limits<T>::max(), std::numeric_limits<T>::min()};
      for (const T value : bad) {
        if (value == good) continue;
        values[i] = value;
        EXPECT_NE(launch.Error(CheckLevel::kFull), "") << name << "[" << i << "] = " << +value << " instead of " << +good;
      }
      values[i] = good;
    }
  };
  refuses_each("qo_indptr", launch.m.qo_indptr);
  refuses_each("kv_indptr", launch.m.kv_indptr);
  refuses_each("kv_indices", launch.m.kv_indices);
  refuses_each("block_table", launch.m.block_table);
  refuses_each("kv_len", launch.m.kv_len);
  refuses_each("out_slots", launch.m.out_slots);
  refuses_each("positions", launch.m.positions);
  refuses_each("tree_flags", launch.m.tree_flags);
  refuses_each("tree_cached", launch.m.tree_cached);
  std::vector<uint64_t>& mask = launch.m.tree_mask;
  for (int row = 1; row < 5; ++row) {  // the rows of the tree; causal rows ignore their word
    for (int bit = 0; bit < 64; ++bit) {
      mask[row] ^= uint64_t{1} << bit;
      EXPECT_NE(launch.Error(CheckLevel::kFull), "") << "bit " << bit << " of row " << row;
      mask[row] ^= uint64_t{1} << bit;
    }
  }
  EXPECT_EQ(launch.Error(CheckLevel::kFull), "");
}

TEST(CompareMetadata, NamesTheFirstDifference) {
  const std::pair<std::function<void(ForwardMetadata&)>, const char*> differences[] = {
      {[](ForwardMetadata& m) { m.mode = ForwardMode::kDecode; }, "mode: expected target_verify, got decode"},
      {[](ForwardMetadata& m) { m.padded_sequences = 1; }, "padded_sequences: expected 0, got 1"},
      {[](ForwardMetadata& m) { m.page_size = 8; }, "page_size: expected 4, got 8"},
      {[](ForwardMetadata& m) { m.qo_indptr[1] = 9; }, "qo_indptr[1]: expected 1, got 9"},
      {[](ForwardMetadata& m) { m.kv_indptr.push_back(1); }, "kv_indptr: expected 4 elements, got 5"},
      {[](ForwardMetadata& m) { m.kv_indices[3] = 0; }, "kv_indices[3]: expected 7, got 0"},
      {[](ForwardMetadata& m) { m.block_table_stride = 4; }, "block_table_stride: expected 3, got 4"},
      {[](ForwardMetadata& m) { m.block_table[2] = 0; }, "block_table[2]: expected -1, got 0"},
      {[](ForwardMetadata& m) { m.kv_len[2] = int64_t{1} << 40; }, "kv_len[2]: expected 6, got 1099511627776"},
      {[](ForwardMetadata& m) { m.out_slots.pop_back(); }, "out_slots: expected 11 elements, got 10"},
      {[](ForwardMetadata& m) { m.positions[0] = 5; }, "positions[0]: expected 6, got 5"},
      {[](ForwardMetadata& m) { m.tree_flags[1] = 0; }, "tree_flags[1]: expected 1, got 0"},
      {[](ForwardMetadata& m) { m.tree_cached[1] = 3; }, "tree_cached[1]: expected 0, got 3"},
      {[](ForwardMetadata& m) { m.tree_mask[2] = 0; }, "tree_mask[2]: expected 3, got 0"},
      {[](ForwardMetadata& m) { m.max_q_len = 7; }, "max_q_len: expected 6, got 7"},
      {[](ForwardMetadata& m) { m.max_kv_len = 7; }, "max_kv_len: expected 11, got 7"},
  };
  const Launch expected, same;
  EXPECT_TRUE(CompareMetadata(expected.m, same.m));
  for (const auto& [change, message] : differences) {
    Launch actual;
    change(actual.m);
    const Status status = CompareMetadata(expected.m, actual.m);
    ASSERT_FALSE(status) << message;
    EXPECT_EQ(status.error().message, message);
  }
}

}  // namespace
}  // namespace haast::attention
