// Launches allocate nothing, and an engine's step little but the event that it returns.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/loaded_models.h"
#include "engine/step_bench.h"
#include "support/engine_harness.h"
#include "support/tiny_models.h"

namespace {

std::atomic<int64_t> allocations{0};
std::atomic<int64_t> allocated_bytes{0};

void* Count(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return Count(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace haast::testing {
namespace {

class AllocationTest : public ::testing::Test {
 protected:
  AllocationTest() {
    TinyEagle3 head;
    head.target.tied = true;
    head.target.layer_scale = 0.05f;
    head.echo = true;
    options_.model = WriteTinyGguf(head.target, dir_.Join("model.gguf"));
    options_.draft = WriteTinyEagle3(head, dir_.Join("head"));
    options_.threads = 2;
    options_.prefix_cache = false;
  }

  void SetUp() override {
#ifdef HAAST_CHECKED
    GTEST_SKIP() << "checks of whole launches allocate";
#endif
  }

  // Most allocations, and bytes of them, in one step of a request once its first `warm_up` steps are over.
  std::pair<int64_t, int64_t> MostInAStep(const SpeculationParams& speculation) {
    constexpr int kWarmUp = 20;
    auto engine = MustCreate(options_);
    Request request;
    request.prompt = RandomIds(20, 320, 1);
    request.max_tokens = 400;
    request.speculation = speculation;
    EXPECT_TRUE(engine->Submit(std::move(request)));
    int64_t most = 0;
    int64_t most_bytes = 0;
    for (int step = 0; !engine->idle(); ++step) {
      const int64_t before = allocations;
      const int64_t bytes_before = allocated_bytes;
      const std::vector<Event> events = engine->Step();
      if (step < kWarmUp || engine->idle()) continue;
      most = std::max(most, allocations - before);
      most_bytes = std::max(most_bytes, allocated_bytes - bytes_before);
    }
    return {most, most_bytes};
  }

  TempDir dir_;
  EngineOptions options_;
};

TEST_F(AllocationTest, LaunchesAllocateNothing) {
  auto models = engine::LoadModels(&options_);
  ASSERT_TRUE(models) << models.error().message;
  engine::StepBench bench({models->target_runner.get(), models->draft_runner.get(), models->pages.get()}, 64, 8);
  ASSERT_TRUE(bench.Prepare());
  const auto all = [&] {
    for (const int64_t rows : {1, 4, 8}) ASSERT_TRUE(bench.Verify({rows, 30}));
    ASSERT_TRUE(bench.DraftStep({1, 30}));
    ASSERT_TRUE(bench.DraftExtend({4, 30, engine::LogitRows::kLast}));
  };
  all();  // arrays reach their size
  const int64_t before = allocations;
  all();
  EXPECT_EQ(allocations - before, 0);
}

// The event and its tokens, what was accepted, and a list of items a drafter: their number does not depend on model or context.
TEST_F(AllocationTest, StepsAllocateAFewShortLists) {
  const auto [plain, plain_bytes] = MostInAStep({});
  EXPECT_GT(plain, 0) << "an event holds tokens: who counts none does not count";
  EXPECT_LE(plain, 16);
  EXPECT_LE(plain_bytes, 8192) << "the request's own list of tokens doubles now and then";
  const auto [chain, chain_bytes] = MostInAStep({.algorithm = SpeculativeAlgorithm::kEagle3, .num_draft_tokens = 3});
  EXPECT_LE(chain, 40);
  EXPECT_LE(chain_bytes, 8192);
}

}  // namespace
}  // namespace haast::testing
