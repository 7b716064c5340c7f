#include "exec/launch_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace haast::exec {
namespace {

using kernels::OpCall;
using kernels::OpKind;

OpCall Call(OpKind kind, int64_t bytes, double seconds, int64_t operations = 0) {
  return {.kind = kind, .weights = {}, .rows = 1, .bytes = bytes, .operations = operations, .seconds = seconds};
}

TEST(LaunchProfile, SumsCallsOfALaunchAndTakesMediansOverLaunches) {
  LaunchProfile profile;
  for (const double slow : {1.0, 9.0, 2.0}) {
    const std::vector<OpCall> calls = {Call(OpKind::kRmsNorm, 10, 1e-3), Call(OpKind::kAttention, 100, slow * 1e-3, 7),
                                       Call(OpKind::kRmsNorm, 10, 2e-3)};
    profile.Add(calls, (slow + 4.0) * 1e-3);
  }
  const StepProfile report = profile.Report("verify(1)", 1);
  EXPECT_EQ(report.step, "verify(1)");
  EXPECT_NEAR(report.milliseconds, 6.0, 1e-9);
  EXPECT_EQ(report.bytes, 120) << "of one launch";
  EXPECT_EQ(report.operations, 7);
  ASSERT_EQ(report.ops.size(), 3u);
  EXPECT_EQ(report.ops[0].op, "rms_norm");
  EXPECT_EQ(report.ops[0].calls, 2);
  EXPECT_EQ(report.ops[0].bytes, 20);
  EXPECT_NEAR(report.ops[0].microseconds, 3000.0, 1e-6);
  EXPECT_EQ(report.ops[1].op, "attention");
  EXPECT_NEAR(report.ops[1].microseconds, 2000.0, 1e-6);
  EXPECT_EQ(report.ops[2].op, "the rest");
  EXPECT_NEAR(report.ops[2].microseconds, 1000.0, 1e-6);
}

}  // namespace
}  // namespace haast::exec
