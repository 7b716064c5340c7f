// Policies run in every step: what they need of memory they keep.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>

#include "spec/cost_learning.h"

namespace {
std::atomic<int64_t> num_allocations{0};
}  // namespace

// Of the whole test program, to count them; every kind that `delete` frees. Not inlined: g++ would see pointers of `new` go to `free`.
[[gnu::noinline]] void* operator new(size_t size, const std::nothrow_t&) noexcept {
  ++num_allocations;
  return std::malloc(std::max(size, size_t{1}));
}
[[gnu::noinline]] void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace haast::spec {
namespace {

TEST(PolicyMemory, TryingAllocatesNothingOnceItHasRun) {
  const LaunchCosts target{{{1, 2, 4, 8, 16, 32}, {1.0, 1.1, 1.65, 3.1, 6.0, 12.0}}};
  const LaunchCosts draft{{{1, 8}, {0.12, 0.25}}};
  const AcceptanceEstimate own;
  std::vector<DepthRequest> requests(5, {&own, nullptr, 8, 100, 20, 50});
  for (size_t i = 0; i < requests.size(); ++i) requests[i].id = static_cast<int64_t>(i);
  const std::vector<int> planned = {2, 0, 0, 0, 0};
  const CostLearner learner;
  ProbeClock clock;
  DepthExplorer explorer;
  std::vector<int> depths;
  int probed = 0;
  int explored = 0;
  int64_t before = 0;
  for (int i = 0; i < 4000; ++i) {
    if (i == 2000) before = num_allocations;
    depths = planned;
    explorer.Tick(requests, {}, {&target, &draft, &draft}, learner, &depths);
    if (i >= 2000) explored += depths != planned ? 1 : 0;
    depths = planned;
    clock.Tick(requests, {}, {&target, &draft, &draft}, &depths);
    if (i >= 2000) probed += depths != planned ? 1 : 0;
  }
  EXPECT_EQ(num_allocations - before, 0);
  EXPECT_GT(probed, 0);
  EXPECT_GT(explored, 0);
}

}  // namespace
}  // namespace haast::spec
