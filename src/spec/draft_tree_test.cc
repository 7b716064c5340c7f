#include "spec/draft_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace haast::spec {
namespace {

using ::testing::ElementsAre;

TEST(DraftTree, AChainIsOne) {
  DraftTree tree;
  EXPECT_TRUE(tree.IsChain());
  EXPECT_EQ(tree.depth(), 0);
  tree.AppendToChain(5);
  tree.AppendToChain(6);
  EXPECT_TRUE(tree.IsChain());
  EXPECT_EQ(tree.depth(), 2);
  tree.drafts.push_back(7);
  tree.parents.push_back(1);
  EXPECT_FALSE(tree.IsChain());
  EXPECT_EQ(tree.depth(), 2);
}

// The pool is reranked as a whole: a confident grandchild comes before a doubtful child.
TEST(CandidatePool, TheBestNodesAreATree) {
  CandidatePool pool;
  const int a = pool.Add(-1, {10, -0.1f});
  const int b = pool.Add(-1, {20, -3.0f});
  const int aa = pool.Add(a, {11, -0.1f});
  pool.Add(a, {12, -2.0f});
  pool.Add(b, {21, -0.1f});
  pool.Add(aa, {13, 0.0f});
  DraftTree tree;
  pool.Fill(3, &tree);
  EXPECT_THAT(tree.drafts, ElementsAre(10, 11, 13));
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0, 1, 2));
  pool.Fill(5, &tree);
  EXPECT_THAT(tree.drafts, ElementsAre(10, 20, 11, 12, 13));
  EXPECT_THAT(tree.parents, ElementsAre(-1, 0, 0, 1, 1, 3));
  pool.Fill(100, &tree);
  EXPECT_THAT(tree.drafts, ElementsAre(10, 20, 11, 12, 21, 13));
}

// Equal scores, a positive one and a NaN: no child may overtake its parent.
TEST(CandidatePool, AncestorsAreAlwaysKept) {
  CandidatePool pool;
  int parent = -1;
  for (int i = 0; i < 6; ++i) parent = pool.Add(parent, {i, i == 2 ? 5.0f : 0.0f});
  pool.Add(-1, {100, std::numeric_limits<float>::quiet_NaN()});
  for (int count = 1; count <= 7; ++count) {
    DraftTree tree;
    pool.Fill(count, &tree);
    ASSERT_EQ(static_cast<int>(tree.drafts.size()), count);
    for (int i = 0; i < std::min(count, 6); ++i) EXPECT_EQ(tree.drafts[static_cast<size_t>(i)], i);
    EXPECT_EQ(tree.IsChain(), count < 7);
  }
}

TEST(CandidatePool, ALevelIsChosenAmongItsOwn) {
  CandidatePool pool;
  const int a = pool.Add(-1, {1, -0.1f});
  const int b = pool.Add(-1, {2, -0.2f});
  const int first_child = pool.size();
  pool.Add(a, {3, -5.0f});
  pool.Add(a, {4, -0.5f});
  pool.Add(b, {5, -0.3f});
  EXPECT_THAT(pool.Best(first_child, 2), ElementsAre(3, 4));
  EXPECT_THAT(pool.Best(first_child, 9), ElementsAre(2, 3, 4));
  EXPECT_EQ(pool.node(4).depth, 2);
}

}  // namespace
}  // namespace haast::spec
