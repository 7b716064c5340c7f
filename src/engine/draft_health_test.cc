#include "engine/draft_health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace haast::engine {
namespace {

TEST(DraftHealth, ReportsAWindowBelowTheFloor) {
  DraftHealth health;
  for (int i = 0; i < 255; ++i) EXPECT_FALSE(health.Count(i < 5, 0.02)) << i;
  const auto reason = health.Count(false, 0.02);
  ASSERT_TRUE(reason);
  EXPECT_THAT(*reason, ::testing::StartsWith("low_acceptance: the first draft was accepted in 5 of 256 rounds, expected at least 2.0%"));
}

TEST(DraftHealth, AtTheFloorAllIsWell) {
  DraftHealth health;
  for (int i = 0; i < 256; ++i) EXPECT_FALSE(health.Count(i < 6, 0.02)) << i;
  for (int i = 0; i < 256; ++i) EXPECT_FALSE(health.Count(false, 0.0)) << "no floor";
  for (int i = 0; i < 255; ++i) EXPECT_FALSE(health.Count(false, 0.02)) << "a window of its own";
  EXPECT_TRUE(health.Count(false, 0.02));
}

}  // namespace
}  // namespace haast::engine
