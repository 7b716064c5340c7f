// Rope, norms and the operations on rows of logits: every backend against the reference, and the instruction sets against each other.
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/cases/cases.h"
#include "kernels/cases/inputs.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/row_kernels_test_util.h"

namespace haast::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

// What rope_store leaves behind.
struct RopeResult {
  std::vector<float> q;
  std::vector<uint8_t> k;
  std::vector<uint8_t> v;
  bool operator==(const RopeResult& other) const { return SameBits(q, other.q) && k == other.k && v == other.v; }
};

template <typename Fn>
RopeResult RunRope(const cases::RopeCase& shape, int first_row, int rows, Fn&& rope_store) {
  const int64_t q_size = static_cast<int64_t>(shape.heads) * shape.head_dim;
  const int64_t kv_size = static_cast<int64_t>(shape.kv_heads) * shape.head_dim;
  const int64_t ld_k = 2 * kv_size + 3;  // k and v lie in one fused buffer
  const std::vector<float> angles = cases::Numbers(int64_t{100} * shape.head_dim / 2, 3);
  std::vector<float> cos(angles.size());
  std::vector<float> sin(angles.size());
  for (size_t i = 0; i < angles.size(); ++i) {
    cos[i] = std::cos(3 * angles[i]);
    sin[i] = std::sin(3 * angles[i]);
  }
  const std::vector<float> q = cases::Numbers(shape.rows * q_size, 1);
  const std::vector<float> kv = cases::Numbers(shape.rows * ld_k, 2);
  std::vector<int32_t> positions;
  std::vector<int32_t> slots;
  for (int r = first_row; r < first_row + rows; ++r) {
    positions.push_back((r * 31 + 7) % 100);
    slots.push_back((r * 17 + 3) % 100);
  }
  RopeResult result;
  result.q.assign(q.begin() + first_row * q_size, q.begin() + (first_row + rows) * q_size);
  result.k.resize(static_cast<size_t>(100 * BytesOf(shape.kv_dtype, kv_size)));
  result.v.resize(result.k.size());
  rope_store(RopeStoreArgs{.q = result.q.data(),
                           .ld_q = q_size,
                           .k = kv.data() + first_row * ld_k,
                           .ld_k = ld_k,
                           .v = kv.data() + first_row * ld_k + kv_size,
                           .ld_v = ld_k,
                           .rows = rows,
                           .num_heads = shape.heads,
                           .num_kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .interleaved = shape.interleaved,
                           .positions = positions.data(),
                           .cos = cos.data(),
                           .sin = sin.data(),
                           .out_slots = slots.data(),
                           .k_cache = result.k.data(),
                           .v_cache = result.v.data(),
                           .kv_dtype = shape.kv_dtype});
  return result;
}

TEST(RopeStore, EqualsTheReferenceBitForBit) {
  base::ThreadPool pool(2);
  for (const cases::RopeCase& shape : cases::RopeCases()) {
    const RopeResult expected = RunRope(shape, 0, shape.rows, [&](const RopeStoreArgs& args) { RefOps().rope_store(args, pool); });
    for (const auto& [name, kernels] : RunnableRowKernels()) {
      const RowKernels& row_kernels = *kernels;
      const RopeResult result = RunRope(shape, 0, shape.rows, [&](const RopeStoreArgs& args) { RotateAndStore(row_kernels, args, pool); });
      EXPECT_TRUE(result == expected) << shape.name << ", " << name;
    }
  }
}

TEST(RopeStore, TurnsEachPairByItsAngle) {
  // 90 degrees: (a, b) becomes (-b, a). Halves pair 0 with 2; neighbours pair 0 with 1.
  const float cos[] = {0.0f, 0.0f};
  const float sin[] = {1.0f, 1.0f};
  const float k[] = {1.0f, 2.0f, 3.0f, 4.0f};
  const int32_t zero = 0;
  base::ThreadPool pool(1);
  for (const Ops* ops : {&RefOps(), &CpuOps(base::BestIsa())}) {
    for (bool interleaved : {false, true}) {
      float q[] = {1.0f, 2.0f, 3.0f, 4.0f};
      float k_cache[4];
      float v_cache[4];
      ops->rope_store({.q = q,
                       .ld_q = 4,
                       .k = k,
                       .ld_k = 4,
                       .v = k,
                       .ld_v = 4,
                       .rows = 1,
                       .num_heads = 1,
                       .num_kv_heads = 1,
                       .head_dim = 4,
                       .interleaved = interleaved,
                       .positions = &zero,
                       .cos = cos,
                       .sin = sin,
                       .out_slots = &zero,
                       .k_cache = k_cache,
                       .v_cache = v_cache,
                       .kv_dtype = DType::kF32},
                      pool);
      const std::vector<float> expected = interleaved ? std::vector<float>{-2, 1, -4, 3} : std::vector<float>{-3, -4, 1, 2};
      EXPECT_EQ(std::vector<float>(q, q + 4), expected) << ops->name;
      EXPECT_EQ(std::vector<float>(k_cache, k_cache + 4), expected) << ops->name;
      EXPECT_EQ(std::vector<float>(v_cache, v_cache + 4), std::vector<float>(k, k + 4)) << ops->name;
    }
  }
}

TEST(RopeStore, ARowAloneHasItsBits) {
  base::ThreadPool pool(3);
  const cases::RopeCase shape{"rows", 9, 3, 64, false, DType::kF16, 9};
  const RopeResult all = RunRope(shape, 0, 9, [&](const RopeStoreArgs& args) { CpuOps(base::BestIsa()).rope_store(args, pool); });
  for (int r = 0; r < 9; ++r) {
    const RopeResult one = RunRope(shape, r, 1, [&](const RopeStoreArgs& args) { CpuOps(base::BestIsa()).rope_store(args, pool); });
    EXPECT_EQ(std::memcmp(one.q.data(), all.q.data() + r * 9 * 64, 9 * 64 * sizeof(float)), 0) << r;
    const int64_t slot = (r * 17 + 3) % 100 * 3 * 64 * 2;
    EXPECT_EQ(std::memcmp(one.k.data() + slot, all.k.data() + slot, 3 * 64 * 2), 0) << r;
  }
}

std::vector<const Ops*> Backends() {
  std::vector<const Ops*> backends;
  for (const base::Isa isa : base::SupportedIsas()) backends.push_back(&CpuOps(isa));
  return backends;
}

TEST(RmsNorm, IsNearTheReferenceAndKeepsTheRowRule) {
  for (const cases::NormCase& shape : cases::NormCases()) {
    const std::vector<float> x = cases::Numbers(shape.rows * (shape.k + 1), 1);
    const std::vector<float> weight = cases::Numbers(shape.k, 2);
    base::ThreadPool pool(2);
    std::vector<float> expected(static_cast<size_t>(shape.rows * shape.k));
    RefOps().rms_norm(x.data(), shape.k + 1, weight.data(), 1e-5f, shape.rows, shape.k, expected.data(), shape.k, pool);
    std::vector<float> first;
    for (const Ops* ops : Backends()) {
      std::vector<float> out(expected.size());
      ops->rms_norm(x.data(), shape.k + 1, weight.data(), 1e-5f, shape.rows, shape.k, out.data(), shape.k, pool);
      // The sum of k squares (all positive) in chains of k / 16 is wrong by k / 16 + 4 roundings, half of that under the root.
      const int64_t roundings = shape.k / 16 + 12;
      const float tolerance = static_cast<float>(roundings) * FLT_EPSILON / 2;
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], tolerance * std::fabs(expected[i]) + FLT_MIN) << ops->name;
      if (first.empty()) first = out;
      EXPECT_TRUE(SameBits(out, first)) << ops->name << ", k = " << shape.k;
      for (int64_t r = 0; r < shape.rows; ++r) {
        std::vector<float> row(x.begin() + r * (shape.k + 1), x.begin() + r * (shape.k + 1) + shape.k);
        ops->rms_norm(row.data(), shape.k, weight.data(), 1e-5f, 1, shape.k, row.data(), shape.k, pool);  // in place
        EXPECT_EQ(std::memcmp(row.data(), out.data() + r * shape.k, static_cast<size_t>(shape.k) * sizeof(float)), 0) << ops->name;
      }
    }
  }
}

std::vector<float> Logits(int64_t n) {
  std::vector<float> logits = cases::Numbers(n, 5);
  for (float& x : logits) x *= 20.0f;
  return logits;
}

TEST(RowStats, IsNearTheReferenceAndHasOneSetOfBits) {
  for (const cases::LogitsCase& shape : cases::LogitsCases()) {
    const std::vector<float> logits = Logits(shape.n);
    const RowStats expected = RefOps().row_stats(logits.data(), shape.n);
    const RowStats portable = PortableRowKernels().row_stats(logits.data(), shape.n);
    EXPECT_EQ(portable.argmax, expected.argmax);
    EXPECT_EQ(portable.max, expected.max);
    // Exponentials are right to 2^-22; a chain adds at most 256 + 4 positive terms before it is joined in double.
    EXPECT_NEAR(portable.log_sum_exp, expected.log_sum_exp, (8 + 260) * FLT_EPSILON / 2 + std::fabs(expected.log_sum_exp) * FLT_EPSILON);
    for (const auto& [name, kernels] : RunnableRowKernels()) {
      const RowStats stats = kernels->row_stats(logits.data(), shape.n);
      EXPECT_EQ(stats.argmax, portable.argmax) << name << ", n = " << shape.n;
      EXPECT_EQ(std::memcmp(&stats.max, &portable.max, sizeof(float)), 0) << name;
      EXPECT_EQ(std::memcmp(&stats.log_sum_exp, &portable.log_sum_exp, sizeof(float)), 0) << name << ", n = " << shape.n;
      EXPECT_EQ(kernels->argmax(logits.data(), shape.n), portable.argmax) << name;
      std::vector<float> moved(logits.size() + 1);  // another alignment
      std::copy(logits.begin(), logits.end(), moved.begin() + 1);
      EXPECT_EQ(kernels->row_stats(moved.data() + 1, shape.n).log_sum_exp, portable.log_sum_exp) << name;
    }
  }
}

TEST(Argmax, FindsEveryPlaceAndTheFirstOfEqualOnes) {
  for (const auto& [name, kernels] : RunnableRowKernels()) {
    for (int64_t n : {1, 7, 16, 33, 50}) {
      for (int64_t place = 0; place < n; ++place) {
        std::vector<float> x(static_cast<size_t>(n), -3.0f);
        x[static_cast<size_t>(place)] = 2.0f;
        if (place + 1 < n) x[static_cast<size_t>(n - 1)] = 2.0f;
        EXPECT_EQ(kernels->argmax(x.data(), n), place) << name;
      }
    }
    const float zeros[] = {-1.0f, -0.0f, 0.0f};
    EXPECT_EQ(kernels->argmax(zeros, 3), 1) << name << ": both zeros are equal";
  }
}

TEST(RowStats, OddValues) {
  struct Odd {
    std::vector<float> logits;
    int32_t argmax;
    float log_sum_exp;  // NaN: NaN expected
  };
  const float big = std::numeric_limits<float>::max();
  std::vector<Odd> cases{
      {{kNan, kNan, kNan}, 0, kNan},
      {{kNan, -kInf}, 1, -kInf},
      {{-kInf, -kInf, -kInf}, 0, -kInf},
      {{1.0f, kInf, kInf}, 1, kInf},
      {{kNan, 1.0f, 3.0f, kNan, 2.0f}, 2, kNan},
      {{-kInf, 5.0f, -kInf}, 1, 5.0f},
      {{big, -big}, 0, big},
  };
  std::vector<float> wide(40, kNan);
  wide[39] = -7.0f;
  cases.push_back({wide, 39, kNan});
  std::vector<std::pair<std::string, RowStats (*)(const float*, int64_t)>> backends{{"ref", RefOps().row_stats}};
  for (const auto& [name, kernels] : RunnableRowKernels()) backends.emplace_back(name, kernels->row_stats);
  for (const auto& [name, row_stats] : backends) {
    for (const Odd& odd : cases) {
      const RowStats stats = row_stats(odd.logits.data(), static_cast<int64_t>(odd.logits.size()));
      EXPECT_EQ(stats.argmax, odd.argmax) << name;
      if (std::isnan(odd.log_sum_exp)) {
        EXPECT_TRUE(std::isnan(stats.log_sum_exp)) << name;
      } else {
        EXPECT_EQ(stats.log_sum_exp, odd.log_sum_exp) << name;
      }
    }
  }
}

TEST(ExpRow, IsNearTheReferenceAndHasOneSetOfBits) {
  for (const cases::LogitsCase& shape : cases::LogitsCases()) {
    std::vector<float> logits = Logits(shape.n);
    if (shape.n > 2) logits[1] = -kInf;  // masked
    const float max = logits[static_cast<size_t>(RefOps().argmax(logits.data(), shape.n))];
    std::vector<float> expected(logits.size());
    const float expected_sum = RefOps().exp_row(logits.data(), shape.n, max, 1.5f, expected.data());
    std::vector<float> portable(logits.size());
    const float portable_sum = PortableRowKernels().exp_row(logits.data(), shape.n, max, 1.5f, portable.data());
    EXPECT_NEAR(portable_sum, expected_sum, expected_sum * (8 + 260) * FLT_EPSILON / 2);
    // 2^-22 of the exponential; below e^-87 it may stop at 0 where the reference still has a denormal neighbour.
    for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(portable[i], expected[i], expected[i] * 4 * FLT_EPSILON + 2e-38f) << i;
    if (shape.n > 2) {
      EXPECT_EQ(portable[1], 0.0f) << "a masked token has no weight at all";
    }
    for (const auto& [name, kernels] : RunnableRowKernels()) {
      std::vector<float> out = logits;  // in place
      const float sum = kernels->exp_row(out.data(), shape.n, max, 1.5f, out.data());
      EXPECT_EQ(std::memcmp(&sum, &portable_sum, sizeof(float)), 0) << name << ", n = " << shape.n;
      EXPECT_TRUE(SameBits(out, portable)) << name << ", n = " << shape.n;
    }
  }
}

TEST(ToHalf, RoundsEveryFloatClassAsTheCoreDoes) {
  std::vector<float> x = cases::Numbers(1000, 9);
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i % 60) - 40);
  x.insert(x.end(), {0.0f, -0.0f, kInf, -kInf, 65504.0f, 65519.9f, 65520.0f, 1e-8f, 5.9604645e-8f, 2.9802322e-8f, 1e-40f});
  for (const auto& [name, kernels] : RunnableRowKernels()) {
    std::vector<uint16_t> out(x.size());
    kernels->to_half(x.data(), static_cast<int64_t>(x.size()), out.data());
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(out[i], FloatToHalf(x[i])) << name << ": " << x[i];
  }
}

}  // namespace
}  // namespace haast::kernels
