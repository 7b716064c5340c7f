#include "spec/suffix_trie.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "spec/suffix_drafter.h"

namespace haast::spec {
namespace {

using ::testing::ElementsAre;

std::vector<int32_t> Random(std::mt19937& random, int size) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < size; ++i) tokens.push_back(static_cast<int32_t>(random() % 4));
  return tokens;
}

int64_t Occurrences(const std::vector<std::vector<int32_t>>& sequences, const std::vector<int32_t>& run) {
  int64_t count = 0;
  for (const auto& sequence : sequences) {
    for (size_t i = 0; i + run.size() <= sequence.size(); ++i) count += std::equal(run.begin(), run.end(), sequence.begin() + i);
  }
  return count;
}

// Every count, against a search through the sequences themselves.
void ExpectCounts(const SuffixTrie& trie, const std::vector<std::vector<int32_t>>& sequences, int max_depth) {
  std::vector<std::pair<int64_t, std::vector<int32_t>>> open = {{0, {}}};
  int64_t nodes = 0;
  while (!open.empty()) {
    const auto [node, run] = open.back();
    open.pop_back();
    for (const SuffixTrie::Child& child : trie.Children(node)) {
      std::vector<int32_t> longer = run;
      longer.push_back(child.token);
      ASSERT_LE(static_cast<int>(longer.size()), max_depth);
      ASSERT_EQ(child.count, Occurrences(sequences, longer));
      ++nodes;
      open.emplace_back(child.node, longer);
    }
  }
  EXPECT_EQ(nodes, trie.num_nodes());
}

TEST(SuffixTrie, CountsWhatASearchCounts) {
  std::mt19937 random(3);
  std::vector<std::vector<int32_t>> sequences;
  SuffixTrie trie(5, INT64_MAX);
  for (int i = 0; i < 6; ++i) {
    sequences.push_back(Random(random, 40));
    trie.Add(sequences.back());
  }
  ExpectCounts(trie, sequences, 5);
  SuffixTrie grown(5, INT64_MAX);
  for (const int32_t token : sequences[0]) grown.Append(token);
  ExpectCounts(grown, {sequences[0]}, 5);
}

TEST(SuffixTrie, ForgetsTheOldestAndStaysBounded) {
  std::mt19937 random(4);
  std::vector<std::vector<int32_t>> sequences;
  SuffixTrie trie(6, 400);
  for (int i = 0; i < 200; ++i) {
    sequences.push_back(Random(random, 30));
    trie.Add(sequences.back());
    ASSERT_LE(trie.num_nodes(), 400);
  }
  size_t kept = 1;  // the newest ones that are counted
  while (kept < sequences.size() && trie.num_nodes() > 0) {
    const std::vector<std::vector<int32_t>> newest(sequences.end() - static_cast<std::ptrdiff_t>(kept), sequences.end());
    int64_t total = 0;
    for (const SuffixTrie::Child& child : trie.Children(0)) total += child.count;
    if (total == static_cast<int64_t>(30 * kept)) {
      ExpectCounts(trie, newest, 6);
      return;
    }
    ++kept;
  }
  FAIL() << "the counts are those of no set of newest sequences";
}

TEST(SuffixTrie, ASequenceTooLargeAloneIsForgotten) {
  SuffixTrie trie(8, 10);
  trie.Add({1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(trie.num_nodes(), 0);
  EXPECT_TRUE(trie.Children(0).empty());
}

TEST(SuffixTrie, MatchesTheLongestSuffixThatGoesOn) {
  SuffixTrie trie(4, INT64_MAX);
  trie.Add({1, 2, 3, 4});
  trie.Add({2, 3, 5});
  int length = 0;
  const auto tokens = [&](int64_t node) {
    std::vector<int32_t> found;
    for (const SuffixTrie::Child& child : trie.Children(node)) found.push_back(child.token);
    return found;
  };
  EXPECT_THAT(tokens(trie.Match(std::vector<int32_t>{9, 1, 2, 3}, 3, &length)), ElementsAre(4));
  EXPECT_EQ(length, 3);
  EXPECT_THAT(tokens(trie.Match(std::vector<int32_t>{9, 2, 3}, 3, &length)), ElementsAre(4, 5));
  EXPECT_EQ(length, 2);
  trie.Match(std::vector<int32_t>{4}, 3, &length);
  EXPECT_EQ(length, 0) << "4 was the end of everything";
}

TEST(SuffixDrafter, DraftsFarPastALongMatch) {
  SuffixDrafter drafter;
  std::vector<int32_t> answer;
  for (int32_t i = 0; i < 60; ++i) answer.push_back(i);
  DraftState other;
  drafter.Finish(&other, answer);
  const std::vector<int32_t> tokens(answer.begin(), answer.begin() + 30);
  const SamplingParams sampling;
  DraftState state;
  DraftTree tree;
  const ProposeItem item{&state, nullptr, tokens, &sampling, {10, 10, 1}, &tree};
  ASSERT_TRUE(drafter.Propose({&item, 1}));
  EXPECT_THAT(tree.drafts, ElementsAre(30, 31, 32, 33, 34, 35, 36, 37, 38, 39));
}

TEST(SuffixDrafter, LearnsFromFinishedRequests) {
  SuffixDrafter drafter;
  const SamplingParams sampling;
  DraftState state;
  DraftTree tree;
  const std::vector<int32_t> tokens = {7, 1, 2};
  const ProposeItem item{&state, nullptr, tokens, &sampling, {4, 3, 2}, &tree};
  ASSERT_TRUE(drafter.Propose({&item, 1}));
  EXPECT_TRUE(tree.drafts.empty());
  for (int i = 0; i < 3; ++i) {
    DraftState other;
    drafter.Finish(&other, i == 0 ? std::vector<int32_t>{1, 2, 8, 9} : std::vector<int32_t>{1, 2, 3, 4, 5});
  }
  ASSERT_TRUE(drafter.Propose({&item, 1}));
  // 3 follows twice, 8 once; what follows 3 is certain and so comes before 8.
  EXPECT_THAT(tree.drafts, ElementsAre(3, 4, 5, 8));
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0, 1, 2, 0));
}

}  // namespace
}  // namespace haast::spec
