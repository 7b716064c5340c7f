#include "sampling/accept.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace haast::sampling {
namespace {

using ::testing::ElementsAre;

using ::testing::Pair;

constexpr int32_t kEos = 2;

// Runs AcceptTree with the target's token after each row given; records what was drawn and emitted.
struct Round {
  std::vector<int> drawn;
  std::vector<int> depths;
  std::vector<std::pair<int32_t, bool>> emitted;
  AcceptResult result;

  Round(const std::vector<int32_t>& drafts, const std::vector<int32_t>& parents, const std::map<int, int32_t>& target, int32_t stop = -1) {
    result = AcceptTree(
        drafts, parents,
        [&](int row, int depth) {
          drawn.push_back(row);
          depths.push_back(depth);
          return target.at(row);
        },
        [&](int32_t token, bool from_draft) {
          emitted.emplace_back(token, from_draft);
          return token == stop;
        });
  }
};

TEST(AcceptTree, PlainDecodingIsARoundWithoutDrafts) {
  const Round round({}, {-1}, {{0, 42}});
  EXPECT_THAT(round.result.rows, ElementsAre(0));
  EXPECT_THAT(round.result.tokens, ElementsAre(42));
  EXPECT_EQ(round.result.num_accepted.value, 0);
  EXPECT_FALSE(round.result.finished);
  EXPECT_THAT(round.emitted, ElementsAre(Pair(42, false)));
}

TEST(AcceptTree, WholeChainAndBonus) {
  const Round round({10, 11, 12}, {-1, 0, 1, 2}, {{0, 10}, {1, 11}, {2, 12}, {3, 99}});
  EXPECT_THAT(round.result.rows, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(round.result.tokens, ElementsAre(10, 11, 12, 99));
  EXPECT_EQ(round.result.num_accepted.value, 3);
  EXPECT_THAT(round.depths, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(round.emitted, ElementsAre(Pair(10, true), Pair(11, true), Pair(12, true), Pair(99, false)));
}

TEST(AcceptTree, ChainStopsAtTheFirstDifference) {
  const Round round({10, 11, 12}, {-1, 0, 1, 2}, {{0, 10}, {1, 77}, {2, 12}, {3, 99}});
  EXPECT_THAT(round.result.rows, ElementsAre(0, 1));
  EXPECT_THAT(round.result.tokens, ElementsAre(10, 77));
  EXPECT_EQ(round.result.num_accepted.value, 1);
  EXPECT_THAT(round.drawn, ElementsAre(0, 1)) << "the row of a rejected draft is never drawn from";
}

TEST(AcceptTree, NothingAccepted) {
  const Round round({10, 11}, {-1, 0, 1}, {{0, 11}, {1, 11}, {2, 5}});
  EXPECT_THAT(round.result.rows, ElementsAre(0));
  EXPECT_THAT(round.emitted, ElementsAre(Pair(11, false))) << "11 was drafted, but not at this position";
  EXPECT_EQ(round.result.num_accepted.value, 0);
}

// Choices {0}, {1}, {0, 0}; branch 1 is accepted: no length of a rollback describes rows {0, 2}.
TEST(AcceptTree, SecondBranchIsNotAPrefix) {
  const Round round({10, 20, 11}, {-1, 0, 0, 1}, {{0, 20}, {2, 7}});
  EXPECT_THAT(round.result.rows, ElementsAre(0, 2));
  EXPECT_THAT(round.result.tokens, ElementsAre(20, 7));
  EXPECT_EQ(round.result.num_accepted.value, 1);
}

// A verify width of 8 rows and 3 steps with 4 children of the root: the accepted path 0, 3, 6, 7 is not dense, and no row
// off it is touched.
TEST(AcceptTree, WideTreeAcceptsANonFirstBranch) {
  const std::vector<int32_t> drafts = {10, 20, 30, 40, 11, 31, 32};
  const std::vector<int32_t> parents = {-1, 0, 0, 0, 0, 1, 3, 6};
  const Round round(drafts, parents, {{0, 30}, {3, 31}, {6, 32}, {7, 50}});
  EXPECT_THAT(round.result.rows, ElementsAre(0, 3, 6, 7));
  EXPECT_THAT(round.result.tokens, ElementsAre(30, 31, 32, 50));
  EXPECT_EQ(round.result.num_accepted.value, 3);
  EXPECT_THAT(round.drawn, ElementsAre(0, 3, 6, 7));
  EXPECT_THAT(round.depths, ElementsAre(0, 1, 2, 3));
}

TEST(AcceptTree, FirstOfEqualSiblingsWins) {
  const Round round({10, 10, 11, 12}, {-1, 0, 0, 1, 2}, {{0, 10}, {1, 12}});
  EXPECT_THAT(round.result.rows, ElementsAre(0, 1)) << "12 hangs below the second copy";
  EXPECT_THAT(round.result.tokens, ElementsAre(10, 12));
  EXPECT_EQ(round.result.num_accepted.value, 1);
}

TEST(AcceptTree, EndInsideTheAcceptedRun) {
  const Round round({10, kEos, 12, 13}, {-1, 0, 1, 2, 3}, {{0, 10}, {1, kEos}, {2, 12}, {3, 13}, {4, 14}}, kEos);
  EXPECT_TRUE(round.result.finished);
  EXPECT_THAT(round.result.rows, ElementsAre(0, 1));
  EXPECT_THAT(round.result.tokens, ElementsAre(10, kEos));
  EXPECT_EQ(round.result.num_accepted.value, 2) << "the end token was drafted; what follows it is not counted";
  EXPECT_THAT(round.emitted, ElementsAre(Pair(10, true), Pair(kEos, true)));
  EXPECT_THAT(round.drawn, ElementsAre(0, 1)) << "after the end nothing is drawn";
}

TEST(AcceptTree, EndAsTheFirstToken) {
  const Round round({10, 11}, {-1, 0, 1}, {{0, kEos}}, kEos);
  EXPECT_TRUE(round.result.finished);
  EXPECT_THAT(round.result.tokens, ElementsAre(kEos));
  EXPECT_EQ(round.result.num_accepted.value, 0);
}

TEST(AcceptTree, EndAsTheBonusToken) {
  const Round round({10}, {-1, 0}, {{0, 10}, {1, kEos}}, kEos);
  EXPECT_TRUE(round.result.finished);
  EXPECT_THAT(round.emitted, ElementsAre(Pair(10, true), Pair(kEos, false)));
  EXPECT_EQ(round.result.num_accepted.value, 1);
}

// Whatever is drafted, the emitted tokens are those of plain decoding: a prefix of the target's own sequence.
TEST(AcceptTree, RandomTreesEmitPlainDecoding) {
  std::mt19937 random(21);
  // A target over 3 tokens: the next token is a hash of the whole prefix.
  const auto next = [](const std::vector<int32_t>& prefix) {
    uint32_t hash = 17;
    for (const int32_t token : prefix) hash = (hash ^ static_cast<uint32_t>(token)) * 2654435761u + 1u;
    return static_cast<int32_t>(hash >> 16) % 3;
  };
  int64_t accepted = 0;
  for (int round = 0; round < 500; ++round) {
    const int rows = 1 + static_cast<int>(random() % 20);
    std::vector<int32_t> drafts, parents = {-1};
    std::vector<std::vector<int32_t>> prefix(rows);
    for (int j = 1; j < rows; ++j) {
      parents.push_back(static_cast<int32_t>(random() % j));
      drafts.push_back(static_cast<int32_t>(random() % 3));
      prefix[j] = prefix[parents[j]];
      prefix[j].push_back(drafts.back());
    }
    const size_t stop_after = 1 + random() % 6;
    std::vector<int32_t> emitted, plain;
    std::vector<bool> from_draft;
    const AcceptResult result = AcceptTree(
        drafts, parents,
        [&](int row, int depth) {
          EXPECT_EQ(prefix[row].size(), static_cast<size_t>(depth));
          EXPECT_EQ(prefix[row], emitted) << "a row is drawn from only where its drafts are the emitted tokens";
          return next(prefix[row]);
        },
        [&](int32_t token, bool drafted) {
          emitted.push_back(token);
          from_draft.push_back(drafted);
          return emitted.size() == stop_after;
        });
    while (plain.size() < emitted.size()) plain.push_back(next(plain));
    ASSERT_EQ(emitted, plain);
    ASSERT_EQ(result.tokens, emitted);
    ASSERT_EQ(result.rows.size(), emitted.size());
    ASSERT_EQ(result.finished, emitted.size() == stop_after);
    ASSERT_EQ(result.num_accepted.value, std::count(from_draft.begin(), from_draft.end(), true));
    ASSERT_TRUE(result.finished || result.num_accepted.value + 1 == static_cast<int>(emitted.size()));
    accepted += result.num_accepted.value;
  }
  EXPECT_GT(accepted, 250) << "the trees are good enough to mean something";
}

TEST(AcceptTreeDeathTest, BugsOfTheCaller) {
  EXPECT_DEATH(Round({1}, {-1}, {{0, 1}}), "1 drafts, 1 parents");
  EXPECT_DEATH(Round({}, {0}, {{0, 1}}), "0 drafts, 1 parents");
  EXPECT_DEATH(Round({1, 2}, {-1, 0, 2}, {{0, 9}}), "row 2 has parent 2");
  EXPECT_DEATH(Round({1}, {-1, -1}, {{0, 9}}), "row 1 has parent -1");
}

}  // namespace
}  // namespace haast::sampling
