// Exactness and acceptance on the default model with the shipped head: answers past 600 tokens of context, prefill chunks of
// 64 rows and more, batches, threads, temperatures. `Long` suites run in `make test-long` only.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "support/default_model.h"
#include "support/engine_harness.h"

namespace haast::testing {
namespace {

using nlohmann::json;

EngineOptions DefaultOptions() {
  EngineOptions options;
  options.model = DefaultModelPath();
  options.draft = kDefaultHead;
  options.threads = 2;
  options.max_context = 2048;
  options.kv_tokens = 8192;
  return options;
}

// Prompts of 19 to 534 tokens (the golden chats), the longest first.
std::vector<std::vector<int32_t>> Prompts(size_t count) {
  std::vector<std::vector<int32_t>> prompts;
  std::ifstream file("tests/goldens/greedy.jsonl");
  std::vector<int32_t> all;
  for (std::string line; std::getline(file, line);) {
    prompts.push_back(json::parse(line)["prompt_ids"].get<std::vector<int32_t>>());
    all.insert(all.end(), prompts.back().begin(), prompts.back().end());
  }
  EXPECT_GE(all.size(), 620u);
  // All chats in one, cut to 620 tokens: a prompt past the sizes below which an inexact engine may pass by accident.
  all.resize(620);
  prompts.insert(prompts.begin(), all);
  prompts.resize(std::min(count, prompts.size()));
  return prompts;
}

std::vector<Request> MakeRequests(size_t count, int64_t max_tokens, float temperature) {
  std::vector<Request> requests;
  for (auto& prompt : Prompts(count)) {
    Request request;
    request.prompt = std::move(prompt);
    request.max_tokens = max_tokens;
    request.logprobs = 0;
    request.sampling.temperature = temperature;
    request.sampling.seed = 42 + requests.size();
    requests.push_back(std::move(request));
  }
  return requests;
}

std::vector<Request> WithDrafts(std::vector<Request> requests, const std::vector<int>& drafts) {
  for (size_t i = 0; i < requests.size(); ++i) {
    const int count = drafts[i % drafts.size()];
    if (count > 0) requests[i].speculation = {SpeculativeAlgorithm::kEagle3, count};
  }
  return requests;
}

std::vector<Answer> Alone(Engine& engine, const std::vector<Request>& requests) {
  std::vector<Answer> answers;
  for (const Request& request : requests) answers.push_back(RunRequests(engine, {request})[0]);
  return answers;
}

int64_t ExpectSame(const std::vector<Answer>& expected, const std::vector<Answer>& actual, const std::string& what) {
  int64_t tokens = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    ExpectSameBits(expected[i], actual[i], what + ", request " + std::to_string(i));
    tokens += static_cast<int64_t>(actual[i].tokens.size());
  }
  return tokens;
}

struct Variation {
  int threads;
  int prefill_chunk;
  std::vector<int> drafts;  // of the requests, in turn; 0: plain
  int max_batch;
};

void ExpectExact(size_t prompts, int64_t max_tokens, const std::vector<Variation>& variations, int64_t least_tokens) {
  int64_t tokens = 0;
  for (float temperature : {0.0f, 1.0f}) {
    const std::vector<Request> requests = MakeRequests(prompts, max_tokens, temperature);
    std::vector<Answer> reference;
    {
      EngineOptions options = DefaultOptions();
      options.prefill_chunk = 1024;
      auto engine = MustCreate(options);
      reference = Alone(*engine, requests);
    }
    for (const Variation& variation : variations) {
      EngineOptions options = DefaultOptions();
      options.threads = variation.threads;
      options.prefill_chunk = variation.prefill_chunk;
      options.max_batch = variation.max_batch;
      auto engine = MustCreate(options);
      const std::string what = "temperature " + std::to_string(temperature) + ", threads " + std::to_string(variation.threads) +
                               ", chunk " + std::to_string(variation.prefill_chunk) + ", first drafts " +
                               std::to_string(variation.drafts[0]) + ", batch " + std::to_string(variation.max_batch);
      tokens += ExpectSame(reference, RunRequests(*engine, WithDrafts(requests, variation.drafts)), what);
    }
  }
  EXPECT_GE(tokens, least_tokens);
  std::printf("%ld tokens compared bit for bit\n", static_cast<long>(tokens));
}

TEST(DefaultModel, TokensAndLogprobBitsDoNotDependOnSpeculationBatchChunkOrThreads) {
  if (kSanitized) return ExpectExact(3, 4, {{2, 64, {3}, 1}, {3, 100, {1, 7, 0}, 3}}, 40);
  ExpectExact(8, 32,
              {
                  {2, 64, {3}, 1},
                  {1, 7, {1, 2, 3, 4, 5, 6, 7, 0}, 8},
                  {2, 1024, {5, 0}, 4},
                  {2, 1, {7}, 2},
                  {3, 100, {0}, 5},
              },
              2000);
}

TEST(DefaultModel, AcceptanceOfTheShippedHead) {
  // Recorded with this head on these prompts; a bug moves it by more.
  auto engine = MustCreate(DefaultOptions());
  std::vector<Request> requests = MakeRequests(9, 64, 0.0f);
  requests.erase(requests.begin());
  RunRequests(*engine, WithDrafts(requests, {5}));
  const double tau = engine->stats().speculation.tau();
  std::printf("tau, chain of 5: %.3f\n", tau);
  EXPECT_NEAR(tau, 2.768, 0.05 * 2.768);
}

TEST(LongDefaultModel, ExactnessSweep) {
  std::vector<Variation> variations;
  for (int drafts = 1; drafts <= 7; ++drafts) variations.push_back({2, drafts % 2 == 0 ? 64 : 512, {drafts}, 1 + drafts % 4});
  for (int chunk : {1, 7, 64, 1024}) {
    for (int threads : {1, 2, 3}) variations.push_back({threads, chunk, {3, 0, 5, 1, 7, 2, 6, 4}, 8});
  }
  for (int batch = 2; batch <= 8; ++batch) variations.push_back({2, 200, {0, 4, 2, 7}, batch});
  ExpectExact(25, 128, variations, 50000);
}

}  // namespace
}  // namespace haast::testing
