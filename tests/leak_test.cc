// Many requests leave nothing behind: every page is back, and memory does not grow.
#include <gtest/gtest.h>
#include <malloc.h>

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

Request RandomRequest(std::mt19937& random) {
  Request request;
  request.prompt = RandomIds(1 + static_cast<int>(random() % 40), 320, random() % 50);
  request.max_tokens = 1 + static_cast<int>(random() % 8);
  request.sampling.temperature = static_cast<float>(random() % 2);
  request.sampling.seed = random();
  request.speculation.algorithm = std::vector<SpeculativeAlgorithm>{SpeculativeAlgorithm::kNone, SpeculativeAlgorithm::kEagle3,
                                                                    SpeculativeAlgorithm::kNgram}[random() % 3];
  request.speculation.num_draft_tokens = 1 + static_cast<int>(random() % 4);
  return request;
}

// Submits `count` requests, a few at a time, cancels some; the pool is small: pages are shared, evicted and swapped.
void Serve(Engine& engine, int count, std::mt19937& random) {
  const auto& impl = dynamic_cast<engine::EngineImpl&>(engine);
  for (int submitted = 0; submitted < count || !engine.idle();) {
    for (int i = 0; i < 3 && submitted < count; ++i, ++submitted) {
      const auto id = engine.Submit(RandomRequest(random));
      ASSERT_TRUE(id) << id.error().message;
      if (random() % 10 == 0) engine.Cancel(*id);
    }
    for (const Event& event : engine.Step()) ASSERT_EQ(event.error, "");
  }
  const Status invariants = impl.CheckInvariants();
  ASSERT_TRUE(invariants) << invariants.error().message;
  const EngineStats stats = engine.stats();
  ASSERT_EQ(stats.free_pages + stats.cached_pages, stats.total_pages);
}

void ExpectNoGrowth(int requests) {
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
  options.threads = 1;
  options.kv_tokens = 192;
  options.preemption = Preemption::kSwap;
  auto engine = MustCreate(options);
  std::mt19937 random(1);
  Serve(*engine, 200, random);  // buffers and the prefix cache reach their size
  const int64_t before = BytesInUse();
  Serve(*engine, requests, random);
  EXPECT_GT(engine->stats().preemptions, 0);
  EXPECT_GT(engine->stats().prefix_evictions, 0);
  // Capacities still settle; one leaked request of 20 tokens would be more than 300 bytes.
  EXPECT_LT(BytesInUse() - before, 16384 + requests * 8);
}

TEST(Leaks, RequestsLeaveNothing) { ExpectNoGrowth(300); }
TEST(LongLeaks, TenThousandRequestsLeaveNothing) { ExpectNoGrowth(10000); }

}  // namespace
}  // namespace haast::testing
