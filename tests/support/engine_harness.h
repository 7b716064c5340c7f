// Runs requests through an engine to their end, and compares answers bit for bit.
#pragma once

#include <string>
#include <vector>

#include "haast/engine.h"

namespace haast::testing {

struct Answer {
  std::vector<int32_t> tokens;
  std::vector<float> logprobs;                 // of each token
  std::vector<std::vector<TokenLogprob>> top;  // likewise
  std::vector<TokenOutput> prompt;
  FinishReason finish = FinishReason::kNone;
  std::string error;
  SpeculationStats speculation;
  std::vector<Event> events;
};

// Appends what a step gave a request.
void AddEvent(Event event, Answer* answer);

// Submits all, steps until idle. After every step the engine's page accounting must hold.
std::vector<Answer> RunRequests(Engine& engine, const std::vector<Request>& requests);

// The same with the i-th request submitted after `delays[i]` steps.
std::vector<Answer> RunRequests(Engine& engine, const std::vector<Request>& requests, const std::vector<int>& delays);

// Creates an engine or fails the test with its error.
std::unique_ptr<Engine> MustCreate(const EngineOptions& options);

// Fails the test at the first token or logprob bit that differs, those of the most likely tokens and of the prompt included.
void ExpectSameBits(const Answer& expected, const Answer& actual, const std::string& what);

// `count` pseudo-random ids in [0, vocab).
std::vector<int32_t> RandomIds(int count, int vocab, uint64_t seed);

}  // namespace haast::testing
