#include "spec/ngram_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace haast::spec {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

int64_t Find(const std::vector<int32_t>& tokens, int min_n = 2, int max_n = 8) { return FindNgram(tokens, min_n, max_n); }

TEST(FindNgram, TheLongestSuffixWins) {
  //                      0  1  2  3  4  5  6  7  8  9
  EXPECT_EQ(Find({1, 2, 3, 9, 7, 2, 3, 8, 1, 2, 3}), 3) << "1 2 3 at the start beats 2 3 later";
  EXPECT_EQ(Find({2, 3, 9, 2, 3, 8, 2, 3}), 5) << "of equal ones the latest";
  EXPECT_EQ(Find({5, 5, 5, 5}), 3) << "an occurrence may overlap the suffix";
}

TEST(FindNgram, TooShortIsNothing) {
  EXPECT_EQ(Find({}), -1);
  EXPECT_EQ(Find({1}), -1);
  EXPECT_EQ(Find({1, 2, 3, 4}), -1);
  EXPECT_EQ(Find({3, 9, 8, 3}), -1) << "one token that occurred before";
  EXPECT_EQ(Find({3, 9, 8, 3}, 1), 1);
}

TEST(NgramDrafter, ProposesWhatFollowed) {
  NgramDrafter drafter;
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 1, 2};
  const SamplingParams sampling;
  DraftState state;
  DraftTree tree;
  const auto propose = [&](int num_tokens) {
    const ProposeItem item{&state, nullptr, tokens, &sampling, {num_tokens, num_tokens, 1}, &tree};
    EXPECT_TRUE(drafter.Propose({&item, 1}));
    return tree.drafts;
  };
  EXPECT_THAT(propose(2), ElementsAre(3, 4));
  EXPECT_THAT(propose(7), ElementsAre(3, 4, 5, 1, 2));
  EXPECT_TRUE(tree.IsChain());
  const std::vector<int32_t> unknown = {1, 2, 3};
  const ProposeItem nothing{&state, nullptr, unknown, &sampling, {3, 3, 1}, &tree};
  EXPECT_TRUE(drafter.Propose({&nothing, 1}));
  EXPECT_THAT(tree.drafts, IsEmpty());
}

}  // namespace
}  // namespace haast::spec
