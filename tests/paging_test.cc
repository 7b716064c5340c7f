// KV pages found as they are needed: preemption in both modes and the prefix cache change no bit of any answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/engine_impl.h"
#include "support/echo_engine.h"
#include "support/engine_harness.h"
#include "support/tiny_models.h"

namespace haast::testing {
namespace {

class PagingTest : public EchoEngine {
 protected:
  PagingTest() { options_.kv_tokens = 4096; }

  std::vector<Answer> Reference(const std::vector<Request>& requests) {
    std::vector<Answer> answers;
    for (const Request& request : requests) answers.push_back(Alone(request));
    return answers;
  }

  static void ExpectAll(const std::vector<Answer>& expected, const std::vector<Answer>& actual, const std::string& what) {
    for (size_t i = 0; i < expected.size(); ++i) ExpectSameBits(expected[i], actual[i], what + ", request " + std::to_string(i));
  }
};

struct Mode {
  const char* name;
  Preemption preemption;
  bool to_file;
  bool prefix_cache;
};

class PreemptionTest : public PagingTest, public ::testing::WithParamInterface<Mode> {
 protected:
  PreemptionTest() {
    options_.preemption = GetParam().preemption;
    options_.prefix_cache = GetParam().prefix_cache;
    if (GetParam().to_file) options_.swap_directory = dir_.path();
  }
};

// Pools down to the size of the largest request: everybody loses pages several times.
TEST_P(PreemptionTest, AnswersAreThoseOfLoneRequests) {
  for (const int drafts : {0, 5}) {
    std::vector<Request> requests;
    for (int i = 0; i < 6; ++i) requests.push_back(MakeRequest(5 + 13 * i, 60 - 5 * i, 40 + i, i == 3 ? 0 : drafts));
    const std::vector<Answer> expected = Reference(requests);
    for (const int page_size : {1, 7, 16}) {
      EngineOptions options = options_;
      options.page_size = page_size;
      options.kv_tokens = (5 + 13 * 5 + 35 + page_size - 1) / page_size * page_size;
      auto engine = MustCreate(options);
      const std::string what = "drafts " + std::to_string(drafts) + ", page " + std::to_string(page_size);
      ExpectAll(expected, RunRequests(*engine, requests, {0, 0, 1, 1, 2, 3}), what);
      const EngineStats stats = engine->stats();
      EXPECT_GT(stats.preemptions, 0) << what;
      EXPECT_EQ(stats.swaps > 0, GetParam().preemption == Preemption::kSwap) << what;
      EXPECT_EQ(stats.free_pages + stats.cached_pages, stats.total_pages) << what;
      if (!GetParam().prefix_cache) {
        EXPECT_EQ(stats.free_pages, stats.total_pages) << what;
      }
    }
  }
}

TEST_P(PreemptionTest, TheOldestRequestGoesOnAndTheLatestWaits) {
  options_.kv_tokens = 128;
  auto engine = MustCreate(options_);
  const RequestId oldest = *engine->Submit(MakeRequest(40, 80, 2));
  const RequestId latest = *engine->Submit(MakeRequest(60, 60, 4));
  std::vector<RequestId> finished;
  int steps = 0;
  while (!engine->idle()) {
    bool oldest_emitted = false;
    for (const Event& event : engine->Step()) {
      oldest_emitted |= event.request == oldest && event.tokens.size() == 1;
      if (event.finish != FinishReason::kNone) finished.push_back(event.request);
    }
    ++steps;
    EXPECT_TRUE(oldest_emitted || steps > 80) << "step " << steps;
  }
  EXPECT_EQ(finished, (std::vector<RequestId>{oldest, latest}));
  EXPECT_GT(engine->stats().preemptions, 0);
}

TEST_P(PreemptionTest, CancellingAPreemptedRequestLeavesNothing) {
  options_.kv_tokens = 128;
  auto engine = MustCreate(options_);
  ASSERT_TRUE(engine->Submit(MakeRequest(40, 80, 2)));
  const RequestId latest = *engine->Submit(MakeRequest(60, 60, 4, 3));
  while (engine->stats().preemptions == 0) engine->Step();
  engine->Cancel(latest);
  bool cancelled = false;
  while (!engine->idle()) {
    for (const Event& event : engine->Step()) cancelled |= event.request == latest && event.finish == FinishReason::kCancelled;
    ASSERT_TRUE(dynamic_cast<engine::EngineImpl&>(*engine).CheckInvariants());
  }
  EXPECT_TRUE(cancelled);
  EXPECT_EQ(engine->stats().free_pages + engine->stats().cached_pages, engine->stats().total_pages);
}

// The head lags behind a prompt that is still being read. Where such a request loses its pages, those that its twin left reach beyond what
// it kept, and what waited for the head is read again.
TEST_P(PreemptionTest, APromptHalfReadGoesOnWithThePagesOfItsTwin) {
  const Request twin = MakeRequest(60, 50, 4, 3);
  const Answer expected = Alone(twin);
  options_.page_size = 1;
  options_.kv_tokens = 2 * (60 + 1 + 3) + 4;
  for (const int chunk : {3, 6, 10}) {
    options_.prefill_chunk = chunk;
    auto engine = MustCreate(options_);
    const std::string what = "chunk " + std::to_string(chunk);
    ExpectAll({expected, expected}, RunRequests(*engine, {twin, twin}), what);
    EXPECT_GT(engine->stats().preemptions, 0) << what;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, PreemptionTest,
                         ::testing::Values(Mode{"recompute", Preemption::kRecompute, false, false},
                                           Mode{"recompute_cached", Preemption::kRecompute, false, true},
                                           Mode{"swap", Preemption::kSwap, false, false},
                                           Mode{"swap_cached", Preemption::kSwap, false, true},
                                           Mode{"swap_file", Preemption::kSwap, true, false}),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_F(PagingTest, WhatDoesNotFitTheSwapSpaceIsComputedAgain) {
  options_.preemption = Preemption::kSwap;
  options_.swap_bytes = 1;
  options_.kv_tokens = 128;
  const std::vector<Request> requests = {MakeRequest(40, 80, 2), MakeRequest(60, 60, 4, 3)};
  auto engine = MustCreate(options_);
  ExpectAll(Reference(requests), RunRequests(*engine, requests), "one byte of swap space");
  EXPECT_GT(engine->stats().preemptions, 0);
  EXPECT_EQ(engine->stats().swaps, 0);
  options_.swap_bytes = 0;
  options_.swap_directory = dir_.Join("missing");
  engine = MustCreate(options_);
  ExpectAll(Reference(requests), RunRequests(*engine, requests), "no folder");
  EXPECT_EQ(engine->stats().swaps, 0);
}

TEST_F(PagingTest, ALoneRequestMayFillThePool) {
  for (const int drafts : {0, 7}) {
    options_.kv_tokens = 64;
    auto engine = MustCreate(options_);
    const std::vector<Request> requests = {MakeRequest(20, 44, 2, drafts)};
    for (int i = 0; i < 2; ++i) ExpectAll(Reference(requests), RunRequests(*engine, requests), "exactly the pool");
    EXPECT_EQ(engine->stats().preemptions, 0);
  }
}

// A: 10 + 30 tokens with 7 drafts; B: 33 + 4 tokens. Four pages of 16. Without drafts nobody is preempted: A needs its second
// page in its 7th step, when B is gone. Before that A's drafts must do with the rest of its first page.
TEST_F(PagingTest, DraftsTakePagesFromNobody) {
  TinyEagle3 head;  // of random weights: hardly anything is accepted
  head.target = llama_;
  options_.draft = WriteTinyEagle3(head, dir_.Join("random_head"));
  options_.kv_tokens = 64;
  const std::vector<Request> requests = {MakeRequest(10, 30, 2, 7), MakeRequest(33, 4, 4)};
  auto engine = MustCreate(options_);
  const std::vector<Answer> answers = RunRequests(*engine, requests);
  ExpectAll(Reference(requests), answers, "drafts in a full pool");
  EXPECT_EQ(engine->stats().preemptions, 0);
  ASSERT_LT(answers[0].speculation.accepted, 3);
  EXPECT_EQ(answers[0].events[1].drafts.size(), 5u) << "11 tokens of 16";
  EXPECT_EQ(answers[0].events[2].drafts.size(), 4u);
  EXPECT_EQ(answers[0].events[9].drafts.size(), 7u) << "when B is gone";
}

TEST_F(PagingTest, WarmAnswersEqualColdOnes) {
  for (const int drafts : {0, 4}) {
    for (const int length : {1, 15, 16, 17, 31, 32, 33, 34, 100}) {
      auto engine = MustCreate(options_);
      const Request request = MakeRequest(length, 20, 100 + length, drafts);
      const std::vector<Answer> expected = Reference({request});
      ExpectAll(expected, RunRequests(*engine, {request}), "cold");
      EXPECT_EQ(engine->stats().prefix_hit_tokens, 0);
      const std::vector<Answer> warm = RunRequests(*engine, {request});
      ExpectAll(expected, warm, "warm, length " + std::to_string(length));
      const int64_t hit = (length - 1) / 16 * 16;
      EXPECT_EQ(warm[0].events.back().timings.cached_prompt_tokens, hit) << length;
      EXPECT_EQ(engine->stats().prefix_hit_tokens, hit);
    }
  }
}

// Prompts that part from a cached one at every position around page borders, the token after a page included.
TEST_F(PagingTest, PartialHitsAroundPageBorders) {
  for (const int drafts : {0, 4}) {
    const Request base = MakeRequest(50, 12, 6, drafts);
    auto engine = MustCreate(options_);
    RunRequests(*engine, {base});
    for (const int at : {0, 1, 14, 15, 16, 17, 31, 32, 33, 47, 48, 49}) {
      Request request = base;
      request.prompt[at] = (request.prompt[at] + 1) % 320;
      const std::vector<Answer> answers = RunRequests(*engine, {request});
      ExpectAll(Reference({request}), answers, "parting at " + std::to_string(at));
      EXPECT_EQ(answers[0].events.back().timings.cached_prompt_tokens, at == 0 ? 0 : (at - 1) / 16 * 16) << at;
    }
  }
}

TEST_F(PagingTest, PlainRequestsReadDraftedPagesAndNotTheOtherWayRound) {
  const Request drafted = MakeRequest(50, 12, 6, 4);
  const std::vector<Answer> expected = Reference({drafted});
  const auto hit = [&](Engine& engine, const Request& request) {
    const std::vector<Answer> answers = RunRequests(engine, {request});
    ExpectAll(expected, answers, "mixed");
    return answers[0].events.back().timings.cached_prompt_tokens;
  };
  auto engine = MustCreate(options_);
  EXPECT_EQ(hit(*engine, Plain(drafted)), 0);
  EXPECT_EQ(hit(*engine, drafted), 0) << "their draft entries were never written";
  EXPECT_EQ(hit(*engine, drafted), 48);
  EXPECT_EQ(hit(*engine, Plain(drafted)), 48);
}

TEST_F(PagingTest, ASecondTurnFindsTheAnswerOfTheFirst) {
  for (const int drafts : {0, 4}) {
    auto engine = MustCreate(options_);
    Request turn = MakeRequest(40, 30, 8, drafts);
    const Answer first = RunRequests(*engine, {turn})[0];
    turn.prompt.insert(turn.prompt.end(), first.tokens.begin(), first.tokens.end());
    const std::vector<int32_t> more = RandomIds(9, 320, 77);
    turn.prompt.insert(turn.prompt.end(), more.begin(), more.end());
    const std::vector<Answer> second = RunRequests(*engine, {turn});
    ExpectAll(Reference({turn}), second, "second turn");
    // The last tokens of the first turn have no KV, or no draft entries, when it ends.
    EXPECT_GE(second[0].events.back().timings.cached_prompt_tokens, drafts > 0 ? 48 : 64);
  }
}

TEST_F(PagingTest, ConcurrentRequestsShareThePagesOfTheirPrefix) {
  for (const int drafts : {0, 4}) {
    auto engine = MustCreate(options_);
    const std::vector<Request> requests(5, MakeRequest(100, 20, 8, drafts));
    for (const Request& request : requests) ASSERT_TRUE(engine->Submit(request));
    engine->Step();
    // Computed by each, kept once: 6 full pages and for each a page of its own (or two where drafts reach further).
    const EngineStats stats = engine->stats();
    EXPECT_LE(stats.total_pages - stats.free_pages, 6 + 5 * 2);
    while (!engine->idle()) engine->Step();
    const std::vector<Answer> expected = Reference({requests[0]});
    for (const Answer& answer : RunRequests(*engine, requests, {0, 1, 2, 3, 10})) ExpectSameBits(expected[0], answer, "shared");
  }
}

TEST_F(PagingTest, CancellingOneOfTwoThatShare) {
  auto engine = MustCreate(options_);
  const Request request = MakeRequest(70, 20, 8, 4);
  const std::vector<Answer> expected = Reference({request});
  RunRequests(*engine, {request});
  const RequestId cancelled = *engine->Submit(request);
  const RequestId kept = *engine->Submit(request);
  engine->Step();
  engine->Step();
  engine->Cancel(cancelled);
  Answer answer;
  while (!engine->idle()) {
    for (const Event& event : engine->Step()) {
      if (event.request != kept || event.finish == FinishReason::kNone) continue;
      EXPECT_EQ(event.timings.cached_prompt_tokens, 64);
    }
    ASSERT_TRUE(dynamic_cast<engine::EngineImpl&>(*engine).CheckInvariants());
  }
  ExpectAll(expected, RunRequests(*engine, {request}), "after a cancelled sharer");
}

TEST_F(PagingTest, CachedPagesMakeRoomBeforeAnyoneIsPreempted) {
  options_.kv_tokens = 256;
  auto engine = MustCreate(options_);
  for (uint64_t seed = 0; seed < 12; ++seed) {
    const std::vector<Request> requests = {MakeRequest(60, 20, 200 + seed % 7, 4)};
    ExpectAll(Reference(requests), RunRequests(*engine, requests), "under pressure");
  }
  EXPECT_GT(engine->stats().prefix_evictions, 10);
  EXPECT_EQ(engine->stats().preemptions, 0);
  EXPECT_LE(engine->stats().cached_pages, 16);
}

}  // namespace
}  // namespace haast::testing
