// The engine's behaviour: ends of answers inside accepted runs, cancelling, admission by free pages, refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <thread>

#include "support/echo_engine.h"
#include "support/engine_harness.h"
#include "support/tiny_gguf.h"
#include "support/tiny_models.h"

namespace haast::testing {
namespace {

// Ends with the first appearance of `token`.
class StopAtToken final : public TokenConstraint {
 public:
  explicit StopAtToken(int32_t token) : token_(token) {}
  void Advance(int32_t token) override {
    EXPECT_FALSE(finished()) << "a token after the end";
    seen_.push_back(token);
  }
  void Rollback(int count) override { seen_.resize(seen_.size() - static_cast<size_t>(count)); }
  bool finished() const override { return !seen_.empty() && seen_.back() == token_; }
  const std::vector<int32_t>& seen() const { return seen_; }

 private:
  int32_t token_;
  std::vector<int32_t> seen_;
};

// Allows even ids only, so that masking inside a draft run is seen.
class EvenOnly final : public TokenConstraint {
 public:
  bool NeedsMask() const override { return true; }
  void Mask(std::span<float> logits) override {
    for (size_t i = 1; i < logits.size(); i += 2) logits[i] = -INFINITY;
  }
  void Advance(int32_t) override {}
  void Rollback(int) override {}
  bool finished() const override { return false; }
};

class EngineTest : public EchoEngine {
 protected:
  EngineTest() : EchoEngine(0.05f) {  // repeats its last token nearly always: the head's drafts are accepted
    options_.kv_tokens = 1024;
    request_.prompt = RandomIds(20, 150, 3);
    request_.prompt.back() = static_cast<int32_t>(TinyDraftToTarget(head_)[40]);  // what is repeated, and can be drafted
    request_.max_tokens = 40;
    request_.logprobs = 2;
  }

  Request Drafted(int drafts = 4) const {
    Request request = request_;
    request.speculation = {SpeculativeAlgorithm::kEagle3, drafts};
    return request;
  }

  Request request_;
};

TEST_F(EngineTest, AcceptsEchoDraftsAndCountsThem) {
  auto engine = MustCreate(options_);
  const Answer plain = RunRequests(*engine, {request_})[0];
  const Answer drafted = RunRequests(*engine, {Drafted()})[0];
  ExpectSameBits(plain, drafted, "chain of 4");
  const SpeculationStats& stats = drafted.speculation;
  EXPECT_GT(stats.tau(), 2.0);
  EXPECT_EQ(stats.emitted, stats.accepted + stats.rounds);
  // The token that prefill samples belongs to no round, and neither does the last one where nothing can be drafted.
  EXPECT_GE(stats.emitted + 2, 40);
  EXPECT_LE(stats.emitted + 1, 40);
  int64_t by_position = 0;
  for (int64_t count : stats.accepted_at) by_position += count;
  EXPECT_EQ(by_position, stats.accepted);
  ASSERT_EQ(stats.accepted_at.size(), 4u);
  EXPECT_GE(stats.accepted_at[0], stats.accepted_at[3]);
  EXPECT_EQ(plain.speculation.rounds, 0);
}

TEST_F(EngineTest, LengthLimitInsideAnAcceptedRun) {
  auto engine = MustCreate(options_);
  for (int64_t max_tokens = 1; max_tokens <= 12; ++max_tokens) {
    request_.max_tokens = max_tokens;
    const Answer plain = RunRequests(*engine, {request_})[0];
    const Answer drafted = RunRequests(*engine, {Drafted(7)})[0];
    EXPECT_EQ(plain.finish, FinishReason::kLength);
    EXPECT_EQ(static_cast<int64_t>(drafted.tokens.size()), max_tokens);
    ExpectSameBits(plain, drafted, "max_tokens " + std::to_string(max_tokens));
  }
}

TEST_F(EngineTest, NothingIsEmittedOrCountedAfterEos) {
  auto engine = MustCreate(options_);
  const Answer free_run = RunRequests(*engine, {request_})[0];
  for (size_t at = 0; at < 12; ++at) {
    // An id's first appearance ends the answer.
    const int32_t eos = free_run.tokens[at];
    request_.eos_ids = {-5, eos};
    const Answer plain = RunRequests(*engine, {request_})[0];
    const Answer drafted = RunRequests(*engine, {Drafted(7)})[0];
    EXPECT_EQ(plain.finish, FinishReason::kStop);
    EXPECT_EQ(drafted.tokens.back(), eos);
    ExpectSameBits(plain, drafted, "eos at " + std::to_string(at));
    EXPECT_LE(drafted.speculation.emitted + 1, static_cast<int64_t>(drafted.tokens.size()));
  }
}

TEST_F(EngineTest, AStopWinsOverTheLengthLimitOfTheSameToken) {
  auto engine = MustCreate(options_);
  const Answer free_run = RunRequests(*engine, {request_})[0];
  request_.eos_ids = {free_run.tokens[0]};
  request_.max_tokens = 1;
  EXPECT_EQ(RunRequests(*engine, {Drafted()})[0].finish, FinishReason::kStop);
}

TEST_F(EngineTest, AConstraintSeesEveryEmittedTokenAndNoOther) {
  auto engine = MustCreate(options_);
  const Answer free_run = RunRequests(*engine, {request_})[0];
  for (size_t at : {0, 3, 7}) {
    Request request = Drafted(5);
    auto stop = std::make_shared<StopAtToken>(free_run.tokens[at]);
    request.constraint = stop;
    const Answer answer = RunRequests(*engine, {request})[0];
    EXPECT_EQ(answer.finish, FinishReason::kStop);
    EXPECT_EQ(stop->seen(), answer.tokens);
  }
}

TEST_F(EngineTest, MasksActAtEveryPositionOfADraftRun) {
  auto engine = MustCreate(options_);
  request_.constraint = std::make_shared<EvenOnly>();
  for (float temperature : {0.0f, 1.0f}) {
    request_.sampling.temperature = temperature;
    const Answer plain = RunRequests(*engine, {request_})[0];
    const Answer drafted = RunRequests(*engine, {Drafted()})[0];
    for (int32_t token : plain.tokens) EXPECT_EQ(token % 2, 0);
    ExpectSameBits(plain, drafted, "masked");
  }
}

// At temperature 100 head and target both draw nearly evenly: with one noise at each position they draw the same tokens, with
// different noise, or that of another position, one of 320.
TEST_F(EngineTest, DraftsRaceWithTheNoiseOfTheirPosition) {
  TinyEagle3 head;
  head.target = llama_;
  head.draft_vocab = 0;
  options_.draft = WriteTinyEagle3(head, dir_.Join("full_head"));
  auto engine = MustCreate(options_);
  request_.sampling.temperature = 100.0f;
  const Answer plain = RunRequests(*engine, {request_})[0];
  for (int drafts = 1; drafts <= 7; ++drafts) {
    const Answer drafted = RunRequests(*engine, {Drafted(drafts)})[0];
    ExpectSameBits(plain, drafted, "coupled");
    for (int i = 0; i < drafts; ++i) EXPECT_GE(drafted.speculation.accepted_at[i], drafted.speculation.rounds / 2) << drafts << ", " << i;
  }
}

TEST_F(EngineTest, LogprobsAreRawAndSorted) {
  auto engine = MustCreate(options_);
  request_.sampling.temperature = 0.7f;
  const Answer answer = RunRequests(*engine, {Drafted()})[0];
  for (const Event& event : answer.events) {
    for (const TokenOutput& token : event.tokens) {
      ASSERT_EQ(token.top.size(), 2u);
      EXPECT_GE(token.top[0].logprob, token.top[1].logprob);
      EXPECT_LE(token.logprob, token.top[0].logprob);
      EXPECT_LE(token.logprob, 0.0f);
    }
  }
}

// A bias or a mask changes what is drawn, not what is reported of the model.
TEST_F(EngineTest, LogprobsAreThoseBeforeEdits) {
  auto engine = MustCreate(options_);
  const TokenOutput plain = RunRequests(*engine, {request_})[0].events[0].tokens[0];
  Request biased = request_;
  const int32_t forced = plain.top[0].token == 7 ? 8 : 7;
  biased.sampling.logit_bias = {{forced, 100.0f}};
  const TokenOutput token = RunRequests(*engine, {biased})[0].events[0].tokens[0];
  EXPECT_EQ(token.token, forced);
  EXPECT_LT(token.logprob, token.top[1].logprob) << "with its bias it would be the most likely token";
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(token.top[i].token, plain.top[i].token);
    EXPECT_EQ(token.top[i].logprob, plain.top[i].logprob);
  }
}

// What the target says of each prompt token is what it says of that token when it generates it.
TEST_F(EngineTest, PromptLogprobsAreThoseOfTheTarget) {
  auto engine = MustCreate(options_);
  const Answer generated = RunRequests(*engine, {request_})[0];
  Request request = request_;
  request.prompt.insert(request.prompt.end(), generated.tokens.begin(), generated.tokens.end());
  request.prompt_logprobs = 3;
  request.max_tokens = 1;
  const Answer answer = RunRequests(*engine, {request})[0];
  ASSERT_EQ(answer.prompt.size(), request.prompt.size() - 1);
  for (size_t i = 0; i < answer.prompt.size(); ++i) {
    EXPECT_EQ(answer.prompt[i].token, request.prompt[i + 1]);
    EXPECT_EQ(answer.prompt[i].top.size(), 3u);
    const size_t prompt = request_.prompt.size() - 1;
    if (i >= prompt) {
      EXPECT_EQ(answer.prompt[i].logprob, generated.logprobs[i - prompt]);
    }
  }
  request.prompt = {5};
  EXPECT_TRUE(RunRequests(*engine, {request})[0].prompt.empty()) << "nothing comes before the first token";
}

TEST_F(EngineTest, MinTokensHoldTheEndBack) {
  auto engine = MustCreate(options_);
  request_.eos_ids = {RunRequests(*engine, {request_})[0].tokens[0]};
  EXPECT_EQ(RunRequests(*engine, {request_})[0].tokens.size(), 1u);
  request_.min_tokens = 5;
  const Answer plain = RunRequests(*engine, {request_})[0];
  EXPECT_GE(plain.tokens.size(), 6u);
  ExpectSameBits(plain, RunRequests(*engine, {Drafted()})[0], "drafted");
}

TEST_F(EngineTest, CancelsWaitingAndRunningRequests) {
  options_.max_batch = 1;
  auto engine = MustCreate(options_);
  const RequestId running = *engine->Submit(Drafted());
  const RequestId waiting = *engine->Submit(Drafted());
  engine->Step();
  engine->Step();
  engine->Cancel(waiting);
  engine->Cancel(running);
  engine->Cancel(12345);  // unknown: ignored
  std::vector<Event> events = engine->Step();
  ASSERT_EQ(events.size(), 2u);
  for (const Event& event : events) EXPECT_EQ(event.finish, FinishReason::kCancelled);
  EXPECT_TRUE(engine->idle());
  EXPECT_EQ(engine->stats().free_pages + engine->stats().cached_pages, engine->stats().total_pages);
}

TEST_F(EngineTest, SubmitAndCancelFromOtherThreads) {
  auto engine = MustCreate(options_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        const auto id = engine->Submit(t % 2 == 0 ? request_ : Drafted(1 + i % 7));
        ASSERT_TRUE(id);
        if (i % 3 == 0) engine->Cancel(*id);
      }
    });
  }
  int finished = 0;
  while (finished < 80) {
    for (const Event& event : engine->Step()) finished += event.finish != FinishReason::kNone;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(engine->idle());
  EXPECT_EQ(engine->stats().free_pages + engine->stats().cached_pages, engine->stats().total_pages);
}

TEST_F(EngineTest, AdmissionWaitsForPagesFirstComeFirstServed) {
  options_.kv_tokens = 128;  // 8 pages of 16: two requests of 60 tokens
  auto engine = MustCreate(options_);
  std::vector<Request> requests(5, Drafted());
  const std::vector<Answer> answers = RunRequests(*engine, requests);
  for (const Answer& answer : answers) EXPECT_EQ(answer.tokens, answers[0].tokens);
}

TEST_F(EngineTest, RefusesWhatCanNeverRunAndHarmsNobody) {
  options_.kv_tokens = 128;
  auto engine = MustCreate(options_);
  struct Bad {
    const char* expected;
    std::function<void(Request*)> change;
  };
  const Bad bads[] = {
      {"prompt is empty", [](Request* r) { r->prompt.clear(); }},
      {"prompt has 5000 tokens", [](Request* r) { r->prompt = RandomIds(5000, 100, 1); }},
      {"prompt[1] = 320 is outside the vocabulary of 320", [](Request* r) { r->prompt[1] = 320; }},
      {"prompt[0] = -1", [](Request* r) { r->prompt[0] = -1; }},
      {"max_tokens = 0", [](Request* r) { r->max_tokens = 0; }},
      {"max_tokens = -9223372036854775808", [](Request* r) { r->max_tokens = INT64_MIN; }},
      {"logprobs = 21", [](Request* r) { r->logprobs = 21; }},
      {"prompt_logprobs = -2: expected -1 (none) to 20", [](Request* r) { r->prompt_logprobs = -2; }},
      {"min_tokens = 41: expected 0 to max_tokens, which is 40", [](Request* r) { r->min_tokens = 41; }},
      {"min_tokens = -1", [](Request* r) { r->min_tokens = -1; }},
      {"logit_bias of token 320 is 1", [](Request* r) { r->sampling.logit_bias = {{320, 1.0f}}; }},
      {"= 64: expected 1 to 63", [](Request* r) { r->speculation = {SpeculativeAlgorithm::kEagle3, 64}; }},
      {"= 0: expected 1 to 63", [](Request* r) { r->speculation = {SpeculativeAlgorithm::kEagle3, 0}; }},
      {"temperature", [](Request* r) { r->sampling.temperature = NAN; }},
      {"KV pages", [](Request* r) { r->max_tokens = 500; }},
      {"KV pages", [](Request* r) { r->max_tokens = INT64_MAX; }},
  };
  const RequestId good = *engine->Submit(request_);
  engine->Step();
  for (const Bad& bad : bads) {
    Request request = request_;
    bad.change(&request);
    const auto id = engine->Submit(request);
    ASSERT_FALSE(id) << bad.expected;
    EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(id.error().message.find(bad.expected), std::string::npos) << id.error().message;
  }
  int64_t tokens = 0;
  while (!engine->idle()) {
    for (const Event& event : engine->Step()) {
      EXPECT_EQ(event.request, good);
      tokens = event.timings.generated_tokens;
    }
  }
  EXPECT_EQ(tokens, 40);
}

// Acceptance far under the floor: said once, with a code and the numbers, and nothing is drafted any more. Other drafters go on.
TEST_F(EngineTest, AHeadThatNeverHelpsIsTurnedOff) {
  TinyEagle3 random;
  random.target = llama_;
  options_.draft = WriteTinyEagle3(random, dir_.Join("random"));
  options_.acceptance_floor = 0.5;
  auto engine = MustCreate(options_);
  const Answer plain = RunRequests(*engine, {request_})[0];
  std::string disabled;
  for (int i = 0; i < 12 && disabled.empty(); ++i) {
    ExpectSameBits(plain, RunRequests(*engine, {Drafted(1)})[0], "before and after");
    for (const DrafterStats& drafter : engine->stats().drafters) {
      if (drafter.name == "eagle3") disabled = drafter.disabled;
    }
  }
  EXPECT_TRUE(disabled.starts_with("low_acceptance: the first draft was accepted in ")) << disabled;
  const int64_t drafted = engine->stats().speculation.drafted;
  ExpectSameBits(plain, RunRequests(*engine, {Drafted(3)})[0], "turned off");
  EXPECT_EQ(engine->stats().speculation.drafted, drafted);
  Request lookup = request_;
  lookup.speculation = {SpeculativeAlgorithm::kNgram, 3};
  ExpectSameBits(plain, RunRequests(*engine, {lookup})[0], "n-gram drafts");
  EXPECT_GT(engine->stats().speculation.drafted, drafted);
}

TEST_F(EngineTest, WithoutAHeadSpeculationIsRefused) {
  options_.draft.clear();
  auto engine = MustCreate(options_);
  const auto id = engine->Submit(Drafted());
  ASSERT_FALSE(id);
  EXPECT_NE(id.error().message.find("has not loaded an EAGLE-3 head"), std::string::npos);
  EXPECT_EQ(RunRequests(*engine, {request_})[0].tokens.size(), 40u);
}

TEST_F(EngineTest, RunsToTheEndOfTheContext) {
  options_.max_context = 64;
  auto engine = MustCreate(options_);
  request_.max_tokens = 1000;
  const Answer plain = RunRequests(*engine, {request_})[0];
  const Answer drafted = RunRequests(*engine, {Drafted(7)})[0];
  EXPECT_EQ(plain.finish, FinishReason::kLength);
  EXPECT_EQ(plain.tokens.size(), 44u);  // 20 + 44 = 64
  ExpectSameBits(plain, drafted, "to the end of the context");
}

TEST_F(EngineTest, OptionsOutOfRangeAreErrors) {
  auto expect_error = [&](const char* text, const std::function<void(EngineOptions*)>& change) {
    EngineOptions options = options_;
    change(&options);
    const auto engine = Engine::Create(options);
    ASSERT_FALSE(engine) << text;
    EXPECT_NE(engine.error().message.find(text), std::string::npos) << engine.error().message;
  };
  expect_error("threads = -1", [](EngineOptions* o) { o->threads = -1; });
  expect_error("page_size = 0", [](EngineOptions* o) { o->page_size = 0; });
  expect_error("max_batch = 0", [](EngineOptions* o) { o->max_batch = 0; });
  expect_error("prefill_chunk = 0", [](EngineOptions* o) { o->prefill_chunk = 0; });
  expect_error("max_context = 5000: expected 0 to 4096", [](EngineOptions* o) { o->max_context = 5000; });
  expect_error("acceptance_floor = 1.5: expected 0 to 1", [](EngineOptions* o) { o->acceptance_floor = 1.5; });
  expect_error("backend 'gpu'", [](EngineOptions* o) { o->backend = "gpu"; });
  expect_error("draft_quantisation 'q2'", [](EngineOptions* o) { o->draft_quantisation = "q2"; });
  expect_error("no/such/file", [](EngineOptions* o) { o->model = "no/such/file"; });
  expect_error("no/such/head", [](EngineOptions* o) { o->draft = "no/such/head"; });
  expect_error("lower kv_tokens", [](EngineOptions* o) { o->kv_tokens = (int64_t{1} << 31) - 4096; });
}

// Weights of large models take long to load; this file has none of its last layer, so that loading would fail.
TEST_F(EngineTest, APoolBeyondTheMachineIsRefusedBeforeWeightsAreLoaded) {
  GgufWriter writer = MakeTinyGguf(llama_);
  std::erase_if(writer.tensors(), [](const GgufTensor& tensor) { return tensor.name == "blk.1.ffn_down.weight"; });
  WriteFile(options_.model, writer.Bytes());
  const auto message = [&] { return Engine::Create(options_).error().message; };
  EXPECT_NE(message().find("down_proj"), std::string::npos) << message();
  options_.kv_tokens = (int64_t{1} << 31) - 4096;
  EXPECT_NE(message().find("lower kv_tokens, or keep KV as f16 (kv_dtype)"), std::string::npos) << message();
}

}  // namespace
}  // namespace haast::testing
