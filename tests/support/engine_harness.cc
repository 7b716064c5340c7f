#include "support/engine_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>

#include "engine/engine_impl.h"

namespace haast::testing {

std::unique_ptr<Engine> MustCreate(const EngineOptions& options) {
  auto engine = Engine::Create(options);
  if (!engine) {
    ADD_FAILURE() << engine.error().message;
    std::abort();
  }
  return std::move(*engine);
}

void AddEvent(Event event, Answer* answer) {
  for (const TokenOutput& token : event.tokens) {
    answer->tokens.push_back(token.token);
    answer->logprobs.push_back(token.logprob);
    answer->top.push_back(token.top);
  }
  answer->prompt.insert(answer->prompt.end(), event.prompt.begin(), event.prompt.end());
  answer->finish = event.finish;
  answer->error = event.error;
  answer->speculation = event.speculation;
  answer->events.push_back(std::move(event));
}

std::vector<Answer> RunRequests(Engine& engine, const std::vector<Request>& requests) {
  return RunRequests(engine, requests, std::vector<int>(requests.size(), 0));
}

std::vector<Answer> RunRequests(Engine& engine, const std::vector<Request>& requests, const std::vector<int>& delays) {
  const auto& impl = dynamic_cast<engine::EngineImpl&>(engine);
  std::vector<Answer> answers(requests.size());
  std::map<RequestId, size_t> index;
  size_t submitted = 0;
  for (int step = 0; submitted < requests.size() || !engine.idle(); ++step) {
    for (size_t i = 0; i < requests.size(); ++i) {
      if (delays[i] != step) continue;
      ++submitted;
      auto id = engine.Submit(requests[i]);
      if (!id) {
        answers[i].finish = FinishReason::kError;
        answers[i].error = id.error().message;
        continue;
      }
      index[*id] = i;
    }
    for (Event& event : engine.Step()) {
      Answer* answer = &answers[index.at(event.request)];
      AddEvent(std::move(event), answer);
    }
    const Status invariants = impl.CheckInvariants();
    EXPECT_TRUE(invariants) << invariants.error().message;
    if (!invariants) break;
  }
  return answers;
}

namespace {

bool SameBits(float a, float b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b); }

bool SameTop(const std::vector<TokenLogprob>& a, const std::vector<TokenLogprob>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.token == y.token && SameBits(x.logprob, y.logprob); });
}

}  // namespace

void ExpectSameBits(const Answer& expected, const Answer& actual, const std::string& what) {
  EXPECT_EQ(expected.error, actual.error) << what;
  EXPECT_EQ(expected.finish, actual.finish) << what;
  for (size_t i = 0; i < std::min(expected.tokens.size(), actual.tokens.size()); ++i) {
    ASSERT_EQ(expected.tokens[i], actual.tokens[i]) << what << ": token " << i;
    ASSERT_TRUE(SameBits(expected.logprobs[i], actual.logprobs[i]))
        << what << ": logprob of token " << i << ": " << expected.logprobs[i] << " and " << actual.logprobs[i];
    ASSERT_TRUE(SameTop(expected.top[i], actual.top[i])) << what << ": most likely tokens beside token " << i;
  }
  EXPECT_EQ(expected.tokens.size(), actual.tokens.size()) << what;
  ASSERT_EQ(expected.prompt.size(), actual.prompt.size()) << what;
  for (size_t i = 0; i < expected.prompt.size(); ++i) {
    ASSERT_EQ(expected.prompt[i].token, actual.prompt[i].token) << what << ": prompt token " << i + 1;
    ASSERT_TRUE(SameBits(expected.prompt[i].logprob, actual.prompt[i].logprob) && SameTop(expected.prompt[i].top, actual.prompt[i].top))
        << what << ": logprobs of prompt token " << i + 1;
  }
}

std::vector<int32_t> RandomIds(int count, int vocab, uint64_t seed) {
  std::vector<int32_t> ids;
  uint64_t state = seed * 6364136223846793005u + 1442695040888963407u;
  for (int i = 0; i < count; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    ids.push_back(static_cast<int32_t>((state >> 33) % static_cast<uint64_t>(vocab)));
  }
  return ids;
}

}  // namespace haast::testing
