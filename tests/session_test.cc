// Save and resume: the answer goes on bit for bit, and what must not be mixed is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <functional>
#include <map>

#include "engine/engine_impl.h"
#include "engine/session_file.h"
#include "support/echo_engine.h"
#include "support/engine_harness.h"
#include "support/gguf_writer.h"
#include "support/tiny_models.h"

namespace haast::testing {
namespace {

using ::testing::HasSubstr;

// Ends the answer with the `count`-th token.
class StopAfter final : public TokenConstraint {
 public:
  explicit StopAfter(int count) : count_(count) {}
  void Advance(int32_t) override { ++seen_; }
  void Rollback(int count) override { seen_ -= count; }
  bool finished() const override { return seen_ >= count_; }

 private:
  int count_;
  int seen_ = 0;
};

class SessionTest : public EchoEngine {
 protected:
  SessionTest() {
    options_.draft_model = options_.model;
    options_.kv_tokens = 1024;
    options_.prefix_cache = false;
    request_.prompt = RandomIds(50, 320, 3);
    request_.max_tokens = 30;
    request_.logprobs = 0;
    request_.sampling = {.temperature = 1.0f, .seed = 11};
    request_.speculation = {SpeculativeAlgorithm::kEagle3, 3};
  }

  static void Run(Engine& engine, int steps, Answer* answer) {
    for (int step = 0; step < steps && !engine.idle(); ++step) {
      for (Event& event : engine.Step()) AddEvent(std::move(event), answer);
      const Status invariants = dynamic_cast<engine::EngineImpl&>(engine).CheckInvariants();
      ASSERT_TRUE(invariants) << invariants.error().message;
    }
  }

  std::string SavedAfter(int steps) {
    auto engine = MustCreate(options_);
    const RequestId id = *engine->Submit(request_);
    Answer answer;
    Run(*engine, steps, &answer);
    const std::string path = dir_.Join("saved");
    const Status saved = engine->Save(id, path);
    EXPECT_TRUE(saved) << saved.error().message;
    return path;
  }
  static engine::Session Decoded(const std::string& path) {
    const std::string bytes = ReadFile(path);
    auto session = engine::DecodeSession({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, path);
    EXPECT_TRUE(session);
    return session ? *session : engine::Session();
  }
  std::string ResumeError(Engine& engine, const std::string& path) {
    const auto resumed = engine.Resume(path);
    if (resumed) return "";
    EXPECT_TRUE(engine.idle()) << "nothing of a refused file is left";
    return resumed.error().message;
  }

  Request request_;
};

// Saved before every step of its life, waiting, in the middle of its prompt, decoding; resumed in a new engine.
TEST_F(SessionTest, ResumedAnswersEqualUninterruptedOnes) {
  options_.prefill_chunk = 20;
  request_.sampling.repetition_penalty = 1.2f;
  request_.sampling.frequency_penalty = 0.3f;
  request_.sampling.presence_penalty = -0.2f;
  request_.sampling.logit_bias = {{7, 2.0f}, {8, -3.0f}};
  request_.eos_ids = {9};
  request_.min_tokens = 30;
  request_.prompt_logprobs = 0;
  for (const SpeculativeAlgorithm algorithm :
       {SpeculativeAlgorithm::kNone, SpeculativeAlgorithm::kEagle3, SpeculativeAlgorithm::kDraftModel, SpeculativeAlgorithm::kNgram}) {
    request_.speculation.algorithm = algorithm;
    auto reference = MustCreate(options_);
    const Answer expected = RunRequests(*reference, {request_})[0];
    for (const int steps : {0, 1, 2, 3, 4, 7, 11}) {
      auto first = MustCreate(options_);
      const RequestId id = *first->Submit(request_);
      Answer answer;
      Run(*first, steps, &answer);
      if (first->idle()) break;
      const std::vector<int32_t> before = answer.tokens;
      const Status saved = first->Save(id, dir_.Join("saved"), "a note");
      ASSERT_TRUE(saved) << saved.error().message;
      first.reset();
      auto second = MustCreate(options_);
      const auto resumed = second->Resume(dir_.Join("saved"));
      ASSERT_TRUE(resumed) << resumed.error().message;
      EXPECT_EQ(resumed->generated, before);
      EXPECT_EQ(resumed->note, "a note");
      EXPECT_EQ(resumed->request.prompt, request_.prompt);
      Run(*second, 1000, &answer);
      const std::string what = std::string(SpeculativeAlgorithmName(algorithm)) + " saved after step " + std::to_string(steps);
      ExpectSameBits(expected, answer, what);
      EXPECT_EQ(answer.speculation.rounds, expected.speculation.rounds) << what << ": the drafter's state came with it";
      EXPECT_EQ(answer.speculation.accepted, expected.speculation.accepted) << what;
      EXPECT_EQ(answer.events.back().timings.generated_tokens, 30);
      EXPECT_EQ(answer.events.back().timings.prompt_tokens, 50);
    }
  }
}

// What was accepted of its drafts and how deep its next round drafts come back too.
TEST_F(SessionTest, WhatAutomaticSpeculationLearntComesBack) {
  const auto launch = [](double seconds) { return LaunchCosts{.all_logits = {{1, 64}, {seconds, 1.01 * seconds}}, .one_logit = {}}; };
  StepCosts cheap_drafts{.target = launch(1e-3), .head_step = launch(1e-6), .head_extend = launch(1e-6), .draft_model = launch(1e-6)};
  options_.step_costs = std::make_shared<const StepCosts>(std::move(cheap_drafts));
  request_.speculation = {SpeculativeAlgorithm::kEagle3, 8, 1, 0, /*automatic=*/true};
  for (const int steps : {0, 3, 9}) {
    const engine::Session saved = Decoded(SavedAfter(steps));
    auto engine = MustCreate(options_);
    const auto resumed = engine->Resume(dir_.Join("saved"));
    ASSERT_TRUE(resumed) << resumed.error().message;
    ASSERT_TRUE(engine->Save(resumed->id, dir_.Join("again")));
    const engine::Session again = Decoded(dir_.Join("again"));
    EXPECT_EQ(again.acceptance.tried, saved.acceptance.tried);
    EXPECT_EQ(again.acceptance.accepted, saved.acceptance.accepted);
    EXPECT_EQ(again.planned_depth, saved.planned_depth);
    EXPECT_EQ(saved.acceptance.tried[0] > 0.0, steps > 1);
  }
}

// KV of target and drafter and what the drafter carries: a step after being resumed they are what they are without it.
TEST_F(SessionTest, AResumedStateIsTheUninterruptedOne) {
  for (const SpeculativeAlgorithm algorithm :
       {SpeculativeAlgorithm::kNone, SpeculativeAlgorithm::kEagle3, SpeculativeAlgorithm::kDraftModel}) {
    request_.speculation.algorithm = algorithm;
    const std::vector<uint8_t> uninterrupted = Decoded(SavedAfter(7)).kv_state;
    const std::string path = SavedAfter(6);
    auto engine = MustCreate(options_);
    const auto resumed = engine->Resume(path);
    ASSERT_TRUE(resumed) << resumed.error().message;
    Answer answer;
    Run(*engine, 1, &answer);
    ASSERT_TRUE(engine->Save(resumed->id, dir_.Join("again")));
    EXPECT_FALSE(uninterrupted.empty());
    EXPECT_EQ(Decoded(dir_.Join("again")).kv_state, uninterrupted) << SpeculativeAlgorithmName(algorithm);
  }
}

TEST_F(SessionTest, TheSavedRequestGoesOnAndManyResumeTogether) {
  auto engine = MustCreate(options_);
  const Answer expected = RunRequests(*engine, {request_})[0];
  const RequestId id = *engine->Submit(request_);
  Answer answer;
  Run(*engine, 5, &answer);
  ASSERT_TRUE(engine->Save(id, dir_.Join("saved")));
  const size_t before = answer.tokens.size();
  const auto a = engine->Resume(dir_.Join("saved")), b = engine->Resume(dir_.Join("saved"));
  ASSERT_TRUE(a && b);
  std::map<RequestId, std::vector<int32_t>> tokens = {{id, answer.tokens}, {a->id, a->generated}, {b->id, b->generated}};
  EXPECT_EQ(tokens[a->id].size(), before);
  while (!engine->idle()) {
    for (const Event& event : engine->Step()) {
      for (const TokenOutput& token : event.tokens) tokens[event.request].push_back(token.token);
    }
  }
  for (const auto& [request, list] : tokens) EXPECT_EQ(list, expected.tokens) << request;
}

// Pools and pages of another size; a pool so small that the resumed request is preempted at once; a prefix that is cached.
TEST_F(SessionTest, ResumesInAnotherPool) {
  auto reference = MustCreate(options_);
  const Answer expected = RunRequests(*reference, {request_})[0];
  const std::string path = SavedAfter(6);
  for (const int page_size : {1, 5, 64}) {
    EngineOptions options = options_;
    options.page_size = page_size;
    options.kv_tokens = 128;
    options.prefix_cache = true;
    auto engine = MustCreate(options);
    Request other = request_;
    other.max_tokens = 60;
    ASSERT_TRUE(engine->Submit(other));
    const auto resumed = engine->Resume(path);
    ASSERT_TRUE(resumed) << resumed.error().message;
    std::vector<int32_t> tokens = resumed->generated;
    while (!engine->idle()) {
      for (const Event& event : engine->Step()) {
        if (event.request != resumed->id) continue;
        for (const TokenOutput& token : event.tokens) tokens.push_back(token.token);
      }
    }
    EXPECT_EQ(tokens, expected.tokens) << page_size;
  }
}

TEST_F(SessionTest, AWaitingSwappedRequestIsSavedWithItsKv) {
  options_.preemption = Preemption::kSwap;
  options_.kv_tokens = 128;
  Request first = request_;
  first.max_tokens = 70;
  auto engine = MustCreate(options_);
  const Answer expected = RunRequests(*engine, {request_})[0];
  ASSERT_TRUE(engine->Submit(first));
  const RequestId id = *engine->Submit(request_);
  std::vector<int32_t> tokens;
  while (engine->stats().swaps == 0) {
    for (const Event& event : engine->Step()) {
      if (event.request != id) continue;
      for (const TokenOutput& token : event.tokens) tokens.push_back(token.token);
    }
  }
  ASSERT_TRUE(engine->Save(id, dir_.Join("saved")));
  engine = MustCreate(options_);
  const auto resumed = engine->Resume(dir_.Join("saved"));
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_EQ(resumed->generated, tokens);
  while (!engine->idle()) {
    for (const Event& event : engine->Step()) {
      for (const TokenOutput& token : event.tokens) tokens.push_back(token.token);
    }
  }
  EXPECT_EQ(tokens, expected.tokens);
}

TEST_F(SessionTest, TheConstraintIsMadeAnewFromTheTokens) {
  request_.constraint = std::make_shared<StopAfter>(17);
  const std::string path = SavedAfter(6);
  auto engine = MustCreate(options_);
  EXPECT_THAT(ResumeError(*engine, path), HasSubstr("give it again to resume"));
  const auto early = engine->Resume(path, [](const ResumedRequest&) { return std::make_shared<StopAfter>(2); });
  ASSERT_FALSE(early);
  EXPECT_THAT(early.error().message, HasSubstr("ends the answer before"));
  const auto resumed = engine->Resume(path, [](const ResumedRequest& request) {
    EXPECT_FALSE(request.generated.empty());
    return std::make_shared<StopAfter>(17);
  });
  ASSERT_TRUE(resumed) << resumed.error().message;
  size_t count = resumed->generated.size();
  FinishReason finish = FinishReason::kNone;
  while (!engine->idle()) {
    for (const Event& event : engine->Step()) {
      count += event.tokens.size();
      finish = event.finish;
    }
  }
  EXPECT_EQ(count, 17u);
  EXPECT_EQ(finish, FinishReason::kStop);
}

TEST_F(SessionTest, OnlyRequestsThatRunOrWaitAreSaved) {
  auto engine = MustCreate(options_);
  const RequestId id = *engine->Submit(request_);
  EXPECT_TRUE(engine->Save(id, dir_.Join("queued")));
  while (!engine->idle()) engine->Step();
  const Status finished = engine->Save(id, dir_.Join("finished"));
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, ErrorCode::kNotFound);
  const RequestId again = *engine->Submit(request_);
  const Status nowhere = engine->Save(again, dir_.Join("no/such/folder/file"));
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("no/such/folder/file"));
}

TEST_F(SessionTest, OtherModelsHeadsAndTypesAreRefused) {
  const std::string path = SavedAfter(6);
  const auto error = [&](const std::function<void(EngineOptions*)>& change) {
    EngineOptions options = options_;
    change(&options);
    auto engine = MustCreate(options);
    return ResumeError(*engine, path);
  };
  EXPECT_EQ(error([](EngineOptions*) {}), "");
  llama_.seed = 99;
  const std::string other_model = WriteTinyGguf(llama_, dir_.Join("other.gguf"));
  EXPECT_THAT(error([&](EngineOptions* o) { o->model = other_model, o->draft_model = ""; }), HasSubstr("another model (fingerprint)"));
  head_.seed = 99;
  head_.echo = false;
  const std::string other_head = WriteTinyEagle3(head_, dir_.Join("other_head"));
  EXPECT_THAT(error([&](EngineOptions* o) { o->draft = other_head; }), HasSubstr("another draft head"));
  EXPECT_THAT(error([](EngineOptions* o) { o->draft = ""; }), HasSubstr("here it is 0"));
  EXPECT_THAT(error([](EngineOptions* o) { o->kv_dtype = KvDtype::kF32; }), HasSubstr("another KV type (kv_dtype): F16, here it is F32"));
  EXPECT_THAT(error([](EngineOptions* o) { o->backend = "ref"; }), HasSubstr("another backend: cpu, here it is ref"));
  EXPECT_THAT(error([](EngineOptions* o) { o->draft_quantisation = "none"; }),
              HasSubstr("another draft quantisation (draft_quantisation): auto"));
  EXPECT_THAT(error([](EngineOptions* o) { o->max_context = 70; }), HasSubstr("may have 70 tokens in this context, 80 where it was saved"));
  EXPECT_THAT(error([](EngineOptions* o) { o->kv_tokens = 64; }), HasSubstr("lower max_tokens or raise kv_tokens"));
}

TEST_F(SessionTest, ForgedFieldsAreRefused) {
  const std::string path = SavedAfter(6);
  const std::string good = ReadFile(path);
  auto engine = MustCreate(options_);
  const auto error = [&](const std::function<void(engine::Session*)>& forge) {
    auto session = engine::DecodeSession({reinterpret_cast<const uint8_t*>(good.data()), good.size()}, path);
    EXPECT_TRUE(session);
    forge(&*session);
    const std::vector<uint8_t> bytes = engine::EncodeSession(*session);
    WriteFile(path, std::string(bytes.begin(), bytes.end()));
    return ResumeError(*engine, path);
  };
  using engine::Session;
  EXPECT_THAT(error([](Session* s) { s->origin.build = "0123"; }), HasSubstr("another build of haast: 0123"));
  EXPECT_THAT(error([](Session* s) { s->request.prompt[3] = -7; }), HasSubstr("prompt[3] = -7"));
  EXPECT_THAT(error([](Session* s) { s->generated[0] = 320; }), HasSubstr("outside the vocabulary"));
  EXPECT_THAT(error([](Session* s) { s->generated.resize(100, 1); }), HasSubstr("150 are there"));
  EXPECT_THAT(error([](Session* s) { s->request.speculation.algorithm = static_cast<SpeculativeAlgorithm>(77); }),
              HasSubstr("another draft head"));
  EXPECT_THAT(error([](Session* s) { s->generated.clear(); }), HasSubstr("of which the newest has neither"));
  EXPECT_THAT(error([](Session* s) { s->kv_state.resize(s->kv_state.size() - 1); }), HasSubstr("cut off or malformed"));
  EXPECT_THAT(error([](Session* s) { s->kv_state[8] -= 1; }), HasSubstr("bytes of target and draft KV"));
  // The drafter's state begins with the count of its candidates.
  EXPECT_THAT(error([](Session* s) { s->kv_state[24 + 3] = 0x7f; }), HasSubstr("no state of the request"));
  EXPECT_THAT(error([](Session* s) { s->request.sampling.temperature = -1.0f; }), HasSubstr("temperature"));
  EXPECT_THAT(error([](Session* s) { s->acceptance.accepted[0] = s->acceptance.tried[0] + 1.0; }), HasSubstr("first drafts accepted"));
  EXPECT_THAT(error([](Session* s) { s->acceptance.tried[2] = 1e9; }), HasSubstr("first drafts accepted"));
  EXPECT_THAT(error([](Session* s) { s->acceptance.accepted[3] = NAN; }), HasSubstr("first drafts accepted"));
  EXPECT_THAT(error([](Session* s) { s->planned_depth = 4; }), HasSubstr("a plan of 4 drafts"));
}

TEST_F(SessionTest, DamagedFilesAreRefused) {
  const std::string path = SavedAfter(6);
  const std::string good = ReadFile(path);
  auto engine = MustCreate(options_);
  const auto error = [&](const std::string& bytes) {
    WriteFile(path, bytes);
    return ResumeError(*engine, path);
  };
  EXPECT_THAT(error(""), HasSubstr("expected a saved session"));
  EXPECT_THAT(error("HAASTSES"), HasSubstr("expected a saved session"));
  EXPECT_THAT(error("GGUF" + good), HasSubstr("expected a saved session"));
  EXPECT_THAT(error(good.substr(0, good.size() - 1)), HasSubstr("cut off or grown"));
  EXPECT_THAT(error(good + "x"), HasSubstr("cut off or grown"));
  std::string other = good;
  other[8] = 9;
  EXPECT_THAT(error(other), HasSubstr("version 9, but this build reads version 2"));
  for (const size_t at : {size_t{30}, good.size() / 2, good.size() - 1}) {
    other = good;
    other[at] ^= 0x10;
    EXPECT_THAT(error(other), HasSubstr("damaged: checksum")) << at;
  }
  EXPECT_EQ(error(good), "");
  EXPECT_THAT(ResumeError(*MustCreate(options_), dir_.Join("missing")), HasSubstr("No such file"));
  EXPECT_THAT(ResumeError(*MustCreate(options_), dir_.path()), HasSubstr("expected a regular file"));
}

// The process is killed without warning between two saves of a running request; another process goes on.
TEST_F(SessionTest, ResumesAfterTheProcessWasKilled) {
  auto reference = MustCreate(options_);
  const Answer expected = RunRequests(*reference, {request_})[0];
  reference.reset();  // no thread of it is there when the child begins
  const std::string path = dir_.Join("saved");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto engine = MustCreate(options_);
    const RequestId id = *engine->Submit(request_);
    for (int step = 0; step < 9; ++step) {
      engine->Step();
      if (step % 2 == 0 && !engine->Save(id, path)) _exit(1);
    }
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  auto engine = MustCreate(options_);
  const auto resumed = engine->Resume(path);
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_FALSE(resumed->generated.empty());
  Answer answer;
  answer.tokens = resumed->generated;
  answer.logprobs.assign(expected.logprobs.begin(), expected.logprobs.begin() + static_cast<int64_t>(answer.tokens.size()));
  answer.top.assign(expected.top.begin(), expected.top.begin() + static_cast<int64_t>(answer.tokens.size()));
  Run(*engine, 1000, &answer);
  ExpectSameBits(expected, answer, "after kill -9");
  EXPECT_EQ(answer.speculation.rounds, expected.speculation.rounds);
}

}  // namespace
}  // namespace haast::testing
