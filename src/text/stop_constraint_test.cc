#include "text/stop_constraint.h"

#include <gtest/gtest.h>

#include <random>

#include "text/test_data.h"

namespace haast::text {
namespace {

std::shared_ptr<const StopSet> Stops(std::vector<std::string> stops) { return StopSet::Create(std::move(stops)).value(); }

// The token (counted from 1) with which `ids` are finished; 0: never.
size_t FinishedAt(StopConstraint* constraint, const std::vector<int32_t>& ids) {
  for (size_t i = 0; i < ids.size(); ++i) {
    constraint->Advance(ids[i]);
    if (constraint->finished()) return i + 1;
  }
  return 0;
}

TEST(StopConstraintTest, FinishesWithTheTokenThatCompletesAStop) {
  const Tokenizer& tokenizer = SmollmTokenizer();
  const std::vector<int32_t> ids = tokenizer.Encode("The answer is 42.\n\nUser: and then?", true).value();
  size_t expected = 0;
  for (size_t n = 1; n <= ids.size() && expected == 0; ++n) {
    if (tokenizer.Decode(std::span(ids).first(n), true).find("\n\nUser:") != std::string::npos) expected = n;
  }
  ASSERT_GT(expected, 5u);
  StopConstraint constraint(tokenizer, Stops({"never", "\n\nUser:"}), true);
  EXPECT_EQ(FinishedAt(&constraint, ids), expected);
  EXPECT_EQ(constraint.stop(), 1);
  EXPECT_FALSE(constraint.NeedsMask());
}

TEST(StopConstraintTest, SpecialTokensCountAsTheyAreShown) {
  const Tokenizer& tokenizer = SmollmTokenizer();
  const std::vector<int32_t> ids = tokenizer.Encode("ab<|im_start|>cd", true).value();
  StopConstraint hidden(tokenizer, Stops({"im_start", "bc"}), true);
  FinishedAt(&hidden, ids);
  EXPECT_EQ(hidden.stop(), 1);
  StopConstraint shown(tokenizer, Stops({"im_start", "bc"}), false);
  FinishedAt(&shown, ids);
  EXPECT_EQ(shown.stop(), 0);
}

TEST(StopConstraintTest, AStopInsideACharacterWaitsForTheCharacter) {
  const Tokenizer& tokenizer = SmollmTokenizer();
  const std::vector<int32_t> ids = tokenizer.Encode("\u2003", true).value();
  ASSERT_EQ(ids.size(), 2u);
  StopConstraint constraint(tokenizer, Stops({"\u2003"}), true);
  EXPECT_EQ(FinishedAt(&constraint, ids), 2u);
}

// Any course of steps and rollbacks leaves the same state as the tokens that remain, fed afresh.
TEST(StopConstraintTest, RollbackTakesTokensBack) {
  const Tokenizer& tokenizer = SmollmTokenizer();
  const auto stops = Stops({" the end", "\n\n", "\u2003"});
  const std::vector<int32_t> alphabet = tokenizer.Encode(" the end\n\n\u2003 then the e\nnd of", true).value();
  std::mt19937 random(9);
  int finished = 0;
  for (int round = 0; round < 400; ++round) {
    StopConstraint constraint(tokenizer, stops, true);
    std::vector<int32_t> kept;
    for (int step = 0; step < 30; ++step) {
      if (random() % 4 == 0) {
        const int count = static_cast<int>(random() % (kept.size() + 1));
        constraint.Rollback(count);
        kept.resize(kept.size() - static_cast<size_t>(count));
      } else {
        kept.push_back(alphabet[random() % alphabet.size()]);
        constraint.Advance(kept.back());
      }
      StopConstraint fresh(tokenizer, stops, true);
      for (const int32_t id : kept) fresh.Advance(id);
      ASSERT_EQ(constraint.finished(), fresh.finished());
      ASSERT_EQ(constraint.stop(), fresh.stop());
      finished += constraint.finished();
    }
  }
  EXPECT_GT(finished, 100);
}

TEST(StopConstraintTest, RollbackIsBounded) {
  StopConstraint constraint(SmollmTokenizer(), Stops({"x"}), true);
  for (int i = 0; i < 1000; ++i) constraint.Advance(252);
  constraint.Rollback(StopConstraint::kMaxRollback);
  EXPECT_DEATH(constraint.Rollback(1), "rollback of 1 tokens; 0 are remembered");
  EXPECT_DEATH(constraint.Rollback(-1), "rollback of -1");
}

}  // namespace
}  // namespace haast::text
