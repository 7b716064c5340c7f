#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace haast::engine {
namespace {

using ::testing::ElementsAre;

TEST(CountAdmissions, StopsAtTheFirstThatDoesNotFit) {
  EXPECT_EQ(CountAdmissions(std::vector<int64_t>{4, 4, 4}, 0, 16, 12), 3);
  EXPECT_EQ(CountAdmissions(std::vector<int64_t>{4, 9, 1}, 0, 16, 12), 1);
  EXPECT_EQ(CountAdmissions(std::vector<int64_t>{4, 4, 4}, 15, 16, 12), 1);
  EXPECT_EQ(CountAdmissions(std::vector<int64_t>{4}, 16, 16, 12), 0);
  EXPECT_EQ(CountAdmissions({}, 0, 16, 12), 0);
}

TEST(AssignRows, DecodingGoesFirstAndPromptsShareTheChunkInOrder) {
  EXPECT_THAT(AssignRows(std::vector<int64_t>{1, 100, 1, 50}, 64), ElementsAre(1, 64, 1, 0));
  EXPECT_THAT(AssignRows(std::vector<int64_t>{40, 100, 1}, 64), ElementsAre(40, 24, 1));
  EXPECT_THAT(AssignRows(std::vector<int64_t>{2}, 1), ElementsAre(1));
}

TEST(CountDrafts, NeverPassesTheEnd) {
  EXPECT_EQ(CountDrafts(4, 100, 100), 4);
  EXPECT_EQ(CountDrafts(4, 3, 100), 2);
  EXPECT_EQ(CountDrafts(4, 1, 100), 0);
  EXPECT_EQ(CountDrafts(4, 100, 2), 1);
  EXPECT_EQ(CountDrafts(4, 100, 0), 0);
}

}  // namespace
}  // namespace haast::engine
