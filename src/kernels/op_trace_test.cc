#include "kernels/op_trace.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace haast::kernels {
namespace {

PackedWeight PackZeros(int64_t n, int64_t k, DType dtype, const char* name, base::ThreadPool& pool) {
  static const std::vector<uint8_t> zeros(1 << 16);
  PackedWeight packed =
      *CpuOps(base::Isa::kPortable).pack({.data = zeros.data(), .dtype = dtype, .rank = 2, .shape = {n, k}}, nullptr, pool);
  packed.name = name;
  return packed;
}

TEST(OpTrace, NamesCountsAndResultsOfProducts) {
  base::ThreadPool pool(2);
  const Ops& base = CpuOps(base::Isa::kPortable);
  const PackedWeight gate = PackZeros(48, 32, DType::kQ8_0, "gate_proj", pool);
  const PackedWeight up = PackZeros(16, 32, DType::kF32, "up_proj", pool);
  Workspace workspace = *Workspace::Create(3, 32);
  const std::vector<float> x(3 * 32, 1.0f);
  std::vector<float> out(3 * 64, -1.0f);
  const LinearTask tasks[] = {{&gate, out.data(), 64}, {&up, out.data() + 48, 64}};
  OpTrace trace(base);
  trace.ops().linear({.x = x.data(), .ld_x = 32, .rows = 3}, std::span(tasks), workspace, pool);
  EXPECT_EQ(out, std::vector<float>(3 * 64, 0.0f)) << "the base's op ran";
  ASSERT_EQ(trace.calls().size(), 1u);
  const OpCall& call = trace.calls()[0];
  EXPECT_EQ(OpName(call), "linear gate_proj+up_proj 64x32");
  EXPECT_EQ(call.rows, 3);
  EXPECT_EQ(call.bytes, gate.bytes_per_pass + up.bytes_per_pass);
  EXPECT_EQ(call.operations, 2 * 3 * 48 * 32) << "only block formats multiply in 8 bits";
  EXPECT_GT(call.seconds, 0.0);
  trace.Clear();
  EXPECT_TRUE(trace.calls().empty());
}

TEST(OpTrace, BytesOfAttentionAreThoseOfItsKeysAndValues) {
  const std::vector<float> cache(5 * 8);
  const float q[2 * 16] = {};
  float out[2 * 16];
  const int32_t qo[] = {0, 1, 2};
  const int32_t kv[] = {0, 3, 5};
  const int32_t slots[] = {0, 1, 2, 3, 4};
  base::ThreadPool pool(1);
  OpTrace trace(RefOps());
  std::vector<float> scratch(static_cast<size_t>(trace.ops().attention_scratch(2, 2, 8, 3, 1)));
  const AttentionArgs args{.q = q,
                           .ld_q = 16,
                           .out = out,
                           .ld_out = 16,
                           .k_cache = cache.data(),
                           .v_cache = cache.data(),
                           .kv_dtype = DType::kF32,
                           .num_heads = 2,
                           .num_kv_heads = 1,
                           .head_dim = 8,
                           .scale = 1.0f,
                           .batch = 2,
                           .qo_indptr = qo,
                           .kv_indptr = kv,
                           .kv_indices = slots,
                           .max_kv_len = 3,
                           .scratch = scratch.data()};
  trace.ops().attention(args, pool);
  const float norm[] = {1, 1, 1, 1};
  float row[] = {1, 2, 3, 4};
  trace.ops().rms_norm(row, 4, norm, 0.0f, 1, 4, row, 4, pool);
  ASSERT_EQ(trace.calls().size(), 2u);
  EXPECT_EQ(OpName(trace.calls()[0]), "attention");
  EXPECT_EQ(trace.calls()[0].rows, 2);
  EXPECT_EQ(trace.calls()[0].bytes, 5 * 2 * 8 * 4);
  EXPECT_EQ(OpName(trace.calls()[1]), "rms_norm");
  EXPECT_EQ(trace.calls()[1].bytes, 2 * 4 * 4);
}

TEST(OpTrace, TheBaseIsNotRecordedAndOnlyOneTraceAThread) {
  base::ThreadPool pool(1);
  const float norm[] = {1};
  float x[] = {2};
  OpTrace trace(RefOps());
  RefOps().rms_norm(x, 1, norm, 0.0f, 1, 1, x, 1, pool);
  EXPECT_TRUE(trace.calls().empty());
  EXPECT_DEATH(OpTrace second(RefOps()), "a second trace in one thread");
}

TEST(OpTraceDeathTest, OfAnotherThreadIsABug) {
  EXPECT_DEATH(
      {
        OpTrace trace(RefOps());
        base::ThreadPool pool(2);
        pool.Run([&](int thread, int) {
          base::ThreadPool own(1);
          const float norm[] = {1};
          float x[] = {2};
          if (thread == 1) trace.ops().rms_norm(x, 1, norm, 0.0f, 1, 1, x, 1, own);
        });
      },
      "a thread without a trace");
}

TEST(DotLoop, CountsItsOperations) {
  for (const base::Isa isa : base::SupportedIsas()) {
    const auto loop = CpuOps(isa).dot_loop;
    EXPECT_EQ(loop == nullptr, isa == base::Isa::kPortable) << base::IsaName(isa);
    if (loop != nullptr) {
      EXPECT_GT(loop(1), 0);
      EXPECT_EQ(loop(10), 10 * loop(1));
    }
  }
  EXPECT_EQ(RefOps().dot_loop, nullptr);
}

}  // namespace
}  // namespace haast::kernels
