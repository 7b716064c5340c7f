// Many requests leave nothing behind: every page is back, no file stays open, and memory does not grow.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <random>

#include "engine/engine_impl.h"
#include "support/engine_harness.h"
#include "support/tiny_models.h"

namespace haast::testing {
namespace {

// Bytes that malloc has given and not got back, large blocks included.
int64_t BytesInUse() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

int64_t OpenFiles() { return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}); }

// Not suffix drafting: its history of finished requests grows to its bound (SuffixTrie).
Request RandomRequest(std::mt19937& random) {
  Request request;
  request.prompt = RandomIds(1 + static_cast<int>(random() % 40), 320, random() % 50);
  request.max_tokens = 1 + static_cast<int>(random() % 8);
  request.sampling.temperature = static_cast<float>(random() % 2);
  request.sampling.seed = random();
  if (random() % 4 == 0) request.sampling.frequency_penalty = 0.5f;
  if (random() % 4 == 0) request.logprobs = request.prompt_logprobs = 3;
  SpeculationParams& speculation = request.speculation;
  speculation.algorithm = std::vector<SpeculativeAlgorithm>{SpeculativeAlgorithm::kNone, SpeculativeAlgorithm::kEagle3,
                                                            SpeculativeAlgorithm::kDraftModel, SpeculativeAlgorithm::kNgram}[random() % 4];
  speculation.num_draft_tokens = 1 + static_cast<int>(random() % 6);
  if (speculation.algorithm == SpeculativeAlgorithm::kEagle3) speculation.top_k = 1 + static_cast<int>(random() % 3);
  return request;
}

// Submits `count` requests, a few at a time, cancels some at once or later; the pool is small: pages are shared, evicted and swapped.
void Serve(Engine& engine, int count, std::mt19937& random) {
  const auto& impl = dynamic_cast<engine::EngineImpl&>(engine);
  for (int submitted = 0; submitted < count || !engine.idle();) {
    for (int i = 0; i < 3 && submitted < count; ++i, ++submitted) {
      const auto id = engine.Submit(RandomRequest(random));
      ASSERT_TRUE(id) << id.error().message;
      if (random() % 10 == 0) engine.Cancel(*id - static_cast<RequestId>(random() % 8));
    }
    for (const Event& event : engine.Step()) ASSERT_EQ(event.error, "");
  }
  const Status invariants = impl.CheckInvariants();
  ASSERT_TRUE(invariants) << invariants.error().message;
  const EngineStats stats = engine.stats();
  ASSERT_EQ(stats.free_pages + stats.cached_pages, stats.total_pages);
  if (!engine.options().prefix_cache) {
    ASSERT_EQ(stats.cached_pages, 0);
  }
}

// With the prefix cache preempted requests wait in memory, without it in files.
void ExpectNoGrowth(int requests, bool prefix_cache) {
  const TempDir dir;
  TinyLlama llama;
  llama.tied = true;
  llama.layer_scale = 0.4f;
  TinyEagle3 head;
  head.target = llama;
  head.echo = true;
  EngineOptions options;
  options.model = WriteTinyGguf(llama, dir.Join("model.gguf"));
  options.draft = WriteTinyEagle3(head, dir.Join("head"));
  options.draft_model = options.model;
  options.threads = 1;
  options.kv_tokens = 192;
  options.prefix_cache = prefix_cache;
  options.preemption = Preemption::kSwap;
  if (!prefix_cache) options.swap_directory = dir.path();
  auto engine = MustCreate(options);
  std::mt19937 random(1);
  Serve(*engine, std::max(200, requests / 5), random);  // buffers and the prefix cache reach their size
  const int64_t before = BytesInUse();
  const int64_t files = OpenFiles();
  Serve(*engine, requests, random);
  EXPECT_GT(engine->stats().swaps, 0);
  EXPECT_EQ(engine->stats().prefix_evictions > 0, prefix_cache);
  EXPECT_EQ(OpenFiles(), files);
  // Capacities still settle (12 kB in 10,000 requests); one leaked request of 20 tokens would be more than 300 bytes.
  EXPECT_LT(BytesInUse() - before, 16384 + requests * 2);
}

TEST(Leaks, RequestsLeaveNothing) { ExpectNoGrowth(300, true); }
TEST(Leaks, RequestsLeaveNothingWithoutACache) { ExpectNoGrowth(300, false); }
TEST(LongLeaks, TenThousandRequestsLeaveNothing) { ExpectNoGrowth(10000, true); }
TEST(LongLeaks, TenThousandRequestsLeaveNothingWithoutACache) { ExpectNoGrowth(10000, false); }

}  // namespace
}  // namespace haast::testing
