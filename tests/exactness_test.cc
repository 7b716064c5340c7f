// The promise: tokens and logprob bits do not depend on speculation, batch mates, chunking or threads. Random tiny models;
// contexts past 600 tokens and prefill chunks of 64 rows and more, below which an inexact engine can pass by accident.
#include <gtest/gtest.h>

#include "support/engine_harness.h"
#include "support/tiny_models.h"

namespace haast::testing {
namespace {

struct Case {
  const char* name;
  TinyLlama llama;
  TinyEagle3 head;
  int page_size = 16;
  KvDtype kv_dtype = KvDtype::kF16;
};

TinyEagle3 EchoHead(const TinyLlama& llama) {
  TinyEagle3 head;
  head.target = llama;
  head.hidden = llama.hidden;
  head.heads = llama.heads;
  head.kv_heads = llama.kv_heads;
  head.head_dim = llama.head_dim;
  head.draft_vocab = llama.vocab / 2;
  head.echo = true;
  return head;
}

// Tied models of small layers repeat themselves now and then, so that the echo head has drafts accepted and rejected.
TinyLlama Repeating(int heads, int kv_heads, int head_dim, int vocab) {
  TinyLlama llama;
  llama.heads = heads;
  llama.kv_heads = kv_heads;
  llama.head_dim = head_dim;
  llama.vocab = vocab;
  llama.tied = true;
  llama.layer_scale = 0.4f;
  return llama;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  TinyLlama base = Repeating(4, 2, 16, 320);
  cases.push_back({"echo", base, EchoHead(base), 16});

  TinyLlama quantised = Repeating(4, 1, 32, 512);
  quantised.dtype = DType::kQ4_1;
  quantised.embedding_dtype = DType::kQ8_0;
  quantised.hidden = 128;
  quantised.intermediate = 192;
  TinyEagle3 quantised_head = EchoHead(quantised);
  quantised_head.norm_output = true;
  quantised_head.fc_norm = true;
  cases.push_back({"q4_1_one_kv_head", quantised, quantised_head, 7});

  TinyLlama wide = Repeating(2, 2, 80, 300);
  wide.attention_bias = true;
  wide.dtype = DType::kBF16;
  cases.push_back({"head_dim_80_page_1", wide, EchoHead(wide), 1, KvDtype::kF32});

  TinyLlama groups = Repeating(8, 1, 8, 1000);
  groups.dtype = DType::kQ8_0;
  groups.llama3_rope = true;
  cases.push_back({"group_8_page_64", groups, EchoHead(groups), 64});

  // A head of random weights: wrong drafts change nothing but speed.
  TinyLlama plain;
  plain.layers = 3;
  TinyEagle3 random_head;
  random_head.target = plain;
  random_head.norm_before_residual = true;
  cases.push_back({"random_head", plain, random_head, 16});
  return cases;
}

class Exactness : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    options_.model = WriteTinyGguf(GetParam().llama, dir_.Join("model.gguf"));
    options_.draft = WriteTinyEagle3(GetParam().head, dir_.Join("head"));
    options_.page_size = GetParam().page_size;
    options_.kv_dtype = GetParam().kv_dtype;
    options_.threads = 2;
    options_.prefix_cache = false;  // every prompt is computed, in chunks of every size (paging_test.cc has the cache on)
    const int vocab = GetParam().llama.vocab;
    const int lengths[] = {5, 64, 131, 610, 1, 33};
    for (size_t i = 0; i < std::size(lengths); ++i) {
      Request request;
      request.prompt = RandomIds(lengths[i], vocab, 100 + i);
      request.max_tokens = 24;
      request.logprobs = 0;
      request.sampling.temperature = i % 2 == 0 ? 0.0f : 1.0f;
      request.sampling.seed = 7 * i;
      requests_.push_back(request);
    }
    // The reference: each alone, plainly, the prompt whole, one thread.
    EngineOptions reference = options_;
    reference.threads = 1;
    reference.prefill_chunk = 4096;
    auto engine = MustCreate(reference);
    for (const Request& request : requests_) reference_.push_back(RunRequests(*engine, {request})[0]);
    for (const Answer& answer : reference_) ASSERT_EQ(answer.tokens.size(), 24u) << answer.error;
  }

  std::vector<Request> WithDrafts(int drafts) const {
    std::vector<Request> requests = requests_;
    for (Request& request : requests) {
      if (drafts > 0) request.speculation = {SpeculativeAlgorithm::kEagle3, drafts};
    }
    return requests;
  }

  // Every kind of drafter and shape, in turn.
  std::vector<Request> WithMixedDrafters(size_t first) const {
    const SpeculationParams kinds[] = {{SpeculativeAlgorithm::kEagle3, 8, 2},     {SpeculativeAlgorithm::kNgram, 5},
                                       {SpeculativeAlgorithm::kDraftModel, 4},    {SpeculativeAlgorithm::kEagle3, 32, 4, 4},
                                       {SpeculativeAlgorithm::kSuffix, 12, 3, 6}, {SpeculativeAlgorithm::kNone},
                                       {SpeculativeAlgorithm::kEagle3, 63, 8, 8}, {SpeculativeAlgorithm::kEagle3, 5}};
    std::vector<Request> requests = requests_;
    for (size_t i = 0; i < requests.size(); ++i) requests[i].speculation = kinds[(first + i) % std::size(kinds)];
    return requests;
  }

  void ExpectAll(const std::vector<Answer>& answers, const std::string& what) const {
    for (size_t i = 0; i < answers.size(); ++i) ExpectSameBits(reference_[i], answers[i], what + ", request " + std::to_string(i));
  }

  TempDir dir_;
  EngineOptions options_;
  std::vector<Request> requests_;
  std::vector<Answer> reference_;
};

TEST_P(Exactness, ChainsOfEveryLengthAlone) {
  auto engine = MustCreate(options_);
  for (int drafts = 1; drafts <= 7; ++drafts) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      const Answer answer = RunRequests(*engine, {WithDrafts(drafts)[i]})[0];
      ExpectSameBits(reference_[i], answer, "chain of " + std::to_string(drafts) + ", request " + std::to_string(i));
    }
  }
}

TEST_P(Exactness, ChunksAndThreadsInABatch) {
  struct Setting {
    int chunk;
    int threads;
  };
  for (const Setting& setting : {Setting{1, 1}, {7, 2}, {64, 1}, {64, 3}, {4096, 2}}) {
    EngineOptions options = options_;
    options.prefill_chunk = setting.chunk;
    options.threads = setting.threads;
    auto engine = MustCreate(options);
    ExpectAll(RunRequests(*engine, WithDrafts(3)),
              "chunk " + std::to_string(setting.chunk) + ", threads " + std::to_string(setting.threads));
  }
}

TEST_P(Exactness, MixedBatchesAndLateArrivals) {
  for (int mates = 2; mates <= 8; ++mates) {
    EngineOptions options = options_;
    options.max_batch = mates;
    options.prefill_chunk = 50;
    auto engine = MustCreate(options);
    std::vector<Request> requests = WithDrafts(0);
    std::vector<int> delays;
    for (size_t i = 0; i < requests.size(); ++i) {
      const int drafts = static_cast<int>((i * 3 + mates) % 8);
      if (drafts > 0) requests[i].speculation = {SpeculativeAlgorithm::kEagle3, drafts};
      delays.push_back(static_cast<int>((i * 5 + mates) % 11));
    }
    ExpectAll(RunRequests(*engine, requests, delays), "batch of " + std::to_string(mates));
  }
}

TEST_P(Exactness, TreesOfEveryShapeAlone) {
  auto engine = MustCreate(options_);
  for (const SpeculationParams& shape : {SpeculationParams{SpeculativeAlgorithm::kEagle3, 2, 2, 1},
                                         {SpeculativeAlgorithm::kEagle3, 8, 3},
                                         {SpeculativeAlgorithm::kEagle3, 16, 4, 3},
                                         {SpeculativeAlgorithm::kEagle3, 63, 16, 5}}) {
    for (size_t i = 0; i < requests_.size(); ++i) {
      Request request = requests_[i];
      request.speculation = shape;
      const Answer answer = RunRequests(*engine, {request})[0];
      ExpectSameBits(reference_[i], answer, "tree of " + std::to_string(shape.num_draft_tokens) + ", request " + std::to_string(i));
    }
  }
}

TEST_P(Exactness, EveryDrafterInOneBatch) {
  EngineOptions options = options_;
  options.draft_model = options.model;  // drafts what the target would say: everything is accepted
  for (const int chunk : {64, 4096}) {
    options.prefill_chunk = chunk;
    {
      auto engine = MustCreate(options);
      std::vector<Request> requests = WithMixedDrafters(1);
      for (Request& request : requests) {
        request.speculation.automatic = true;
        request.speculation.top_k = 1;
        request.speculation.depth = 0;
        request.speculation.num_draft_tokens = 8;
      }
      ExpectAll(RunRequests(*engine, requests), "automatic");
    }
    for (const size_t first : {0, 3, 5}) {
      auto engine = MustCreate(options);
      ExpectAll(RunRequests(*engine, WithMixedDrafters(first)), "drafters from " + std::to_string(first));
    }
  }
}

// Costs are measured with more rows than the draft model of a small batch has room for.
TEST_P(Exactness, AutomaticWithADraftModelInASmallBatch) {
  EngineOptions options = options_;
  options.draft_model = options.model;
  options.max_batch = 1;
  auto engine = MustCreate(options);
  Request request = requests_[0];
  request.speculation = {.algorithm = SpeculativeAlgorithm::kDraftModel, .automatic = true};
  const std::vector<Answer> answers = RunRequests(*engine, {request});
  ExpectSameBits(reference_[0], answers[0], "automatic, one at a time");
}

// Penalties, biases, filters, minimum lengths and prompt logprobs, all at once: each position sees the tokens accepted before it.
TEST_P(Exactness, EverySamplingParameter) {
  std::vector<Request> requests = requests_;
  const int vocab = GetParam().llama.vocab;
  for (size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    request.sampling.repetition_penalty = i % 2 == 0 ? 1.1f : 0.9f;
    request.sampling.frequency_penalty = 0.3f * static_cast<float>(i % 3) - 0.3f;
    request.sampling.presence_penalty = i % 4 == 0 ? 0.2f : -0.1f;
    request.sampling.logit_bias = {{static_cast<int32_t>(i) + 3, 2.0f}, {static_cast<int32_t>(i) + 9, -100.0f}};
    if (i % 3 == 1) request.sampling.top_k = 20;
    if (i % 3 == 2) request.sampling.top_p = 0.8f;
    if (i % 2 == 1) request.sampling.min_p = 0.02f;
    for (int32_t id = 0; id < vocab; id += 5) request.eos_ids.push_back(id);
    request.min_tokens = 12;
    request.prompt_logprobs = i % 3 == 0 ? -1 : 0;
  }
  std::vector<Answer> reference;
  {
    auto engine = MustCreate(options_);
    for (const Request& request : requests) reference.push_back(RunRequests(*engine, {request})[0]);
  }
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_GE(reference[i].tokens.size(), 12u);
    EXPECT_EQ(reference[i].prompt.size(), requests[i].prompt_logprobs < 0 ? 0 : requests[i].prompt.size() - 1);
  }
  const SpeculationParams kinds[] = {{SpeculativeAlgorithm::kEagle3, 7}, {SpeculativeAlgorithm::kEagle3, 20, 4, 4}};
  for (const int batch : {1, 6}) {
    EngineOptions options = options_;
    options.max_batch = batch;
    options.prefill_chunk = 50;
    auto engine = MustCreate(options);
    for (const SpeculationParams& kind : kinds) {
      for (Request& request : requests) request.speculation = kind;
      const std::vector<Answer> answers = RunRequests(*engine, requests);
      for (size_t i = 0; i < answers.size(); ++i) {
        ExpectSameBits(
            reference[i], answers[i],
            "batch of " + std::to_string(batch) + ", " + std::to_string(kind.num_draft_tokens) + " drafts, request " + std::to_string(i));
      }
    }
  }
}

TEST_P(Exactness, OtherKernelsGiveTheirOwnExactness) {
  EngineOptions options = options_;
  options.backend = "ref";
  auto engine = MustCreate(options);
  std::vector<Request> requests = WithDrafts(0);
  requests.resize(3);
  std::vector<Request> drafted = WithDrafts(5);
  drafted.resize(3);
  const std::vector<Answer> plain = RunRequests(*engine, requests);
  const std::vector<Answer> speculated = RunRequests(*engine, drafted);
  for (size_t i = 0; i < plain.size(); ++i) ExpectSameBits(plain[i], speculated[i], "ref, request " + std::to_string(i));
}

TEST_P(Exactness, EchoHeadsHaveDraftsAcceptedAndRejected) {
  if (!GetParam().head.echo) return;
  auto engine = MustCreate(options_);
  RunRequests(*engine, WithDrafts(4));
  const SpeculationStats stats = engine->stats().speculation;
  EXPECT_GT(stats.accepted, stats.drafted / 50);
  EXPECT_LT(stats.accepted, stats.drafted);
  EXPECT_EQ(stats.emitted, stats.accepted + stats.rounds);
}

TEST_P(Exactness, TheModelItselfAsDraftModelIsAlwaysRight) {
  EngineOptions options = options_;
  options.draft_model = options.model;
  auto engine = MustCreate(options);
  std::vector<Request> requests = requests_;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].sampling.temperature = 0.7f * static_cast<float>(i);  // above 0: both draw with the same noise
    requests[i].speculation = {SpeculativeAlgorithm::kDraftModel, 4};
  }
  RunRequests(*engine, requests);
  const SpeculationStats stats = engine->stats().speculation;
  EXPECT_EQ(stats.accepted, stats.drafted);
  EXPECT_GT(stats.drafted, 0);
}

// An echo head says the same as a chain and, in a tree, something else besides: branches that are not the first get accepted.
TEST_P(Exactness, OtherBranchesThanTheFirstAreAccepted) {
  if (!GetParam().head.echo) return;
  auto engine = MustCreate(options_);
  std::vector<Request> requests = requests_;
  for (Request& request : requests) request.speculation = {SpeculativeAlgorithm::kEagle3, 40, 8, 3};
  int64_t other_branches = 0;
  for (const Request& request : requests) ASSERT_TRUE(engine->Submit(request));
  while (!engine->idle()) {
    for (const Event& event : engine->Step()) {
      for (size_t i = 0; i < event.accepted.size(); ++i) other_branches += event.accepted[i] != static_cast<int32_t>(i);
    }
  }
  EXPECT_GT(other_branches, 0);
}

// EAGLE-1: an echo head whose drafts are often right, chains and trees, beside n-gram drafts.
TEST_P(Exactness, Eagle1HeadsChangeNothingButSpeed) {
  if (!GetParam().head.echo) return;
  EngineOptions options = options_;
  options.draft = WriteTinyEagle1(GetParam().llama, 1, /*echo=*/true, dir_.Join("eagle1"));
  auto engine = MustCreate(options);
  std::vector<Request> requests = requests_;
  for (size_t i = 0; i < requests.size(); ++i) {
    requests[i].speculation = i % 3 == 0   ? SpeculationParams{SpeculativeAlgorithm::kEagle, 5}
                              : i % 3 == 1 ? SpeculationParams{SpeculativeAlgorithm::kEagle, 20, 4, 4}
                                           : SpeculationParams{SpeculativeAlgorithm::kNgram, 4};
  }
  ExpectAll(RunRequests(*engine, requests), "EAGLE-1");
  EXPECT_GT(engine->stats().speculation.accepted, 0);
  Request other = requests_[0];
  other.speculation = {SpeculativeAlgorithm::kEagle3, 3};
  const auto refused = engine->Submit(other);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("has not loaded an EAGLE-3 head"), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(TinyModels, Exactness, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace haast::testing
