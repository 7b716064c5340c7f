#include "spec/cost_learning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace haast::spec {
namespace {

using ::testing::ElementsAre;

LaunchCosts Costs(std::vector<int64_t> rows, std::vector<double> seconds) { return {.all_logits = {std::move(rows), std::move(seconds)}}; }

LaunchSize Rows(int64_t rows) { return {.rows = rows, .logit_rows = rows}; }

TEST(CostLearner, FollowsTheMachine) {
  CostLearner learner;
  LaunchCosts costs = Costs({1, 2, 4}, {1.0, 1.2, 1.6});
  for (int i = 0; i < 400; ++i) learner.Learn(Rows(2), 2.4, &costs);
  EXPECT_NEAR(costs.Seconds(Rows(2)), 2.4, 0.1);
  EXPECT_GT(costs.Seconds(Rows(4)), 1.7) << "others follow, less";
  const double before = costs.Seconds(Rows(2));
  learner.Learn(Rows(2), 1000.0, &costs);
  EXPECT_LT(costs.Seconds(Rows(2)), before * 1.06) << "one interrupted launch says little";
  for (int i = 0; i < 400; ++i) learner.Learn(Rows(2), 0.9, &costs);
  EXPECT_NEAR(costs.Seconds(Rows(2)), 0.9, 0.05);
}

TEST(CostLearner, LaunchesWithoutTimeOrRowsSayNothing) {
  CostLearner learner;
  LaunchCosts costs = Costs({1, 2, 4}, {1.0, 1.2, 1.6});
  learner.Learn(Rows(2), -1.0, &costs);
  learner.Learn({}, 1.0, &costs);
  learner.Scale(0.0, 1.0, &costs);
  learner.Scale(1.0, 0.0, &costs);
  const double endless = std::numeric_limits<double>::infinity();
  learner.Scale(endless, endless, &costs);
  learner.Learn(Rows(2), endless, &costs);
  EXPECT_THAT(costs.all_logits.seconds, ElementsAre(1.0, 1.2, 1.6));
  LaunchCosts none;
  learner.Learn(Rows(2), 1.0, &none);
  EXPECT_TRUE(none.empty());
}

TEST(CostLearner, ACostThatWasMeasuredTooHighFallsWithTheFirstLaunches) {
  CostLearner learner;
  LaunchCosts costs = Costs({1, 2, 4, 8}, {1.0, 1.05, 2.2, 2.3});
  for (int i = 0; i < 3; ++i) learner.Learn(Rows(4), 1.1, &costs);
  EXPECT_LT(costs.Seconds(Rows(4)), 1.3);
  EXPECT_NEAR(costs.Seconds(Rows(1)), 1.0, 0.06) << "far from it";
  EXPECT_DOUBLE_EQ(learner.Timings(0), 0.0);
  EXPECT_GT(learner.Timings(2), 2.9);
  EXPECT_DOUBLE_EQ(learner.Timings(17), 0.0);
}

TEST(CostLearner, MoreRowsNeverCostLess) {
  CostLearner learner;
  LaunchCosts costs = Costs({1, 2, 4}, {1.0, 3.0, 3.1});
  for (int i = 0; i < 5; ++i) learner.Learn(Rows(4), 1.2, &costs);
  const auto& seconds = costs.all_logits.seconds;
  EXPECT_TRUE(std::is_sorted(seconds.begin(), seconds.end()));
  EXPECT_LT(costs.Seconds(Rows(2)), 1.7) << "two rows cost no more than four do";
}

// Two disturbed launches can make attention seem to be everything.
TEST(CostLearner, WhatAttentionCostsIsCorrectedToo) {
  CostLearner learner;
  LaunchCosts costs = Costs({1, 2, 4}, {0.5, 0.5, 0.6});
  costs.seconds_per_kv_entry = 0.05;
  LaunchSize size = Rows(2);
  for (int i = 0; i < 300; ++i) {
    size.kv_entries = 100 + i;
    learner.Learn(size, 1.0 + 0.001 * static_cast<double>(size.kv_entries), &costs);
  }
  EXPECT_NEAR(costs.Seconds(size), 1.4, 0.1);
  EXPECT_LT(costs.seconds_per_kv_entry, 0.005);
}

TEST(CostLearner, SizesPastTheLastPointBecomePoints) {
  CostLearner learner;
  LaunchCosts costs = Costs({1, 8}, {1.0, 2.0});
  learner.Learn(Rows(16), 6.0, &costs);
  EXPECT_THAT(costs.all_logits.rows, ElementsAre(1, 8, 16));
  EXPECT_NEAR(costs.Seconds(Rows(16)), 6.0, 1e-9);
  EXPECT_NEAR(costs.Seconds(Rows(8)), 2.0, 1e-9);
  learner.Learn(Rows(18), 6.4, &costs);
  EXPECT_EQ(costs.all_logits.rows.size(), 3) << "near the last";
  learner.Learn(Rows(64), 0.1, &costs);
  EXPECT_TRUE(CheckStepCosts({.target = costs}));
}

TEST(CostLearner, ADraftersCostsMoveAlike) {
  CostLearner learner;
  LaunchCosts costs{{{1, 8}, {0.6, 2.0}}, {{1, 8}, {0.5, 1.0}}};
  for (int i = 0; i < 60; ++i) learner.Scale(costs.Seconds(Rows(1)), 0.3, &costs);
  EXPECT_NEAR(costs.Seconds(Rows(1)), 0.3, 0.02);
  EXPECT_NEAR(costs.Seconds(Rows(8)), 1.0, 0.06);
  EXPECT_NEAR(costs.one_logit.seconds[0], 0.25, 0.02);
}

// A machine on which four rows cost next to nothing more than one, and eight cost half as much again; and a request whose drafts are mostly
// good.
class ExplorerTest : public ::testing::Test {
 protected:
  double True(int64_t rows) const { return machine_.Seconds(Rows(rows)); }

  // Runs `rounds` rounds by `costs`, which are learned. Returns the time that a token took, in the last `counted` of them.
  double Run(LaunchCosts* costs, int rounds, int counted) {
    const AcceptanceEstimate own = [] {
      AcceptanceEstimate estimate;
      for (int i = 0; i < 400; ++i) estimate.Observe(8, i % 4 == 0 ? 0 : i % 3 == 0 ? 2 : 4);
      return estimate;
    }();
    const DepthRequest request{&own, nullptr, 8, 0, 1, 1000};
    double time = 0.0;
    double tokens = 0.0;
    for (int round = 0; round < rounds; ++round) {
      std::vector<int> depths = ChooseDepths({&request, 1}, {}, {costs, &step_, &extend_});
      chosen_ = depths[0];
      explorer_.Tick({&request, 1}, {}, {costs, &step_, &extend_}, learner_, &depths);
      const CostModel real{&machine_, &step_, &extend_};
      learner_.Learn(Rows(depths[0] + 1), True(depths[0] + 1), costs);
      if (round < rounds - counted) continue;
      const double seconds = StepSeconds({&request, 1}, depths, {}, real);
      time += seconds;
      tokens += seconds * StepSpeed({&request, 1}, depths, {}, real);
    }
    return time / tokens;
  }

  const LaunchCosts machine_ = Costs({1, 2, 4, 8}, {1.0, 1.02, 1.05, 1.5});
  const LaunchCosts step_ = Costs({1, 8}, {0.1, 0.2});
  const LaunchCosts extend_ = Costs({1, 8}, {0.1, 0.2});
  CostLearner learner_;
  DepthExplorer explorer_;
  int chosen_ = -1;
};

TEST_F(ExplorerTest, ADisturbedMeasurementIsFoundOut) {
  LaunchCosts known = machine_;
  Run(&known, 1, 1);
  const int right = chosen_;
  ASSERT_GE(right, 3);
  LaunchCosts disturbed = Costs({1, 2, 4, 8}, {1.0, 1.02, 2.6, 3.3});
  Run(&disturbed, 1, 1);
  EXPECT_EQ(chosen_, 1) << "by such costs deeper chains do not pay";
  Run(&disturbed, 40, 1);
  EXPECT_GE(chosen_, 3);
}

TEST_F(ExplorerTest, CostsNextToNothing) {
  LaunchCosts costs = machine_;
  const double exploring = Run(&costs, 3000, 2000);
  for (int i = 0; i < 100; ++i) {
    for (const int64_t rows : {1, 2, 4, 8}) learner_.Learn(Rows(rows), True(rows), &costs);
  }
  const double knowing = Run(&costs, 1, 1);
  EXPECT_GT(exploring, knowing) << "it goes on";
  EXPECT_LT(exploring, knowing * 1.006) << "a two-hundredth";
}

TEST_F(ExplorerTest, NothingWhereNobodyDraftsOrMay) {
  const AcceptanceEstimate own;
  const CostModel costs{&machine_, &step_, &extend_};
  std::vector<int> depths = {0};
  DepthRequest request{&own, nullptr, 8, 0, 1, 1000};
  explorer_.Tick({&request, 1}, {}, costs, learner_, &depths);
  EXPECT_THAT(depths, ElementsAre(0));
  depths = {1};
  request.most = 1;
  explorer_.Tick({&request, 1}, {}, costs, learner_, &depths);
  EXPECT_THAT(depths, ElementsAre(1));
  const LaunchCosts empty;
  explorer_.Tick({&request, 1}, {}, {&empty, &empty, &empty}, learner_, &depths);
  EXPECT_THAT(depths, ElementsAre(1));
}

}  // namespace
}  // namespace haast::spec
