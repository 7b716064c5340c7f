#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "attention/backend.h"
#include "attention/metadata_builder.h"

namespace haast::attention {
namespace {

using ::testing::HasSubstr;

constexpr ForwardMode kModes[] = {ForwardMode::kExtend,       ForwardMode::kDecode,      ForwardMode::kDraftDecode,
                                  ForwardMode::kTargetVerify, ForwardMode::kDraftExtend, ForwardMode::kIdle};
constexpr HeadShape kHeads{
    .num_heads = 4, .num_kv_heads = 2, .head_dim = 16, .scale = 0.25f, .rope_interleaved = false, .kv_dtype = DType::kF16};
constexpr int64_t kContext = 128;
constexpr int kPageSize = 16;
const std::vector<int32_t> kPages = {3, 1, 6, 2, 5, 4};
constexpr int64_t kSlots = 7 * kPageSize;

std::vector<const kernels::Ops*> Backends() {
  std::vector<const kernels::Ops*> backends = {&kernels::RefOps()};
  for (const base::Isa isa : base::SupportedIsas()) backends.push_back(&kernels::CpuOps(isa));
  return backends;
}

LaunchShape ShapeOf(int64_t rows) {
  return {.q_rows = rows, .kv_rows = rows, .out_rows = rows, .pool_slots = kSlots, .page_owner = {}, .sequence_owner = {}};
}

// Counts kernel calls and keeps their arguments.
struct Calls {
  int rope = 0;
  int attention = 0;
  kernels::RopeStoreArgs rope_args{};
  kernels::AttentionArgs attention_args{};
};
Calls* g_calls = nullptr;  // of the running test: Ops holds plain function pointers

kernels::Ops CountingOps() {
  kernels::Ops ops = kernels::RefOps();
  ops.name = "counting";
  ops.attention_scratch = [](int64_t, int, int, int64_t, int) -> int64_t { return 16; };
  ops.rope_store = [](const kernels::RopeStoreArgs& args, base::ThreadPool&) {
    EXPECT_EQ(g_calls->attention, g_calls->rope) << "K and V are stored before they are read";
    ++g_calls->rope;
    g_calls->rope_args = args;
  };
  ops.attention = [](const kernels::AttentionArgs& args, base::ThreadPool&) {
    ++g_calls->attention;
    g_calls->attention_args = args;
  };
  return ops;
}

class HostBackendTest : public ::testing::Test {
 protected:
  HostBackendTest() { g_calls = &calls_; }
  std::unique_ptr<Backend> Make(const kernels::Ops& ops, const HeadShape& heads = kHeads, int64_t max_rows = 96) {
    auto backend = MakeHostBackend(ops, pool_, heads, max_rows, kContext);
    EXPECT_TRUE(backend) << backend.error().message;
    return std::move(*backend);
  }
  ForwardMetadata Build(ForwardMode mode, int64_t before, int64_t rows) {
    ForwardMetadata m;
    const SequenceRows sequence{.pages = kPages, .kv_before = before, .num_rows = rows};
    EXPECT_TRUE(BuildMetadata(mode, kPageSize, {&sequence, 1}, &m));
    return m;
  }

  base::ThreadPool pool_{2};
  Calls calls_;
};

TEST_F(HostBackendTest, StaleIndptrIsRefusedByEveryBackendInEveryMode) {
  for (const kernels::Ops* ops : Backends()) {
    auto backend = Make(*ops);
    for (const ForwardMode mode : kModes) {
      ForwardMetadata m = Build(mode, 80, 4);
      m.qo_indptr = {0, 80};
      m.max_q_len = 0;
      const Status status = backend->Plan(m, ShapeOf(4), kHeads);
      ASSERT_FALSE(status) << ops->name << " " << ForwardModeName(mode);
      EXPECT_EQ(status.error().message, std::string(ForwardModeName(mode)) + ": q has 4 rows but qo_indptr ends at 80 (sequence 0 of 1)");
    }
  }
}

TEST_F(HostBackendTest, RefusedPlanRunsNothing) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the pool has threads
  const kernels::Ops ops = CountingOps();
  auto backend = Make(ops);
  const ForwardMetadata good = Build(ForwardMode::kDecode, 8, 1);
  ForwardMetadata bad = Build(ForwardMode::kDraftExtend, 80, 4);
  bad.qo_indptr = {0, 80};
  std::vector<float> q(64), out(64);
  ASSERT_TRUE(backend->Plan(good, ShapeOf(1), kHeads));
  ASSERT_FALSE(backend->Plan(bad, ShapeOf(4), kHeads));
  EXPECT_DEATH(backend->Run(q.data(), 64, q.data(), 32, q.data(), 32, q.data(), q.data(), {}, out.data()), "without an accepted plan");
  EXPECT_EQ(calls_.rope + calls_.attention, 0);
}

TEST_F(HostBackendTest, PassesTheLaunchToTheKernels) {
  const kernels::Ops ops = CountingOps();
  auto backend = Make(ops);
  EXPECT_STREQ(backend->name(), "counting");
  ForwardMetadata m;
  const std::vector<int32_t> parents = {-1, 0, 0};
  const SequenceRows sequence{.pages = kPages, .kv_before = 20, .num_rows = 3, .tree_parents = parents};
  ASSERT_TRUE(BuildMetadata(ForwardMode::kTargetVerify, kPageSize, {&sequence, 1}, &m));
  ASSERT_TRUE(backend->Plan(m, ShapeOf(3), kHeads));
  float q[1], k[1], v[1], cos[1], sin[1], out[1];
  char cache_k[1], cache_v[1];
  backend->Run(q, 100, k, 101, v, 102, cos, sin, {cache_k, cache_v}, out);
  backend->Run(q, 100, k, 101, v, 102, cos, sin, {cache_k, cache_v}, out);
  EXPECT_EQ(calls_.rope, 2);
  EXPECT_EQ(calls_.attention, 2);
  const kernels::RopeStoreArgs& rope = calls_.rope_args;
  EXPECT_EQ(std::tie(rope.q, rope.ld_q, rope.k, rope.ld_k, rope.v, rope.ld_v), std::make_tuple(q, 100, k, 101, v, 102));
  EXPECT_EQ(std::tie(rope.rows, rope.num_heads, rope.num_kv_heads, rope.head_dim), std::make_tuple(3, 4, 2, 16));
  EXPECT_EQ(std::tie(rope.positions, rope.out_slots, rope.cos, rope.sin),
            std::make_tuple(m.positions.data(), m.out_slots.data(), cos, sin));
  EXPECT_TRUE(rope.k_cache == cache_k && rope.v_cache == cache_v && rope.kv_dtype == DType::kF16 && !rope.interleaved);
  const kernels::AttentionArgs& args = calls_.attention_args;
  EXPECT_EQ(std::tie(args.q, args.ld_q, args.out, args.ld_out), std::make_tuple(q, 100, out, 64));
  EXPECT_EQ(std::tie(args.batch, args.max_kv_len, args.scale), std::make_tuple(1, 23, 0.25f));
  EXPECT_EQ(std::tie(args.qo_indptr, args.kv_indptr, args.kv_indices),
            std::make_tuple(m.qo_indptr.data(), m.kv_indptr.data(), m.kv_indices.data()));
  EXPECT_EQ(std::tie(args.tree_flags, args.tree_mask), std::make_tuple(m.tree_flags.data(), m.tree_mask.data()));
  EXPECT_TRUE(args.k_cache == cache_k && args.v_cache == cache_v && args.scratch != nullptr);

  const ForwardMetadata causal = Build(ForwardMode::kDecode, 20, 1);
  ASSERT_TRUE(backend->Plan(causal, ShapeOf(1), kHeads));
  backend->Run(q, 100, k, 101, v, 102, cos, sin, {cache_k, cache_v}, out);
  EXPECT_EQ(calls_.attention_args.tree_flags, nullptr);
}

TEST_F(HostBackendTest, StoresWithoutAttending) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // the pool has threads
  const kernels::Ops ops = CountingOps();
  auto backend = Make(ops);
  float k[1], v[1], cos[1], sin[1];
  char cache_k[1], cache_v[1];
  EXPECT_DEATH(backend->Store(k, 101, v, 102, cos, sin, {cache_k, cache_v}), "without an accepted plan");
  const ForwardMetadata m = Build(ForwardMode::kDraftExtend, 20, 3);
  ASSERT_TRUE(backend->Plan(m, ShapeOf(3), kHeads));
  backend->Store(k, 101, v, 102, cos, sin, {cache_k, cache_v});
  EXPECT_EQ(calls_.rope, 1);
  EXPECT_EQ(calls_.attention, 0);
  const kernels::RopeStoreArgs& rope = calls_.rope_args;
  EXPECT_EQ(std::tie(rope.num_heads, rope.k, rope.ld_k, rope.v, rope.ld_v), std::make_tuple(0, k, 101, v, 102));
  EXPECT_EQ(std::tie(rope.rows, rope.num_kv_heads, rope.out_slots), std::make_tuple(3, 2, m.out_slots.data()));
  EXPECT_TRUE(rope.k_cache == cache_k && rope.v_cache == cache_v);
}

TEST_F(HostBackendTest, EmptyLaunchCallsNoKernel) {
  const kernels::Ops ops = CountingOps();
  auto backend = Make(ops);
  ForwardMetadata idle;
  ASSERT_TRUE(backend->Plan(idle, ShapeOf(0), kHeads));
  backend->Run(nullptr, 0, nullptr, 0, nullptr, 0, nullptr, nullptr, {}, nullptr);
  EXPECT_EQ(calls_.rope + calls_.attention, 0);
}

TEST_F(HostBackendTest, RefusesWhatItHasNoRoomFor) {
  auto backend = Make(kernels::RefOps(), kHeads, 8);
  const auto message = [&](const ForwardMetadata& m, const HeadShape& heads) {
    const Status status = backend->Plan(m, ShapeOf(m.rows()), heads);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(message(Build(ForwardMode::kExtend, 0, 8), kHeads), "");
  EXPECT_THAT(message(Build(ForwardMode::kExtend, 0, 9), kHeads), HasSubstr("extend: 9 rows but the ref backend was made for at most 8"));
  std::vector<int32_t> pages(9);
  for (int i = 0; i < 9; ++i) pages[i] = i + 1;
  const SequenceRows deep{.pages = pages, .kv_before = kContext, .num_rows = 1};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, kPageSize, {&deep, 1}, &m));
  LaunchShape shape = ShapeOf(1);
  shape.pool_slots = 160;
  const Status status = backend->Plan(m, shape, kHeads);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("129 KV entries but the ref backend and its rope tables were made for at most 128"));
  HeadShape wrong = kHeads;
  wrong.num_kv_heads = 3;
  EXPECT_THAT(message(Build(ForwardMode::kExtend, 0, 8), wrong), HasSubstr("4 query heads cannot share 3 KV heads"));
}

TEST_F(HostBackendTest, RefusesHeadsThatNeedMoreScratch) {
  kernels::Ops ops = kernels::RefOps();
  ops.attention_scratch = [](int64_t rows, int heads, int head_dim, int64_t context, int threads) -> int64_t {
    return rows * heads * head_dim + context * threads;
  };
  auto backend = Make(ops, kHeads, 8);
  HeadShape more = kHeads;
  more.num_heads = 8;
  const Status status = backend->Plan(Build(ForwardMode::kExtend, 0, 1), ShapeOf(1), more);
  ASSERT_FALSE(status);
  EXPECT_THAT(status.error().message, HasSubstr("8 heads of 16 need 1280 floats of scratch but the ref backend has 768"));
}

TEST_F(HostBackendTest, MakeRefusesShapesWithNumbers) {
  const auto message = [&](HeadShape heads, int64_t rows, int64_t context) {
    const auto backend = MakeHostBackend(kernels::RefOps(), pool_, heads, rows, context);
    return backend ? "" : backend.error().message;
  };
  HeadShape heads = kHeads;
  EXPECT_EQ(message(heads, 1, 1), "");
  EXPECT_THAT(message(heads, 0, 1), HasSubstr("0 rows and 1 tokens"));
  EXPECT_THAT(message(heads, 1, int64_t{1} << 31), HasSubstr("2147483648 tokens"));
  heads.head_dim = 15;
  EXPECT_THAT(message(heads, 1, 1), HasSubstr("head_dim is 15"));
  heads = kHeads;
  heads.scale = std::nanf("");
  EXPECT_THAT(message(heads, 1, 1), HasSubstr("scale is nan"));
  heads = kHeads;
  heads.kv_dtype = DType::kBF16;
  EXPECT_THAT(message(heads, 1, 1), HasSubstr("KV of type"));
  heads = kHeads;
  heads.num_heads = 0;
  EXPECT_THAT(message(heads, 1, 1), HasSubstr("0 query heads"));
}

// One layer of random q, k, v for 84 tokens.
struct Layer {
  explicit Layer(const HeadShape& heads) : width(heads.num_heads * heads.head_dim), kv_width(heads.num_kv_heads * heads.head_dim) {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (auto* values : {&q, &k, &v}) {
      values->resize(84 * (values == &q ? width : kv_width));
      for (float& value : *values) value = normal(random);
    }
    for (int64_t p = 0; p < kContext; ++p) {
      for (int i = 0; i < heads.head_dim / 2; ++i) {
        const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * i / heads.head_dim);
        cos.push_back(static_cast<float>(std::cos(angle)));
        sin.push_back(static_cast<float>(std::sin(angle)));
      }
    }
    cache_k.resize(static_cast<size_t>(kSlots * kv_width));
    cache_v.resize(cache_k.size());
  }
  // Attention of tokens [before, before + rows) whose predecessors are in the cache.
  std::vector<float> Run(Backend& backend, const HeadShape& heads, const ForwardMetadata& m, int64_t before) {
    std::vector<float> rotated(q.begin() + before * width, q.begin() + (before + m.rows()) * width), out(rotated.size());
    const Status planned = backend.Plan(m, ShapeOf(m.rows()), heads);
    EXPECT_TRUE(planned) << planned.error().message;
    backend.Run(rotated.data(), width, k.data() + before * kv_width, kv_width, v.data() + before * kv_width, kv_width, cos.data(),
                sin.data(), {cache_k.data(), cache_v.data()}, out.data());
    return out;
  }
  int64_t width, kv_width;
  std::vector<float> q, k, v, cos, sin;
  std::vector<uint16_t> cache_k, cache_v;
};

TEST_F(HostBackendTest, SplitLaunchesHaveTheBitsOfOne) {
  for (const kernels::Ops* ops : Backends()) {
    auto backend = Make(*ops);
    Layer whole(kHeads), parts(kHeads);
    const std::vector<float> expected = whole.Run(*backend, kHeads, Build(ForwardMode::kExtend, 0, 84), 0);
    std::vector<float> actual = parts.Run(*backend, kHeads, Build(ForwardMode::kExtend, 0, 80), 0);
    const std::vector<float> extend = parts.Run(*backend, kHeads, Build(ForwardMode::kDraftExtend, 80, 4), 80);
    actual.insert(actual.end(), extend.begin(), extend.end());
    ASSERT_EQ(expected.size(), actual.size());
    EXPECT_EQ(std::memcmp(expected.data(), actual.data(), expected.size() * sizeof(float)), 0) << ops->name;
    EXPECT_EQ(whole.cache_k, parts.cache_k) << ops->name;
    EXPECT_EQ(whole.cache_v, parts.cache_v) << ops->name;
    EXPECT_NE(expected[83 * whole.width], 0.0f);
  }
}

}  // namespace
}  // namespace haast::attention
