#include "spec/depth_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace haast::spec {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

LaunchCosts Costs(std::vector<int64_t> rows, std::vector<double> seconds) { return {.all_logits = {std::move(rows), std::move(seconds)}}; }

AcceptanceEstimate Accepts(double chance) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform;
  AcceptanceEstimate estimate;
  for (int round = 0; round < 2000; ++round) {
    int accepted = 0;
    while (accepted < 8 && uniform(random) < chance) ++accepted;
    estimate.Observe(8, accepted);
  }
  return estimate;
}

TEST(AcceptanceEstimate, CountsAreThoseOfRounds) {
  const AcceptanceEstimate estimate = Accepts(0.9);
  EXPECT_TRUE(AcceptanceEstimate::AreCounts(estimate.counts()));
  EXPECT_TRUE(AcceptanceEstimate::AreCounts({}));
  const AcceptanceEstimate copy(estimate.counts());
  for (int i = 0; i < kMaxPlannedDepth; ++i) EXPECT_EQ(copy.Chance(i, nullptr), estimate.Chance(i, nullptr));
  AcceptanceEstimate::Counts endless;
  for (int i = 0; i < 100000; ++i) {
    endless.tried[0] = endless.tried[0] * 0.98 + 1.0;
  }
  EXPECT_TRUE(AcceptanceEstimate::AreCounts(endless)) << "a fade of 2 % a round";
  endless.tried[0] += 0.1;
  EXPECT_FALSE(AcceptanceEstimate::AreCounts(endless));
}

TEST(AcceptanceEstimate, ChancesAreConditional) {
  AcceptanceEstimate estimate;
  for (int i = 0; i < 400; ++i) estimate.Observe(3, i % 4 == 0 ? 0 : i % 2 == 0 ? 1 : 3);  // 3/4, then 2/3, then all
  EXPECT_NEAR(estimate.Chance(0, nullptr), 0.75, 0.05);
  EXPECT_NEAR(estimate.Chance(1, nullptr), 0.667, 0.07);
  EXPECT_GT(estimate.Chance(2, nullptr), 0.9);
  EXPECT_NEAR(AcceptanceEstimate().Chance(0, &estimate), estimate.Chance(0, nullptr), 1e-12) << "a newcomer is judged by the others";
}

TEST(AcceptanceEstimate, ForgetsThePast) {
  AcceptanceEstimate estimate;
  for (int i = 0; i < 1000; ++i) estimate.Observe(1, 1);
  for (int i = 0; i < 200; ++i) estimate.Observe(1, 0);
  EXPECT_LT(estimate.Chance(0, nullptr), 0.2) << "hope is worth ten rounds";
}

struct Machine {
  LaunchCosts target;
  LaunchCosts step = Costs({1, 2, 4, 8}, {0.12, 0.13, 0.16, 0.25});
  LaunchCosts extend{{{1, 2, 4, 8}, {0.15, 0.16, 0.2, 0.3}}, {{1, 2, 4, 8}, {0.15, 0.16, 0.2, 0.3}}};
  CostModel costs() const { return {&target, &step, &extend}; }
};
// Rows nearly free up to four; every row at its price.
const Machine kWide{Costs({1, 2, 4, 8, 16}, {1.0, 1.02, 1.05, 1.5, 2.7})};
const Machine kNarrow{Costs({1, 2, 4, 8, 16}, {1.0, 1.1, 1.65, 3.1, 6.0})};

TEST(ChooseDepths, BetterDraftsAndCheaperRowsDraftDeeper) {
  int last = -1;
  for (const double chance : {0.02, 0.3, 0.6, 0.8, 0.95}) {
    const AcceptanceEstimate own = Accepts(chance);
    const DepthRequest request{&own, nullptr, 8, 100, 1, 1000};
    const int wide = ChooseDepths({&request, 1}, {}, kWide.costs())[0];
    EXPECT_GE(wide, ChooseDepths({&request, 1}, {}, kNarrow.costs())[0]) << chance;
    EXPECT_GE(wide, last) << chance;
    last = wide;
  }
  EXPECT_GE(last, 5);
  const AcceptanceEstimate hopeless = Accepts(0.02);
  const DepthRequest request{&hopeless, nullptr, 8, 100, 1, 1000};
  EXPECT_THAT(ChooseDepths({&request, 1}, {}, kWide.costs()), ElementsAre(0));
}

// The choice is never worse than any one depth for all, by its own prices; and never worse than none.
TEST(ChooseDepths, BeatsEveryFixedDepth) {
  std::mt19937 random(8);
  for (int round = 0; round < 60; ++round) {
    const Machine& machine = round % 2 == 0 ? kWide : kNarrow;
    const int batch = 1 + static_cast<int>(random() % 16);
    std::vector<AcceptanceEstimate> estimates;
    for (int i = 0; i < batch; ++i) estimates.push_back(Accepts(0.05 + 0.9 * static_cast<double>(random() % 100) / 100.0));
    std::vector<DepthRequest> requests;
    for (const AcceptanceEstimate& estimate : estimates)
      requests.push_back({&estimate, nullptr, static_cast<int>(random() % 9), 100, 1, 1000});
    LaunchSize others;
    others.Add(static_cast<int64_t>(random() % 3), 100);
    const std::vector<int> chosen = ChooseDepths(requests, others, machine.costs());
    const double ours = StepSpeed(requests, chosen, others, machine.costs());
    for (int depth = 0; depth <= 8; ++depth) {
      std::vector<int> fixed;
      for (const DepthRequest& request : requests) fixed.push_back(std::min(depth, request.most));
      EXPECT_GE(ours, 0.99 * StepSpeed(requests, fixed, others, machine.costs())) << "depth " << depth << " for all of " << batch;
    }
    for (size_t i = 0; i < chosen.size(); ++i) EXPECT_LE(chosen[i], requests[i].most);
  }
}

TEST(ChooseDepths, WithoutCostsNothingIsDrafted) {
  const AcceptanceEstimate own = Accepts(0.9);
  const DepthRequest request{&own, nullptr, 8, 100, 1, 1000};
  const LaunchCosts none;
  EXPECT_THAT(ChooseDepths({&request, 1}, {}, {&none, &none, &none}), Each(0));
}

TEST(ChooseDepths, ABacklogThatIsNotPaidBackIsLeft) {
  const AcceptanceEstimate own = Accepts(0.6);
  DepthRequest request{&own, nullptr, 8, 300, 300, 200};
  EXPECT_GT(ChooseDepths({&request, 1}, {}, kWide.costs())[0], 0);
  request.remaining = 8;
  EXPECT_THAT(ChooseDepths({&request, 1}, {}, kWide.costs()), ElementsAre(0));
  request.backlog = 3;
  EXPECT_GT(ChooseDepths({&request, 1}, {}, kWide.costs())[0], 0);
}

// Rows are free up to seven, the eighth costs more than a draft of four requests alike adds to the tokens of a step. Left out of it, a
// request takes half as long again as the others and runs on alone.
TEST(ChooseDepths, NobodyIsLeftBehindForTheLastRow) {
  const Machine machine{Costs({1, 7, 8, 9}, {3.4, 3.4, 3.8, 4.3})};
  const AcceptanceEstimate own = Accepts(0.6);
  const AcceptanceEstimate lower = Accepts(0.55);
  const AcceptanceEstimate hopeless = Accepts(0.05);
  std::vector<DepthRequest> requests(4, {&own, nullptr, 8, 100, 1, 1000});
  requests[2].own = &lower;
  EXPECT_THAT(ChooseDepths(requests, {}, machine.costs()), ElementsAre(1, 1, 1, 1));
  requests[2].own = &hopeless;
  EXPECT_THAT(ChooseDepths(requests, {}, machine.costs()), ElementsAre(1, 1, 0, 1));
}

// A round makes several tokens, so that an answer has fewer rounds than tokens to pay a backlog back in.
TEST(ChooseDepths, ABacklogIsCaughtUpOnlyIfTheAnswerEndsSooner) {
  for (const double chance : {0.02, 0.3, 0.6, 0.9}) {
    const AcceptanceEstimate own = Accepts(chance);
    int64_t least = 0;  // tokens still to come for which the drafter catches up
    for (int64_t remaining = 60; remaining > 1; --remaining) {
      const DepthRequest behind{&own, nullptr, 3, 300, 300, remaining};
      if (const auto depths = ChooseDepths({&behind, 1}, {}, kWide.costs()); depths[0] > 0) {
        const DepthRequest caught_up{&own, nullptr, 3, 300, 2, remaining};
        const double tokens = static_cast<double>(remaining);
        const double catch_up = kWide.extend.Seconds({.rows = 300, .logit_rows = 1}) - kWide.extend.Seconds({.rows = 2, .logit_rows = 1});
        const double drafting = catch_up + tokens / StepSpeed({&caught_up, 1}, depths, {}, kWide.costs());
        EXPECT_LT(drafting, tokens / StepSpeed({&caught_up, 1}, std::vector<int>{0}, {}, kWide.costs())) << chance << ", " << remaining;
        least = remaining;
      }
    }
    EXPECT_EQ(least > 0, chance > 0.1) << chance;
  }
}

// What fewer tokens take longer for is lost, and what more tokens take less for is gained.
TEST(LostSeconds, AreThoseThatTheUsualStepsWouldNotTake) {
  EXPECT_DOUBLE_EQ(LostSeconds({3.0, 0.5}, {1.0, 1.0}), 1.5) << "one and a half tokens in 3 s";
  EXPECT_DOUBLE_EQ(LostSeconds({1.0, 1.0}, {1.0, 1.0}), 0.0);
  EXPECT_DOUBLE_EQ(LostSeconds({2.0, 1.5}, {1.0, 1.0}), -1.0);
}

class ProbeClockTest : public ::testing::Test {
 protected:
  // Steps of `steps` in which the clock let each of `requests` draft, by its place. All are idle. The time that they lost, in steps, is
  // added.
  std::vector<int> Probes(const std::vector<DepthRequest>& requests, const CostModel& costs, int steps = 10000) {
    ProbeClock clock;
    std::vector<int> probes(requests.size(), 0);
    const std::vector<int> idle(requests.size(), 0);
    for (int i = 0; i < steps; ++i) {
      std::vector<int> depths = idle;
      clock.Tick(requests, {}, costs, &depths);
      for (size_t r = 0; r < requests.size(); ++r) probes[r] += depths[r] > 0 ? 1 : 0;
      if (depths == idle) continue;
      const double gained = StepSpeed(requests, depths, {}, costs) / StepSpeed(requests, idle, {}, costs);
      lost_ += StepSeconds(requests, depths, {}, costs) / StepSeconds(requests, idle, {}, costs) * (1.0 - gained);
    }
    return probes;
  }
  double lost_ = 0.0;
};

TEST_F(ProbeClockTest, TriesTheOneWithTheLeastToCatchUp) {
  const AcceptanceEstimate own = Accepts(0.2);
  const std::vector<int> probes = Probes({{&own, nullptr, 8, 300, 200, 50, 7}, {&own, nullptr, 8, 100, 20, 50, 9}}, kWide.costs());
  EXPECT_EQ(probes[0], 0);
  EXPECT_GT(probes[1], 100);
  EXPECT_LT(probes[1], 1000);
}

TEST_F(ProbeClockTest, LosesATwoHundredth) {
  const AcceptanceEstimate own = Accepts(0.1);
  const int probes = Probes({{&own, nullptr, 8, 300, 1, 50, 3}}, kNarrow.costs())[0];
  EXPECT_GT(probes, 50);
  EXPECT_GT(lost_, 0.004 * 10000.0);
  EXPECT_LT(lost_, 0.0051 * 10000.0);
}

// What is thought not to pay by very little may be wrong, and costs very little to try.
TEST_F(ProbeClockTest, TriesSoonWhatNearlyPays) {
  const AcceptanceEstimate hopeless = Accepts(0.02);
  const AcceptanceEstimate near = Accepts(0.24);
  EXPECT_GT(Probes({{&near, nullptr, 8, 300, 1, 50, 3}}, kNarrow.costs())[0],
            3 * Probes({{&hopeless, nullptr, 8, 300, 1, 50, 3}}, kNarrow.costs())[0]);
}

// The last row of four is nearly free once the third is paid for, so that two that try together lose less than one alone.
TEST_F(ProbeClockTest, AllTryTogetherWhereThatLosesLess) {
  const Machine machine{Costs({1, 2, 3, 4, 8}, {1.0, 1.0, 1.6, 1.6, 3.2})};
  const AcceptanceEstimate own = Accepts(0.4);
  const std::vector<DepthRequest> requests(2, {&own, nullptr, 8, 100, 1, 50});
  std::vector<DepthRequest> named = requests;
  named[0].id = 1;
  named[1].id = 2;
  const std::vector<int> probes = Probes(named, machine.costs());
  EXPECT_GT(probes[0], 100);
  EXPECT_EQ(probes[0], probes[1]);
}

TEST_F(ProbeClockTest, NobodyWithoutCostsOrRequests) {
  const AcceptanceEstimate own;
  const LaunchCosts none;
  EXPECT_THAT(Probes({{&own, nullptr, 8, 300, 200, 50, 7}}, {&none, &none, &none}), ElementsAre(0));
  EXPECT_THAT(Probes({}, kWide.costs()), ElementsAre());
}

// Those that draft anyway are no probes, nor those that have no room for drafts.
TEST_F(ProbeClockTest, OnlyOfIdleRequestsThatMayDraft) {
  const AcceptanceEstimate own = Accepts(0.3);
  const std::vector<DepthRequest> requests = {
      {&own, nullptr, 0, 100, 1, 50, 1}, {&own, nullptr, 8, 100, 2, 50, 2}, {&own, nullptr, 8, 100, 30, 50, 3}};
  ProbeClock clock;
  int probes = 0;
  for (int i = 0; i < 10000; ++i) {
    std::vector<int> depths = {0, 3, 0};
    clock.Tick(requests, {}, kWide.costs(), &depths);
    EXPECT_EQ(depths[0], 0);
    EXPECT_EQ(depths[1], 3);
    probes += depths[2] > 0 ? 1 : 0;
  }
  EXPECT_GT(probes, 0);
}

}  // namespace
}  // namespace haast::spec
