#include "engine/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace haast::engine {
namespace {

using ::testing::ElementsAre;

TEST(TokensToStart, PromptAndARoundButNeverMoreThanTheWhole) {
  EXPECT_EQ(TokensToStart(20, 3, 100), 24);
  EXPECT_EQ(TokensToStart(20, 0, 100), 21);
  EXPECT_EQ(TokensToStart(20, 7, 22), 22);
}

std::vector<int> Fit(int num_tokens, int depth, int top_k, int64_t room) {
  const spec::TreeShape shape = FitShape({.num_tokens = num_tokens, .depth = depth, .top_k = top_k}, room);
  EXPECT_LE(DraftRows(shape), std::max<int64_t>(0, room));
  return {shape.num_tokens, shape.depth, shape.top_k};
}

TEST(FitShape, ATreeThatDoesNotFitBecomesAChainAndAChainShorter) {
  EXPECT_THAT(Fit(4, 4, 1, 4), ElementsAre(4, 4, 1));
  EXPECT_THAT(Fit(4, 4, 1, 2), ElementsAre(2, 2, 1));
  EXPECT_THAT(Fit(4, 4, 1, 0), ElementsAre(0, 0, 1));
  EXPECT_THAT(Fit(4, 4, 1, -3), ElementsAre(0, 0, 1));
  EXPECT_EQ(DraftRows({.num_tokens = 16, .depth = 5, .top_k = 8}), 32) << "four levels of eight nodes are expanded";
  EXPECT_EQ(DraftRows({.num_tokens = 60, .depth = 5, .top_k = 8}), 60);
  EXPECT_THAT(Fit(16, 5, 8, 32), ElementsAre(16, 5, 8));
  EXPECT_THAT(Fit(16, 5, 8, 31), ElementsAre(5, 5, 1));
  EXPECT_THAT(Fit(16, 5, 8, 3), ElementsAre(3, 3, 1));
  EXPECT_THAT(Fit(2, 5, 8, 3), ElementsAre(2, 2, 1)) << "never more drafts than asked for";
  EXPECT_THAT(Fit(16, 0, 8, 100), ElementsAre(0, 0, 1)) << "nothing may be drafted";
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
