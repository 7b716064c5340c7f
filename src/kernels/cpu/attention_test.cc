#include "kernels/cpu/attention.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cases/cases.h"
#include "kernels/cases/inputs.h"
#include "kernels/cpu/row_kernels_test_util.h"

namespace haast::kernels {
namespace {

using cases::AttentionCase;
using cases::AttentionInputs;

std::vector<float> Attended(const RowKernels& kernels, const AttentionInputs& inputs, base::ThreadPool& pool) {
  const float nan = std::numeric_limits<float>::quiet_NaN();  // memory that is read before it is written shows
  std::vector<float> out(static_cast<size_t>(inputs.rows() * inputs.row_size()), nan);
  std::vector<float> scratch(
      static_cast<size_t>(AttentionScratchFloats(inputs.rows(), inputs.shape.heads, inputs.shape.head_dim, inputs.max_kv_len, pool.size())),
      nan);
  Attend(kernels, inputs.Args(out.data(), scratch.data()), pool);
  return out;
}

bool SameBits(const float* a, const float* b, int64_t count) { return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0; }

// Numbers are below 1, so a score is below sqrt(D) and, as a chain of D roundings in one backend and of fewer in the other, wrong by
// at most 2 D sqrt(D) u (u = half an epsilon); weights are then wrong by that part, twice with their sum; the chain over the keys adds
// one rounding a key and the exponential, the joins and the quotient a few.
double Tolerance(const AttentionInputs& inputs) {
  const double d = inputs.shape.head_dim;
  return (4 * d * std::sqrt(d) + 2.0 * static_cast<double>(inputs.max_kv_len) + 32) * (FLT_EPSILON / 2);
}

class AttentionCases : public testing::TestWithParam<int> {
 protected:
  const AttentionCase& Case() const { return cases::AttentionCases()[static_cast<size_t>(GetParam())]; }
};

TEST_P(AttentionCases, IsNearTheReferenceAndHasOneSetOfBits) {
  const AttentionInputs inputs(Case(), 11);
  base::ThreadPool pool(2);
  std::vector<float> expected(static_cast<size_t>(inputs.rows() * inputs.row_size()));
  RefOps().attention(inputs.Args(expected.data(), nullptr), pool);
  const std::vector<float> portable = Attended(PortableRowKernels(), inputs, pool);
  double error = 0.0;
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_FALSE(std::isnan(portable[i])) << Case().name << " element " << i;
    error = std::max(error, static_cast<double>(std::fabs(portable[i] - expected[i])));
  }
  EXPECT_LE(error, Tolerance(inputs)) << Case().name;
  for (const auto& [name, kernels] : RunnableRowKernels()) {
    for (int threads : {1, 3}) {
      base::ThreadPool other(threads);
      const std::vector<float> out = Attended(*kernels, inputs, other);
      EXPECT_TRUE(SameBits(out.data(), portable.data(), static_cast<int64_t>(out.size()))) << Case().name << ", " << name;
    }
  }
}

// The row rule and the tree rule at once: each row alone, as plain decoding over its list of keys.
TEST_P(AttentionCases, ARowAloneHasItsBitsInTheBatch) {
  const AttentionInputs inputs(Case(), 12);
  base::ThreadPool pool(1);
  const RowKernels& kernels = RowKernelsFor(base::BestIsa());
  const std::vector<float> together = Attended(kernels, inputs, pool);
  std::vector<float> scratch(
      static_cast<size_t>(AttentionScratchFloats(1, inputs.shape.heads, inputs.shape.head_dim, inputs.max_kv_len, 1)));
  std::vector<float> alone(static_cast<size_t>(inputs.row_size()));
  const int64_t step = inputs.rows() > 60 ? 7 : 1;
  int64_t tested = 0;
  for (int b = 0; b < static_cast<int>(inputs.shape.sequences.size()); ++b) {
    for (int j = 0; j < inputs.shape.sequences[static_cast<size_t>(b)].rows; ++j) {
      const int64_t row = inputs.qo_indptr[static_cast<size_t>(b)] + j;
      if (row % step != 0 && row + 1 != inputs.rows()) continue;
      const std::vector<int32_t> slots = inputs.VisibleSlots(b, j);
      const int32_t qo_indptr[] = {0, 1};
      const int32_t kv_indptr[] = {0, static_cast<int32_t>(slots.size())};
      AttentionArgs args = inputs.Args(alone.data(), scratch.data());
      args.q = inputs.q.data() + row * inputs.row_size();
      args.batch = 1;
      args.qo_indptr = qo_indptr;
      args.kv_indptr = kv_indptr;
      args.kv_indices = slots.data();
      args.tree_flags = nullptr;
      args.tree_mask = nullptr;
      args.max_kv_len = static_cast<int64_t>(slots.size());
      Attend(kernels, args, pool);
      ASSERT_TRUE(SameBits(alone.data(), together.data() + row * inputs.row_size(), inputs.row_size()))
          << Case().name << ": row " << j << " of sequence " << b;
      ++tested;
    }
  }
  EXPECT_GT(tested, 0);
}

INSTANTIATE_TEST_SUITE_P(All, AttentionCases, testing::Range(0, static_cast<int>(cases::AttentionCases().size())));

TEST(Attention, WhatARowDoesNotSeeNeverEntersIt) {
  for (bool tree : {false, true}) {
    const AttentionCase shape{"poisoned row", 6, 2, 64, DType::kF16, {{124, 8, tree}}};
    AttentionInputs inputs(shape, 13);
    base::ThreadPool pool(2);
    const RowKernels& kernels = RowKernelsFor(base::BestIsa());
    const std::vector<float> clean = Attended(kernels, inputs, pool);
    const int64_t width = 2 * 64;
    const int64_t poisoned = inputs.kv_indices[124 + 5];
    for (int64_t i = 0; i < width; ++i) {
      inputs.k_cache.as<uint16_t>()[poisoned * width + i] = 0x7e00;  // NaN
      inputs.v_cache.as<uint16_t>()[poisoned * width + i] = 0x7c00;  // infinity
    }
    const std::vector<float> out = Attended(kernels, inputs, pool);
    int changed = 0;
    for (int j = 0; j < 8; ++j) {
      const bool sees = tree ? ((inputs.tree_mask[static_cast<size_t>(j)] >> 5) & 1) != 0 : j >= 5;
      const bool same = SameBits(out.data() + j * inputs.row_size(), clean.data() + j * inputs.row_size(), inputs.row_size());
      EXPECT_EQ(same, !sees) << "row " << j << (tree ? " of a tree" : "");
      changed += !same;
    }
    EXPECT_GT(changed, 0);
  }
}

TEST(Attention, ARowWithoutKeysIsABug) {
  const AttentionCase shape{"empty tree row", 1, 1, 16, DType::kF16, {{0, 2, true}}};
  AttentionInputs inputs(shape, 14);
  inputs.tree_mask[0] = 0;
  EXPECT_DEATH(
      {
        base::ThreadPool pool(1);
        Attended(PortableRowKernels(), inputs, pool);
      },
      "row 0 sees no key");
}

TEST(Attention, OfNothingTouchesNothing) {
  base::ThreadPool pool(2);
  const AttentionInputs empty({"no sequence", 4, 2, 64, DType::kF16, {}}, 15);
  EXPECT_TRUE(Attended(PortableRowKernels(), empty, pool).empty());
  const AttentionInputs idle({"a sequence without rows", 4, 2, 64, DType::kF16, {{200, 0}, {10, 1}, {0, 0}}}, 15);
  const std::vector<float> out = Attended(PortableRowKernels(), idle, pool);
  EXPECT_EQ(out.size(), 4u * 64);
  EXPECT_FALSE(std::isnan(out[0]));
}

// A pool larger than memory: only the pages that are touched exist.
class ReservedPool {
 public:
  explicit ReservedPool(size_t bytes) : bytes_(bytes) {
    data_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  ~ReservedPool() {
    if (ok()) munmap(data_, bytes_);
  }
  ReservedPool(const ReservedPool&) = delete;
  ReservedPool& operator=(const ReservedPool&) = delete;
  bool ok() const { return data_ != MAP_FAILED; }
  void* data() { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

// Byte offsets pass 2^31 and 2^32 (and element offsets do) on the last slots of the pool.
TEST(Attention, HighestSlotsOfALargePoolEqualASmallPool) {
  constexpr int kHeads = 8;
  constexpr int kKvHeads = 8;
  constexpr int kDim = 128;
  constexpr int64_t kSlotBytes = int64_t{kKvHeads} * kDim * 2;  // 2 KiB
  constexpr int64_t kSlots = (int64_t{1} << 22) + 40;           // over 8 GiB: 2^32 elements
  ReservedPool k_pool(kSlots * kSlotBytes);
  ReservedPool v_pool(kSlots * kSlotBytes);
  if (!k_pool.ok() || !v_pool.ok()) GTEST_SKIP() << "cannot reserve " << 2 * kSlots * kSlotBytes << " bytes of addresses";

  // One token below and above each power of two, and the highest slots.
  std::vector<int32_t> high;
  for (int64_t edge : {int64_t{1} << 20, int64_t{1} << 21, int64_t{1} << 22}) {
    high.push_back(static_cast<int32_t>(edge - 1));
    high.push_back(static_cast<int32_t>(edge));
  }
  for (int i = 1; i <= 4; ++i) high.push_back(static_cast<int32_t>(kSlots - i));
  const int rows = static_cast<int>(high.size());
  std::vector<int32_t> low(static_cast<size_t>(rows));
  std::vector<int32_t> positions(static_cast<size_t>(rows));
  for (int i = 0; i < rows; ++i) low[static_cast<size_t>(i)] = positions[static_cast<size_t>(i)] = i;

  const std::vector<float> q = cases::Numbers(rows * kHeads * kDim, 1);
  const std::vector<float> k = cases::Numbers(rows * kKvHeads * kDim, 2);
  const std::vector<float> v = cases::Numbers(rows * kKvHeads * kDim, 3);
  const std::vector<float> cos = cases::Numbers(rows * kDim / 2, 4);
  const std::vector<float> sin = cases::Numbers(rows * kDim / 2, 5);
  std::vector<uint8_t> small_k(static_cast<size_t>(rows * kSlotBytes));
  std::vector<uint8_t> small_v(small_k.size());
  const int32_t indptr[] = {0, rows};
  base::ThreadPool pool(2);

  auto run = [&](const Ops& ops, const std::vector<int32_t>& slots, void* k_cache, void* v_cache) {
    std::vector<float> rotated = q;
    ops.rope_store({.q = rotated.data(),
                    .ld_q = kHeads * kDim,
                    .k = k.data(),
                    .ld_k = kKvHeads * kDim,
                    .v = v.data(),
                    .ld_v = kKvHeads * kDim,
                    .rows = rows,
                    .num_heads = kHeads,
                    .num_kv_heads = kKvHeads,
                    .head_dim = kDim,
                    .interleaved = false,
                    .positions = positions.data(),
                    .cos = cos.data(),
                    .sin = sin.data(),
                    .out_slots = slots.data(),
                    .k_cache = k_cache,
                    .v_cache = v_cache,
                    .kv_dtype = DType::kF16},
                   pool);
    std::vector<float> out(q.size());
    std::vector<float> scratch(static_cast<size_t>(ops.attention_scratch(rows, kHeads, kDim, rows, pool.size())));
    ops.attention({.q = rotated.data(),
                   .ld_q = kHeads * kDim,
                   .out = out.data(),
                   .ld_out = kHeads * kDim,
                   .k_cache = k_cache,
                   .v_cache = v_cache,
                   .kv_dtype = DType::kF16,
                   .num_heads = kHeads,
                   .num_kv_heads = kKvHeads,
                   .head_dim = kDim,
                   .scale = 0.1f,
                   .batch = 1,
                   .qo_indptr = indptr,
                   .kv_indptr = indptr,
                   .kv_indices = slots.data(),
                   .tree_flags = nullptr,
                   .tree_cached = nullptr,
                   .tree_mask = nullptr,
                   .max_kv_len = rows,
                   .scratch = scratch.data()},
                  pool);
    return out;
  };
  for (const Ops* ops : {&RefOps(), &CpuOps(base::Isa::kPortable), &CpuOps(base::BestIsa())}) {
    const std::vector<float> in_small = run(*ops, low, small_k.data(), small_v.data());
    const std::vector<float> in_large = run(*ops, high, k_pool.data(), v_pool.data());
    EXPECT_TRUE(SameBits(in_small.data(), in_large.data(), static_cast<int64_t>(in_small.size()))) << ops->name;
    for (int i = 0; i < rows; ++i) {
      const uint8_t* stored = static_cast<const uint8_t*>(k_pool.data()) + high[static_cast<size_t>(i)] * kSlotBytes;
      EXPECT_EQ(std::memcmp(stored, small_k.data() + i * kSlotBytes, kSlotBytes), 0)
          << ops->name << ", slot " << high[static_cast<size_t>(i)];
    }
  }
}

}  // namespace
}  // namespace haast::kernels
