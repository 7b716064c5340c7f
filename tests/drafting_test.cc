// What becomes of drafts when something else happens to their request: preemption, the end of its answer, a drafter that is turned
// off, another request's prompt.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>

#include "haast/check.h"
#include "support/echo_engine.h"
#include "support/engine_harness.h"
#include "support/tiny_models.h"

namespace haast::testing {
namespace {

class DraftingTest : public EchoEngine {
 protected:
  DraftingTest() {
    options_.draft_model = options_.model;
    options_.kv_tokens = 4096;
  }

  // A head whose drafts are next to never right.
  void UseRandomHead() {
    TinyEagle3 head;
    head.target = llama_;
    options_.draft = WriteTinyEagle3(head, dir_.Join("random_head"));
  }

  // Counters tell of the drafts that events show, and of no others.
  static void ExpectCountersOfEvents(const Answer& answer) {
    int64_t rounds = 0, drafted = 0, accepted = 0;
    for (const Event& event : answer.events) {
      rounds += event.drafts.empty() ? 0 : 1;
      drafted += static_cast<int64_t>(event.drafts.size());
      accepted += event.num_accepted;
    }
    EXPECT_EQ(answer.speculation.rounds, rounds);
    EXPECT_EQ(answer.speculation.drafted, drafted);
    EXPECT_EQ(answer.speculation.accepted, accepted);
  }
};

// Requests swapped out and in between their rounds: every launch of target and head has metadata that describes it.
TEST_F(DraftingTest, SwappingInTheMiddleOfDraftingLeavesAValidTrace) {
  options_.preemption = Preemption::kSwap;
  options_.trace_metadata = dir_.Join("trace.jsonl");
  for (const int page_size : {1, 16}) {
    options_.page_size = page_size;
    options_.kv_tokens = 112;
    std::vector<Request> requests = {MakeRequest(20, 60, 2, 5), MakeRequest(33, 50, 3, 4)};
    requests.push_back(MakeRequest(40, 30, 4));
    requests.back().speculation = {SpeculativeAlgorithm::kEagle3, 12, 3, 4};
    requests.push_back(MakeRequest(12, 40, 5));
    requests.back().speculation = {SpeculativeAlgorithm::kDraftModel, 3};
    EngineStats stats;
    {
      auto engine = MustCreate(options_);
      const std::vector<Answer> answers = RunRequests(*engine, requests);
      for (size_t i = 0; i < answers.size(); ++i) {
        ExpectSameBits(Alone(requests[i]), answers[i], "request " + std::to_string(i));
        ExpectCountersOfEvents(answers[i]);
      }
      stats = engine->stats();
    }
    EXPECT_GT(stats.swaps, 0);
    EXPECT_GT(stats.speculation.rounds, 20);
    const int fd = open(options_.trace_metadata.c_str(), O_RDONLY);
    ASSERT_GE(fd, 0);
    const auto report = CheckMetadata(fd, options_.trace_metadata);
    close(fd);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->launches, stats.traced_launches);
    EXPECT_GT(report->launches, stats.steps) << "the head's launches too";
    EXPECT_TRUE(report->findings.empty()) << report->findings[0].message;
  }
}

// A prompt that leaves a cached one inside a page is prefilled beside a request whose drafts are accepted.
TEST_F(DraftingTest, APartialHitBesideAcceptedDrafts) {
  const Request drafting = MakeRequest(20, 60, 2, 4);
  Request cached = MakeRequest(50, 2, 6, 4);
  const Answer expected = Alone(drafting);
  int64_t accepted_beside = 0;
  for (const size_t shared : {17, 31, 40, 47}) {
    Request later = cached;
    later.max_tokens = 10;
    later.prompt[shared] = (later.prompt[shared] + 1) % 320;
    const Answer expected_later = Alone(later);
    auto engine = MustCreate(options_);
    RunRequests(*engine, {cached});
    ASSERT_TRUE(engine->Submit(drafting));
    for (int steps = 1; steps < 6; ++steps) engine->Step();
    const int64_t before = engine->stats().speculation.accepted;
    const RequestId id = *engine->Submit(later);
    Answer answer;
    std::vector<int32_t> drafted;
    for (bool first = true; !engine->idle(); first = false) {
      for (const Event& event : engine->Step()) {
        for (const TokenOutput& token : event.tokens) {
          (event.request == id ? answer.tokens : drafted).push_back(token.token);
        }
        if (event.request != id) continue;
        if (first) accepted_beside += engine->stats().speculation.accepted - before;
        if (event.finish == FinishReason::kNone) continue;
        EXPECT_EQ(event.timings.cached_prompt_tokens, static_cast<int64_t>((shared - 1) / 16 * 16)) << shared;
      }
    }
    EXPECT_EQ(answer.tokens, expected_later.tokens) << shared;
    ASSERT_LT(drafted.size(), expected.tokens.size());
    EXPECT_TRUE(std::equal(drafted.rbegin(), drafted.rend(), expected.tokens.rbegin())) << shared;
  }
  EXPECT_GT(accepted_beside, 0) << "drafts were accepted in the very step that prefilled the other prompt";
}

TEST_F(DraftingTest, RoundsEndWithinTheAnswerAndTheContext) {
  for (const bool context : {false, true}) {
    options_.max_context = context ? 50 : 0;
    Request request = MakeRequest(20, context ? 1000 : 30, 2);
    const int64_t most = 30;
    for (const SpeculationParams& params : {SpeculationParams{SpeculativeAlgorithm::kEagle3, 7},
                                            {SpeculativeAlgorithm::kEagle3, 20, 4, 4},
                                            {SpeculativeAlgorithm::kDraftModel, 7},
                                            {SpeculativeAlgorithm::kNgram, 7}}) {
      request.speculation = params;
      auto engine = MustCreate(options_);
      const Answer answer = RunRequests(*engine, {request})[0];
      ExpectSameBits(Alone(request), answer, SpeculativeAlgorithmName(params.algorithm));
      EXPECT_EQ(static_cast<int64_t>(answer.tokens.size()), most);
      ExpectCountersOfEvents(answer);
      int64_t before = 0;
      for (const Event& event : answer.events) {
        if (params.top_k == 1) {
          EXPECT_LE(static_cast<int64_t>(event.drafts.size()), std::max<int64_t>(0, most - before - 1));
        }
        if (before == most - 1) {
          EXPECT_TRUE(event.drafts.empty()) << "the last token needs no draft";
        }
        before += static_cast<int64_t>(event.tokens.size());
      }
    }
  }
}

// After the first drafts next to none is accepted: the engine drafts no more, but for a probe now and then.
TEST_F(DraftingTest, AutomaticSpeculationThatTurnsOffDropsItsDrafts) {
  UseRandomHead();
  Request request = MakeRequest(20, 400, 2);
  request.speculation = {SpeculativeAlgorithm::kEagle3, 8, 1, 0, /*automatic=*/true};
  auto engine = MustCreate(options_);
  const Answer answer = RunRequests(*engine, {request})[0];
  ExpectSameBits(Alone(request), answer, "automatic");
  ExpectCountersOfEvents(answer);
  EXPECT_LT(answer.speculation.rounds, 200);
  EXPECT_GT(answer.events.size() - static_cast<size_t>(answer.speculation.rounds), 100u) << "steps without drafts";
}

// The drafter is turned off in the middle of two answers.
TEST_F(DraftingTest, AnswersGoOnWithoutADrafterThatIsTurnedOff) {
  UseRandomHead();
  options_.acceptance_floor = 0.5;
  auto engine = MustCreate(options_);
  const std::vector<Request> requests = {MakeRequest(20, 400, 2, 1), MakeRequest(30, 400, 5, 3)};
  const std::vector<Answer> answers = RunRequests(*engine, requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ExpectSameBits(Alone(requests[i]), answers[i], "request " + std::to_string(i));
    ExpectCountersOfEvents(answers[i]);
    EXPECT_FALSE(answers[i].events[1].drafts.empty());
    EXPECT_TRUE(answers[i].events.back().drafts.empty());
    EXPECT_TRUE(answers[i].events[answers[i].events.size() / 2 + 60].drafts.empty()) << "not only the last token";
  }
  EXPECT_LE(engine->stats().speculation.rounds, 258) << "256 rounds, and those of the same step";
}

// A prompt of several chunks, whose rows are run a few at a time where its logprobs are asked for.
TEST_F(DraftingTest, PromptLogprobsOfALongPromptDoNotDependOnSpeculation) {
  Request request = MakeRequest(700, 6, 3);
  request.prompt_logprobs = 2;
  const Answer expected = Alone(request);
  ASSERT_EQ(expected.prompt.size(), 699u);
  std::vector<Request> requests;
  for (const SpeculationParams& params : {SpeculationParams{SpeculativeAlgorithm::kEagle3, 3},
                                          {SpeculativeAlgorithm::kEagle3, 16, 4, 4},
                                          {SpeculativeAlgorithm::kDraftModel, 3},
                                          {SpeculativeAlgorithm::kSuffix, 5}}) {
    requests.push_back(request);
    requests.back().speculation = params;
  }
  auto engine = MustCreate(options_);
  std::vector<Answer> answers = RunRequests(*engine, requests);
  answers.push_back(RunRequests(*engine, {requests[0]})[0]);
  for (const Answer& answer : answers) {
    ExpectSameBits(expected, answer, "with speculation");
    ASSERT_EQ(answer.prompt.size(), expected.prompt.size());
    for (size_t i = 0; i < answer.prompt.size(); ++i) {
      ASSERT_EQ(answer.prompt[i].logprob, expected.prompt[i].logprob) << i;
      ASSERT_EQ(answer.prompt[i].top.size(), 2u);
      for (size_t j = 0; j < 2; ++j) {
        ASSERT_EQ(answer.prompt[i].top[j].token, expected.prompt[i].top[j].token) << i;
        ASSERT_EQ(answer.prompt[i].top[j].logprob, expected.prompt[i].top[j].logprob) << i;
      }
    }
  }
}

}  // namespace
}  // namespace haast::testing
