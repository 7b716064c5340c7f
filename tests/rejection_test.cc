// Speculative sampling by rejection in the engine: exact in distribution, one answer for a seed whatever runs beside it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "engine/engine_impl.h"
#include "support/chi_square.h"
#include "support/engine_harness.h"
#include "support/tiny_models.h"

namespace haast::testing {
namespace {

using ::testing::HasSubstr;

// A vocabulary so small that all pairs of tokens can be counted.
class SmallVocabulary : public ::testing::Test {
 protected:
  static constexpr int kVocab = 8;

  SmallVocabulary() {
    TinyLlama llama;
    llama.vocab = kVocab;
    TinyEagle3 head;  // of random weights, and of half the vocabulary: it cannot draft what the model often says
    head.target = llama;
    head.draft_vocab = kVocab / 2;
    TinyLlama other = llama;
    other.seed = 5;
    options_.model = WriteTinyGguf(llama, dir_.Join("model.gguf"));
    options_.draft = WriteTinyEagle3(head, dir_.Join("head"));
    options_.draft_model = WriteTinyGguf(other, dir_.Join("other.gguf"));
    options_.threads = 1;
    options_.kv_tokens = 4096;
    options_.max_batch = 64;
    request_.prompt = {1, 5, 2, 7, 3};
    request_.max_tokens = 3;
    request_.sampling.temperature = 3.0f;  // random weights are sure of themselves
  }

  // The model's distribution of the token after the prompt and `more`, from plain logits.
  std::vector<double> Exact(Engine& engine, const std::vector<int32_t>& more) const {
    Request request = request_;
    request.prompt.insert(request.prompt.end(), more.begin(), more.end());
    request.max_tokens = 1;
    request.logprobs = kVocab;
    const Answer answer = RunRequests(engine, {request})[0];
    std::vector<double> p(kVocab);
    double total = 0.0;
    const std::vector<TokenLogprob>& top = answer.events.back().tokens[0].top;
    EXPECT_EQ(top.size(), static_cast<size_t>(kVocab));
    for (size_t i = 0; i < top.size(); ++i) {
      const bool kept = request.sampling.top_k == 0 || static_cast<int>(i) < request.sampling.top_k;
      const double weight = kept ? std::exp(double{top[i].logprob} / double{request.sampling.temperature}) : 0.0;
      p[static_cast<size_t>(top[i].token)] = weight;
      total += weight;
    }
    for (double& each : p) each /= total;
    return p;
  }

  // Of the first three tokens, as a number of three digits to the base kVocab.
  std::vector<double> ExactTriples(Engine& engine) const {
    std::vector<double> triples;
    const std::vector<double> first = Exact(engine, {});
    for (int32_t a = 0; a < kVocab; ++a) {
      const std::vector<double> second = Exact(engine, {a});
      for (int32_t b = 0; b < kVocab; ++b) {
        for (const double third : Exact(engine, {a, b})) {
          triples.push_back(first[static_cast<size_t>(a)] * second[static_cast<size_t>(b)] * third);
        }
      }
    }
    return triples;
  }

  std::vector<int> CountTriples(Engine& engine, int count) const {
    std::vector<int> counts(kVocab * kVocab * kVocab);
    std::vector<Request> requests(static_cast<size_t>(count), request_);
    for (size_t i = 0; i < requests.size(); ++i) requests[i].sampling.seed = i;
    for (const Answer& answer : RunRequests(engine, requests)) {
      size_t cell = 0;
      for (const int32_t token : answer.tokens) cell = cell * kVocab + static_cast<size_t>(token);
      ++counts.at(cell);
    }
    return counts;
  }

  TempDir dir_;
  EngineOptions options_;
  Request request_;
};

// The first token comes from prefill; then a round of one draft (max_tokens leaves room for one) and its bonus token, or two
// rounds. Chi-square at a significance of 1e-4 with at most 511 degrees of freedom (rare triples count as one), fixed seeds.
TEST_F(SmallVocabulary, TriplesOfTokensHaveTheModelsDistribution) {
  auto engine = MustCreate(options_);
  for (const int top_k : {0, 5}) {
    request_.sampling.top_k = top_k;
    request_.speculation = {};
    const std::vector<double> exact = ExactTriples(*engine);
    for (const SpeculativeAlgorithm algorithm : {SpeculativeAlgorithm::kEagle3, SpeculativeAlgorithm::kDraftModel}) {
      request_.speculation = {.algorithm = algorithm, .num_draft_tokens = 2, .sampling = SpeculativeSampling::kRejection};
      const SpeculationStats before = engine->stats().speculation;
      const ChiSquare fit = Compare(CountTriples(*engine, 4000), exact);
      const std::string what = std::string(SpeculativeAlgorithmName(algorithm)) + ", top_k " + std::to_string(top_k);
      EXPECT_TRUE(fit.fits()) << what << ": " << fit.statistic << " above " << fit.critical() << ", " << fit.impossible << " impossible";
      EXPECT_GT(fit.degrees, 50) << what;
      const SpeculationStats after = engine->stats().speculation;
      EXPECT_GT(after.accepted - before.accepted, (after.drafted - before.drafted) / 10) << what << ": drafts are kept";
      EXPECT_LT(after.accepted - before.accepted, (after.drafted - before.drafted) * 9 / 10) << what << ": and replaced";
    }
  }
}

// The same counts against the distribution at another temperature, and with the last two tokens independent of the first.
TEST_F(SmallVocabulary, OtherDistributionsAreToldApart) {
  auto engine = MustCreate(options_);
  request_.speculation = {.algorithm = SpeculativeAlgorithm::kEagle3, .num_draft_tokens = 2, .sampling = SpeculativeSampling::kRejection};
  const std::vector<int> counts = CountTriples(*engine, 4000);
  request_.speculation = {};
  const std::vector<double> first = Exact(*engine, {}), second = Exact(*engine, {3}), third = Exact(*engine, {3, 3});
  std::vector<double> independent;
  for (const double a : first) {
    for (const double b : second) {
      for (const double c : third) independent.push_back(a * b * c);
    }
  }
  EXPECT_FALSE(Compare(counts, independent).fits());
  request_.sampling.temperature = 3.5f;
  EXPECT_FALSE(Compare(counts, ExactTriples(*engine)).fits());
}

// Eight requests of all drafters: of so few tokens that drafts of random weights are often kept.
class RejectionTest : public SmallVocabulary {
 protected:
  RejectionTest() {
    options_.max_batch = 16;
    const SpeculativeAlgorithm algorithms[] = {SpeculativeAlgorithm::kEagle3, SpeculativeAlgorithm::kDraftModel,
                                               SpeculativeAlgorithm::kNgram, SpeculativeAlgorithm::kSuffix};
    for (int i = 0; i < 8; ++i) {
      Request request;
      request.prompt = RandomIds(5 + 13 * i, kVocab, 60 + static_cast<uint64_t>(i));
      request.max_tokens = 60 - 5 * i;
      request.logprobs = 0;
      request.sampling = {.temperature = 3.0f, .top_p = i % 2 == 0 ? 1.0f : 0.9f, .seed = static_cast<uint64_t>(i)};
      if (i % 3 == 2) request.sampling.frequency_penalty = 0.5f;
      request.speculation = {.algorithm = algorithms[i % 4 == 3 ? 2 + i / 4 : i % 2], .num_draft_tokens = 1 + i % 5};
      request.speculation.sampling = SpeculativeSampling::kRejection;
      requests_.push_back(request);
    }
  }

  static Request Plain(Request request) {
    request.speculation = {};
    return request;
  }

  // Each alone, in a large pool without a cache.
  std::vector<Answer> Alone(const std::vector<Request>& requests) {
    EngineOptions options = options_;
    options.prefix_cache = false;
    auto engine = MustCreate(options);
    std::vector<Answer> answers;
    for (const Request& request : requests) answers.push_back(RunRequests(*engine, {request})[0]);
    return answers;
  }

  static void ExpectAll(const std::vector<Answer>& expected, const std::vector<Answer>& actual, const std::string& what) {
    for (size_t i = 0; i < expected.size(); ++i) ExpectSameBits(expected[i], actual[i], what + ", request " + std::to_string(i));
  }

  std::vector<Request> requests_;
};

TEST_F(RejectionTest, TemperatureZeroIsPlainGreedyDecoding) {
  for (Request& request : requests_) request.sampling.temperature = 0.0f;
  std::vector<Request> plain;
  for (const Request& request : requests_) plain.push_back(Plain(request));
  auto engine = MustCreate(options_);
  ExpectAll(Alone(plain), RunRequests(*engine, requests_), "temperature 0");
  EXPECT_GT(engine->stats().speculation.accepted, 0);
}

// Company, chunks, threads, late arrivals, small pools, the prefix cache, both ways of preemption.
TEST_F(RejectionTest, ASeedHasOneAnswer) {
  const std::vector<Answer> expected = Alone(requests_);
  struct Setting {
    int chunk;
    int threads;
    int batch;
    int64_t kv_tokens;
    int page_size;
    Preemption preemption;
  };
  for (const Setting& setting : {Setting{7, 1, 16, 4096, 16, Preemption::kRecompute},
                                 {512, 2, 3, 4096, 16, Preemption::kRecompute},
                                 {30, 1, 16, 160, 16, Preemption::kRecompute},
                                 {30, 1, 16, 160, 1, Preemption::kSwap},
                                 {64, 1, 5, 160, 5, Preemption::kRecompute}}) {
    EngineOptions options = options_;
    options.prefill_chunk = setting.chunk;
    options.threads = setting.threads;
    options.max_batch = setting.batch;
    options.kv_tokens = setting.kv_tokens;
    options.page_size = setting.page_size;
    options.preemption = setting.preemption;
    auto engine = MustCreate(options);
    const std::string what = "chunk " + std::to_string(setting.chunk) + ", page " + std::to_string(setting.page_size);
    ExpectAll(expected, RunRequests(*engine, requests_, {0, 3, 1, 4, 1, 5, 9, 2}), what);
    EXPECT_EQ(engine->stats().preemptions > 0, setting.kv_tokens < 4096) << what;
    if (setting.kv_tokens < 4096) continue;
    ExpectAll(expected, RunRequests(*engine, requests_), what + ", again");
    EXPECT_GT(engine->stats().prefix_hit_tokens, 0);
  }
  // It is not the answer of plain decoding; but what n-gram and suffix draft is certain, and accepted by the coupled rule.
  std::vector<Request> plain;
  for (const Request& request : requests_) plain.push_back(Plain(request));
  const std::vector<Answer> other = Alone(plain);
  EXPECT_NE(expected[0].tokens, other[0].tokens);
  EXPECT_NE(expected[1].tokens, other[1].tokens);
  ExpectSameBits(other[3], expected[3], "n-gram");
  ExpectSameBits(other[7], expected[7], "suffix");
}

// Drafts that were drawn decide how a token is drawn: a request that is computed again drafts for its newest token as it would have.
TEST_F(RejectionTest, AHeadsRequestsGoOnAfterPreemption) {
  const std::vector<Request> requests = {requests_[0], requests_[2], requests_[4], requests_[6]};
  const std::vector<Answer> expected = Alone(requests);
  for (const bool prefix_cache : {false, true}) {
    for (const int page_size : {1, 5}) {
      options_.prefix_cache = prefix_cache;
      options_.page_size = page_size;
      options_.kv_tokens = 130;
      auto engine = MustCreate(options_);
      const std::string what = "page " + std::to_string(page_size) + (prefix_cache ? ", cached" : "");
      ExpectAll(expected, RunRequests(*engine, requests), what);
      EXPECT_GT(engine->stats().preemptions, 1) << what;
    }
  }
}

// Logprobs are those of the model, however a token was drawn: what it says of the same tokens in a prompt.
TEST_F(RejectionTest, LogprobsAreTheModels) {
  Request request = requests_[4];
  const Answer answer = Alone({request})[0];
  EXPECT_GT(answer.speculation.accepted, 0);
  EXPECT_LT(answer.speculation.accepted, answer.speculation.drafted);
  Request told = Plain(request);
  told.prompt.insert(told.prompt.end(), answer.tokens.begin(), answer.tokens.end());
  told.prompt_logprobs = 0;
  told.max_tokens = 1;
  const Answer said = Alone({told})[0];
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    EXPECT_EQ(said.prompt[request.prompt.size() - 1 + i].logprob, answer.logprobs[i]) << i;
  }
}

TEST_F(RejectionTest, ResumedAnswersEqualUninterruptedOnes) {
  for (const size_t i : {0, 1}) {
    const Answer expected = Alone({requests_[i]})[0];
    for (const int steps : {1, 2, 5}) {
      auto first = MustCreate(options_);
      const RequestId id = *first->Submit(requests_[i]);
      std::vector<int32_t> tokens;
      for (int step = 0; step < steps; ++step) first->Step();
      ASSERT_TRUE(first->Save(id, dir_.Join("saved")));
      auto second = MustCreate(options_);
      const auto resumed = second->Resume(dir_.Join("saved"));
      ASSERT_TRUE(resumed) << resumed.error().message;
      EXPECT_EQ(resumed->request.speculation.sampling, SpeculativeSampling::kRejection);
      tokens = resumed->generated;
      while (!second->idle()) {
        for (const Event& event : second->Step()) {
          for (const TokenOutput& token : event.tokens) tokens.push_back(token.token);
        }
      }
      EXPECT_EQ(tokens, expected.tokens) << i << " saved after step " << steps;
    }
  }
}

// A head that is turned off for all others: the answer may not depend on when that is.
TEST_F(RejectionTest, AHeadThatNeverHelpsIsKept) {
  options_.acceptance_floor = 1.0;
  Request coupled = requests_[0];
  coupled.speculation.sampling = SpeculativeSampling::kCoupled;
  const std::vector<Answer> expected = Alone({requests_[0]});
  auto engine = MustCreate(options_);
  const auto disabled = [&] { return !engine->stats().drafters[0].disabled.empty(); };
  for (int i = 0; i < 20 && !disabled(); ++i) RunRequests(*engine, {coupled});
  ASSERT_TRUE(disabled());
  const int64_t drafted = engine->stats().speculation.drafted;
  RunRequests(*engine, {coupled});
  EXPECT_EQ(engine->stats().speculation.drafted, drafted);
  ExpectAll(expected, RunRequests(*engine, {requests_[0]}), "after it was turned off");
  EXPECT_GT(engine->stats().speculation.drafted, drafted);
}

TEST_F(RejectionTest, TreesAndChainsOfAnyLengthAreRefused) {
  auto engine = MustCreate(options_);
  const auto error = [&](const std::function<void(SpeculationParams*)>& change) {
    Request request = requests_[0];
    change(&request.speculation);
    const auto id = engine->Submit(request);
    return id ? "" : id.error().message;
  };
  EXPECT_EQ(error([](SpeculationParams*) {}), "");
  EXPECT_THAT(error([](SpeculationParams* params) { params->top_k = 2; }),
              HasSubstr("chains of a fixed length, but speculation.top_k = 2 makes a tree"));
  EXPECT_THAT(error([](SpeculationParams* params) { params->automatic = true; }), HasSubstr("the length was left to the engine"));
  EXPECT_THAT(error([](SpeculationParams* params) { params->sampling = static_cast<SpeculativeSampling>(2); }),
              HasSubstr("sampling = 2: expected 0 to 1"));
}

}  // namespace
}  // namespace haast::testing
