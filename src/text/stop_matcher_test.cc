#include "text/stop_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace haast::text {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const StopSet> Stops(std::vector<std::string> stops) {
  auto set = StopSet::Create(std::move(stops));
  EXPECT_TRUE(set.has_value()) << set.error().message;
  return *set;
}

struct Outcome {
  std::string text;
  int stop = -1;
  size_t pieces = 0;  // pushed until the stop was complete
};

Outcome Feed(const std::shared_ptr<const StopSet>& set, const std::vector<std::string>& pieces) {
  StopMatcher matcher(set);
  Outcome outcome;
  for (const std::string& piece : pieces) {
    const StopMatcher::Piece result = matcher.Push(piece);
    outcome.text += result.text;
    ++outcome.pieces;
    EXPECT_EQ(matcher.kept_bytes(), outcome.text.size());
    if (result.stop >= 0) {
      outcome.stop = result.stop;
      EXPECT_EQ(matcher.Push("more").text, "");
      EXPECT_EQ(matcher.Push("more").stop, result.stop);
      break;
    }
  }
  outcome.text += matcher.Finish();
  return outcome;
}

TEST(StopMatcherTest, NoStops) {
  const Outcome outcome = Feed(Stops({}), {"a", "bc", ""});
  EXPECT_EQ(outcome.text, "abc");
  EXPECT_EQ(outcome.stop, -1);
}

TEST(StopMatcherTest, HoldsBackWhatMayBeginAStop) {
  StopMatcher matcher(Stops({"\n\nUser:", "END"}));
  EXPECT_EQ(matcher.Push("Hi\n").text, "Hi");
  EXPECT_EQ(matcher.held_bytes(), 1u);
  EXPECT_EQ(matcher.Push("\nUse").text, "");
  EXPECT_EQ(matcher.Push("ful").text, "\n\nUseful") << "it was not a stop";
  EXPECT_EQ(matcher.Push(" E").text, " ");
  EXPECT_EQ(matcher.Push("EN").text, "E");
  const StopMatcher::Piece last = matcher.Push("D of text");
  EXPECT_EQ(last.text, "");
  EXPECT_EQ(last.stop, 1);
  EXPECT_EQ(matcher.kept_bytes(), std::string("Hi\n\nUseful E").size());
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcherTest, FinishGivesTheHeldText) {
  StopMatcher matcher(Stops({"stop"}));
  EXPECT_EQ(matcher.Push("a sto").text, "a ");
  EXPECT_EQ(matcher.Finish(), "sto");
  EXPECT_EQ(matcher.kept_bytes(), 5u);
}

TEST(StopMatcherTest, TheStopThatEndsFirstWins) {
  EXPECT_EQ(Feed(Stops({"abcd", "bc"}), {"xabcdx"}).text, "xa");
  EXPECT_EQ(Feed(Stops({"abcd", "bc"}), {"xa", "b", "c", "dx"}).text, "xa");
  EXPECT_EQ(Feed(Stops({"c", "abc"}), {"xabc"}).text, "x") << "of those that end together, the longest";
  EXPECT_EQ(Feed(Stops({"abab", "aba"}), {"ababab"}).stop, 1);
  EXPECT_EQ(Feed(Stops({"aa", "aa"}), {"aaa"}).stop, 0);
}

TEST(StopMatcherTest, SaysAfterWhichPieceTheStopIsComplete) {
  EXPECT_EQ(Feed(Stops({"stop"}), {"a s", "to", "p", "more"}).pieces, 3u);
  EXPECT_EQ(Feed(Stops({"s"}), {"s"}).text, "");
}

TEST(StopMatcherTest, ACopyIsIndependent) {
  StopMatcher matcher(Stops({"stop"}));
  matcher.Push("sto");
  StopMatcher snapshot = matcher;
  EXPECT_TRUE(matcher.Push("p").stop == 0 && matcher.stopped());
  EXPECT_FALSE(snapshot.stopped());
  EXPECT_EQ(snapshot.Push("ry").text, "story");
}

// The first end of any stop in `text`, the longest stop there (the first of equal ones).
Outcome Definition(const std::vector<std::string>& stops, const std::string& text) {
  Outcome outcome{.text = text, .stop = -1};
  for (size_t end = 1; end <= text.size() && outcome.stop < 0; ++end) {
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool longer = outcome.stop < 0 || stops[i].size() > stops[static_cast<size_t>(outcome.stop)].size();
      if (!longer || !text.substr(0, end).ends_with(stops[i])) continue;
      outcome.stop = static_cast<int>(i);
      outcome.text = text.substr(0, end - stops[i].size());
    }
  }
  return outcome;
}

// Against the definition, for every way to cut a text.
TEST(StopMatcherTest, AgreesWithTheDefinitionHoweverTheTextIsCut) {
  std::mt19937 random(5);
  const auto word = [&](size_t longest) {
    std::string text(1 + random() % longest, 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 3);
    return text;
  };
  int stopped = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(1 + random() % 4);
    for (std::string& stop : stops) stop = word(5);
    const std::string text = word(14);
    const Outcome expected = Definition(stops, text);
    std::vector<std::string> pieces;
    for (size_t at = 0; at < text.size();) {
      pieces.push_back(text.substr(at, 1 + random() % 4));
      at += pieces.back().size();
    }
    const Outcome outcome = Feed(Stops(stops), pieces);
    ASSERT_EQ(outcome.text, expected.text) << text << " " << testing::PrintToString(stops);
    ASSERT_EQ(outcome.stop, expected.stop) << text << " " << testing::PrintToString(stops);
    stopped += expected.stop >= 0;
  }
  EXPECT_GT(stopped, 1000);
}

TEST(StopSetTest, Refusals) {
  const auto message = [](std::vector<std::string> stops) {
    auto set = StopSet::Create(std::move(stops));
    EXPECT_FALSE(set.has_value());
    if (!set) {
      EXPECT_EQ(set.error().code, ErrorCode::kInvalidArgument);
    }
    return set ? "" : set.error().message;
  };
  EXPECT_THAT(message({"a", ""}), HasSubstr("string 1 is empty"));
  EXPECT_THAT(message({"\x80"}), HasSubstr("not valid UTF-8"));
  EXPECT_THAT(message(std::vector<std::string>(65, "a")), HasSubstr("got 65 strings"));
  EXPECT_THAT(message({std::string(StopSet::kMaxBytes, 'a'), "b"}), HasSubstr("16385 bytes"));
  EXPECT_TRUE(StopSet::Create({std::string(StopSet::kMaxBytes, 'a')}).has_value());
}

}  // namespace
}  // namespace haast::text
