// The reference against arithmetic done by hand, and the products of every backend against the reference.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/cases/cases.h"
#include "kernels/cases/inputs.h"
#include "kernels/ops.h"

namespace haast::kernels {
namespace {

TEST(Ref, LinearByHand) {
  // [2, 3] weights, rows (1, 2, 3) and (0, -1, 1).
  const float weight[] = {1, 0, 2, -1, 3, 0.5};
  const float x[] = {1, 2, 3, 0, -1, 1};
  const float bias[] = {10, 20};
  base::ThreadPool pool(2);
  const PackedWeight packed = *RefOps().pack({.data = weight, .dtype = DType::kF32, .rank = 2, .shape = {2, 3}}, nullptr, pool);
  Workspace workspace = *Workspace::Create(2, 3);
  float out[4] = {100, 200, 300, 400};
  const LinearTask task{.weight = &packed, .out = out, .ld_out = 2, .bias = bias, .accumulate = true};
  RefOps().linear({.x = x, .ld_x = 3, .rows = 2}, {&task, 1}, workspace, pool);
  EXPECT_EQ(std::vector<float>(out, out + 4), (std::vector<float>{117, 226.5, 312, 417.5}));
}

TEST(Ref, ProloguesByHand) {
  const float identity[] = {1, 0, 0, 1};
  base::ThreadPool pool(1);
  const PackedWeight packed = *RefOps().pack({.data = identity, .dtype = DType::kF32, .rank = 2, .shape = {2, 2}}, nullptr, pool);
  Workspace workspace = *Workspace::Create(1, 2);
  float out[2];
  const LinearTask task{.weight = &packed, .out = out, .ld_out = 2};
  const float x[] = {3, 4};
  const float factors[] = {2, 10};
  RefOps().linear({.x = x, .ld_x = 2, .rows = 1, .prologue = Prologue::kRmsNorm, .norm_weight = factors, .eps = 0.0f}, {&task, 1},
                  workspace, pool);
  EXPECT_NEAR(out[0], 2 * 3 / std::sqrt(12.5), 1e-6);
  EXPECT_NEAR(out[1], 10 * 4 / std::sqrt(12.5), 1e-5);
  RefOps().linear({.x = x, .ld_x = 2, .rows = 1, .prologue = Prologue::kSiluMul, .up = factors}, {&task, 1}, workspace, pool);
  EXPECT_NEAR(out[0], 2 * 3 / (1 + std::exp(-3.0)), 1e-6);
  EXPECT_NEAR(out[1], 10 * 4 / (1 + std::exp(-4.0)), 1e-5);
}

TEST(Ref, AttentionByHand) {
  // Two heads share one KV head of two dimensions; the second of two keys has score ln 3 above the first for head 0, equal for head 1.
  const float k[] = {0, 0, 1, 0};
  const float v[] = {1, 2, 5, 6};
  const float q[] = {std::log(3.0f), 0, 0, 7};
  const int32_t qo[] = {0, 1};
  const int32_t kv[] = {0, 2};
  const int32_t slots[] = {0, 1};
  float out[4];
  base::ThreadPool pool(1);
  RefOps().attention({.q = q,
                      .ld_q = 4,
                      .out = out,
                      .ld_out = 4,
                      .k_cache = k,
                      .v_cache = v,
                      .kv_dtype = DType::kF32,
                      .num_heads = 2,
                      .num_kv_heads = 1,
                      .head_dim = 2,
                      .scale = 1.0f,
                      .batch = 1,
                      .qo_indptr = qo,
                      .kv_indptr = kv,
                      .kv_indices = slots,
                      .tree_flags = nullptr,
                      .tree_cached = nullptr,
                      .tree_mask = nullptr,
                      .max_kv_len = 2,
                      .scratch = nullptr},
                     pool);
  EXPECT_NEAR(out[0], 0.25 * 1 + 0.75 * 5, 1e-6);
  EXPECT_NEAR(out[1], 0.25 * 2 + 0.75 * 6, 1e-6);
  EXPECT_NEAR(out[2], 3, 1e-6);
  EXPECT_NEAR(out[3], 4, 1e-6);
}

TEST(Ref, PackRoundsOnlyFloatsOfWholeBlocks) {
  base::ThreadPool pool(2);
  const DType q8 = DType::kQ8_0;
  const std::vector<float> x = cases::Numbers(5 * 64, 1);
  const PackedWeight rounded = *RefOps().pack({.data = x.data(), .dtype = DType::kF32, .rank = 2, .shape = {5, 64}}, &q8, pool);
  EXPECT_EQ(rounded.dtype, q8);
  EXPECT_EQ(rounded.bytes_per_pass, 5 * 68);
  std::vector<uint8_t> row(68);
  QuantiseRow(x.data() + 4 * 64, 64, q8, row.data());
  EXPECT_EQ(std::memcmp(rounded.data.data() + 4 * 68, row.data(), 68), 0);
  const PackedWeight odd = *RefOps().pack({.data = x.data(), .dtype = DType::kF32, .rank = 2, .shape = {8, 40}}, &q8, pool);
  EXPECT_EQ(odd.dtype, DType::kF32);
  const PackedWeight already = *RefOps().pack({.data = rounded.data.data(), .dtype = q8, .rank = 2, .shape = {5, 64}}, &q8, pool);
  EXPECT_EQ(already.dtype, q8);
  EXPECT_EQ(already.data.size(), 0u);
}

struct LinearInputs {
  explicit LinearInputs(const cases::LinearCase& linear_case)
      : c(linear_case),
        weights(cases::Weights(c.n, c.k, c.dtype, 21)),
        x(cases::Numbers(c.rows * c.k, 22)),
        up(cases::Numbers(c.rows * c.k, 23)),
        norm(cases::Numbers(c.k, 24)),
        bias(cases::Numbers(c.n, 25)),
        residual(cases::Numbers(c.rows * c.n, 26)) {}
  TensorView Weight() const { return {.data = weights.data(), .dtype = c.dtype, .rank = 2, .shape = {c.n, c.k}}; }

  const cases::LinearCase& c;
  std::vector<uint8_t> weights;
  std::vector<float> x;
  std::vector<float> up;
  std::vector<float> norm;
  std::vector<float> bias;
  std::vector<float> residual;
};

std::vector<float> RunLinear(const Ops& ops, const LinearInputs& in, const PackedWeight& packed, int64_t first_row, int64_t rows,
                             base::ThreadPool& pool) {
  const cases::LinearCase& c = in.c;
  Workspace workspace = *Workspace::Create(4, c.k);  // fewer rows than some cases have: done in parts
  std::vector<float> out(in.residual.begin() + first_row * c.n, in.residual.begin() + (first_row + rows) * c.n);
  const LinearTask task{
      .weight = &packed, .out = out.data(), .ld_out = c.n, .bias = c.bias ? in.bias.data() : nullptr, .accumulate = c.accumulate};
  ops.linear({.x = in.x.data() + first_row * c.k,
              .ld_x = c.k,
              .rows = rows,
              .prologue = c.prologue,
              .norm_weight = in.norm.data(),
              .eps = 1e-5f,
              .up = in.up.data() + first_row * c.k},
             {&task, 1}, workspace, pool);
  return out;
}

// Products of fewer than 2^20 weights keep the test quick.
bool Quick(const cases::LinearCase& c) { return c.n * c.k < (1 << 20); }

// The magnitudes of each output's weights summed: what an error of every input by one may change.
std::vector<double> AbsoluteSums(const LinearInputs& in) {
  std::vector<float> row(static_cast<size_t>(in.c.k));
  std::vector<double> sums(static_cast<size_t>(in.c.n), 0.0);
  for (int64_t i = 0; i < in.c.n; ++i) {
    DequantiseRow(in.Weight(), i, row.data());
    for (float w : row) sums[static_cast<size_t>(i)] += std::fabs(w);
  }
  return sums;
}

TEST(Linear, EveryBackendIsNearTheReferenceAndKeepsTheRowRule) {
  base::ThreadPool one_thread(1);
  base::ThreadPool two_threads(2);
  std::vector<const Ops*> backends{&RefOps()};
  for (const base::Isa isa : base::SupportedIsas()) backends.push_back(&CpuOps(isa));
  for (const cases::LinearCase& c : cases::LinearCases()) {
    if (!Quick(c)) continue;
    const LinearInputs in(c);
    const PackedWeight reference = *RefOps().pack(in.Weight(), nullptr, one_thread);
    const std::vector<float> expected = RunLinear(RefOps(), in, reference, 0, c.rows, one_thread);
    // After the norm an input is below 2: the root of the mean square of uniform numbers is about 1/sqrt(3). Else it is below 1.
    const double largest = c.prologue == Prologue::kRmsNorm ? 2.0 : 1.0;
    // Quantised weights round an input to half a step of its block's largest / 127; any weight adds K roundings of the sum.
    const double step = (IsQuantised(c.dtype) ? 0.51 / 127 : 0.0) + static_cast<double>(c.k) * FLT_EPSILON;
    std::vector<double> tolerance = AbsoluteSums(in);
    for (double& t : tolerance) t = t * largest * step + 4 * FLT_EPSILON;
    for (const Ops* ops : backends) {
      const PackedWeight packed = *ops->pack(in.Weight(), nullptr, two_threads);
      const std::vector<float> all = RunLinear(*ops, in, packed, 0, c.rows, two_threads);
      for (size_t i = 0; i < all.size(); ++i) {
        ASSERT_NEAR(all[i], expected[i], tolerance[i % static_cast<size_t>(c.n)]) << ops->name << ", " << c.name;
      }
      for (int64_t r = 0; r < c.rows; ++r) {
        const std::vector<float> one = RunLinear(*ops, in, packed, r, 1, one_thread);
        ASSERT_EQ(std::memcmp(one.data(), all.data() + r * c.n, static_cast<size_t>(c.n) * sizeof(float)), 0)
            << ops->name << ", " << c.name << ", row " << r;
      }
    }
  }
}

}  // namespace
}  // namespace haast::kernels
