#include "haast/step_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/format.h"

namespace haast {
namespace {

using ::testing::HasSubstr;

TEST(CostCurve, StraightBetweenPointsAndOn) {
  const CostCurve curve{{1, 2, 4, 8}, {1.0, 1.1, 1.5, 3.5}};
  EXPECT_DOUBLE_EQ(curve.At(1), 1.0);
  EXPECT_DOUBLE_EQ(curve.At(3), 1.3);
  EXPECT_DOUBLE_EQ(curve.At(8), 3.5);
  EXPECT_DOUBLE_EQ(curve.At(12), 5.5);
  EXPECT_EQ(curve.At(0), 0.0);
  EXPECT_EQ(CostCurve().At(5), 0.0);
}

TEST(LaunchCosts, RowsLogitsAndAttentionAdd) {
  LaunchCosts costs{{{1, 4}, {1.0, 4.0}}, {{1, 4}, {0.8, 2.3}}, {}, 0.001, 0.0001};
  LaunchSize size{.logit_rows = 2};
  size.Add(3, 100);  // rows, KV entries
  size.Add(1, 50);
  EXPECT_EQ(size.rows, 4);
  EXPECT_EQ(size.kv_entries, 150);
  EXPECT_EQ(size.row_entries, 350);
  EXPECT_NEAR(costs.Seconds(size), 2.0 + (2.3 - 1.3) + 0.15 + 0.035, 1e-12);
  EXPECT_NEAR(costs.Seconds({.rows = 4}), 2.3, 1e-12) << "a prompt's chunk that is not the last";
  costs.no_logits = {{1, 4}, {0.1, 0.4}};
  EXPECT_NEAR(costs.Seconds({.rows = 3}), 0.3, 1e-12);
  EXPECT_NEAR(costs.Seconds({.rows = 4, .logit_rows = 1}), 1.0 + (2.3 - 0.8), 1e-12) << "as before";
  costs.one_logit = {};
  EXPECT_NEAR(costs.Seconds({.rows = 4, .logit_rows = 4}), 4.0, 1e-12);
}

void ExpectRefused(const StepCosts& costs, const std::string& part) {
  const Status status = CheckStepCosts(costs);
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(status.error().message, HasSubstr(part));
}

TEST(StepCosts, WhatCannotBeACostIsRefused) {
  const StepCosts good{.target = {.all_logits = {{1, 2}, {1.0, 1.5}}}};
  EXPECT_TRUE(CheckStepCosts(good).has_value());
  ExpectRefused({}, "the target has no all_logits curve");
  StepCosts bad = good;
  bad.target.all_logits.rows = {2, 3};
  ExpectRefused(bad, "target, all_logits, point 1 (2 rows, 1 s): expected row counts that ascend from 1");
  bad = good;
  bad.head_step.one_logit = {{1, 1}, {1.0, 1.0}};
  ExpectRefused(bad, "head_step, one_logit, point 2");
  bad = good;
  bad.head_extend.no_logits = {{1, 2}, {1.0, 0.9}};
  ExpectRefused(bad, "head_extend, no_logits, point 2");
  bad = good;
  bad.head_extend.all_logits = {{1, 2}, {1.0}};
  ExpectRefused(bad, "head_extend, all_logits, point 2 (2 rows, 0 s): expected as many seconds as rows");
  bad = good;
  bad.draft_model.all_logits = {{1, 2}, {1.0, 0.5}};
  ExpectRefused(bad, "draft_model, all_logits, point 2 (2 rows, 0.5 s): expected no less time");
}

TEST(StepCosts, WhatNoLaunchCanTakeIsRefused) {
  StepCosts costs{.target = {.all_logits = {{1, 2}, {1e-9, 1000.0}}, .seconds_per_kv_entry = 1.0}};
  EXPECT_TRUE(CheckStepCosts(costs));
  for (const double seconds : {0.0, -1.0, 5e-324, 0.9e-9, 1000.1, 1e308, HUGE_VAL, std::nan("")}) {
    costs.draft_model.all_logits = {{1}, {seconds}};
    ExpectRefused(costs, fmt::format("draft_model, all_logits, point 1 (1 rows, {} s): expected 1e-09 s to 1000 s", seconds));
  }
  costs.draft_model = {};
  for (const double seconds : {-1.0, 1.1, 1e308, std::nan("")}) {
    costs.target.seconds_per_row_entry = seconds;
    ExpectRefused(costs, fmt::format("target, seconds_per_row_entry ({} s): expected 0 s to 1 s", seconds));
  }
}

}  // namespace
}  // namespace haast
