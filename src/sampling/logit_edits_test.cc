#include "sampling/logit_edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace haast::sampling {
namespace {

using ::testing::ElementsAre;

std::vector<float> Apply(const LogitEdits& edits, std::vector<float> logits) {
  edits.Apply(logits);
  return logits;
}

TEST(LogitEdits, NothingByDefault) {
  Request request;
  request.prompt = {1, 2};
  request.eos_ids = {3};
  LogitEdits edits(request);
  EXPECT_FALSE(edits.active());
  edits.Advance(2);
  EXPECT_FALSE(edits.active());
  EXPECT_THAT(Apply(edits, {1, 2, 3, 4}), ElementsAre(1, 2, 3, 4));
  EXPECT_FALSE(LogitEdits().active());
}

TEST(LogitEdits, RepetitionCountsPromptAndAnswer) {
  Request request;
  request.prompt = {0, 2, 2};
  request.sampling.repetition_penalty = 2.0f;
  LogitEdits edits(request);
  EXPECT_TRUE(edits.active());
  EXPECT_THAT(Apply(edits, {4, 4, -4, 0}), ElementsAre(2, 4, -8, 0)) << "once for a token, however often it was said";
  edits.Advance(1);
  EXPECT_THAT(Apply(edits, {4, 4, -4, 0}), ElementsAre(2, 2, -8, 0));
}

TEST(LogitEdits, FrequencyAndPresenceCountTheAnswer) {
  Request request;
  request.prompt = {0, 0};
  request.sampling.frequency_penalty = 0.5f;
  request.sampling.presence_penalty = 0.25f;
  LogitEdits edits(request);
  EXPECT_THAT(Apply(edits, {1, 1, 1}), ElementsAre(1, 1, 1)) << "the prompt does not count";
  edits.Advance(1);
  edits.Advance(1);
  edits.Advance(2);
  EXPECT_THAT(Apply(edits, {1, 1, 1}), ElementsAre(1, -0.25f, 0.25f));
  request.sampling.frequency_penalty = -0.5f;
  request.sampling.presence_penalty = 0.0f;
  edits = LogitEdits(request);
  edits.Advance(2);
  EXPECT_THAT(Apply(edits, {1, 1, 1}), ElementsAre(1, 1, 1.5f)) << "negative penalties reward";
}

TEST(LogitEdits, BiasComesBeforePenalties) {
  Request request;
  request.prompt = {1};
  request.sampling.repetition_penalty = 2.0f;
  request.sampling.logit_bias = {{1, 3.0f}, {0, -100.0f}, {1, 1.0f}};
  EXPECT_THAT(Apply(LogitEdits(request), {0, 2, 5}), ElementsAre(-100, 3, 5)) << "(2 + 3 + 1) / 2";
}

TEST(LogitEdits, NoEndBeforeItsTime) {
  Request request;
  request.prompt = {0};
  request.eos_ids = {2, 0, -1, 3};
  request.min_tokens = 2;
  LogitEdits edits(request);
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(edits.active());
    EXPECT_THAT(Apply(edits, {1, 1, 1}), ElementsAre(-INFINITY, 1, -INFINITY));
    edits.Advance(1);
  }
  EXPECT_FALSE(edits.active());
  EXPECT_THAT(Apply(edits, {1, 1, 1}), ElementsAre(1, 1, 1));
  request.eos_ids.clear();
  EXPECT_FALSE(LogitEdits(request).active()) << "nothing to hold back";
}

// Against the definition, counted afresh from the whole text at every position.
TEST(LogitEdits, AnswersCountAsTheyGrow) {
  std::mt19937 random(5);
  constexpr int kVocab = 12;
  for (int round = 0; round < 50; ++round) {
    Request request;
    for (int i = 0; i < 6; ++i) request.prompt.push_back(static_cast<int32_t>(random() % kVocab));
    request.sampling.repetition_penalty = 0.5f + static_cast<float>(random() % 4) / 2.0f;
    request.sampling.frequency_penalty = static_cast<float>(random() % 9) / 4.0f - 1.0f;
    request.sampling.presence_penalty = static_cast<float>(random() % 9) / 4.0f - 1.0f;
    LogitEdits edits(request);
    std::vector<int32_t> answer;
    for (int step = 0; step < 30; ++step) {
      std::vector<float> logits(kVocab);
      for (float& logit : logits) logit = static_cast<float>(random() % 64) / 8.0f - 4.0f;
      std::vector<float> expected = logits;
      for (int32_t id = 0; id < kVocab; ++id) {
        const auto count = std::count(answer.begin(), answer.end(), id);
        const bool said = count > 0 || std::count(request.prompt.begin(), request.prompt.end(), id) > 0;
        const float penalty = request.sampling.repetition_penalty;
        if (said) expected[id] = logits[id] > 0.0f ? logits[id] / penalty : logits[id] * penalty;
        expected[id] -= request.sampling.frequency_penalty * static_cast<float>(count);
        if (count > 0) expected[id] -= request.sampling.presence_penalty;
      }
      ASSERT_EQ(Apply(edits, logits), expected);
      answer.push_back(static_cast<int32_t>(random() % kVocab));
      edits.Advance(answer.back());
    }
  }
}

}  // namespace
}  // namespace haast::sampling
