// What a step gave each request. Token ids only: text is made by the front door.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "haast/request.h"

namespace haast {

enum class FinishReason { kNone, kStop, kLength, kCancelled, kError };
const char* FinishReasonName(FinishReason reason);  // "none", "stop", "length", "cancelled", "error"

struct TokenLogprob {
  int32_t token;
  float logprob;
};

struct TokenOutput {
  int32_t token = 0;
  bool from_draft = false;  // an accepted draft; false: drawn by the target alone (plain, or a round's bonus token)
  // Raw log-softmax of the target, before all that SamplingParams changes, however the token was drawn; where logprobs were asked for.
  float logprob = 0.0f;
  std::vector<TokenLogprob> top;  // most likely first
};

// Counters of one request, or their sum over requests. A round is one target pass over at least one draft. The token that
// prefill samples belongs to no round. Nothing after a stop is counted.
struct SpeculationStats {
  int64_t rounds = 0;
  int64_t drafted = 0;
  int64_t accepted = 0;
  int64_t emitted = 0;               // tokens of rounds: accepted drafts and bonus tokens
  std::vector<int64_t> accepted_at;  // [depth] rounds in which draft i was accepted
  double tau() const { return rounds == 0 ? 0.0 : static_cast<double>(emitted) / static_cast<double>(rounds); }
  void Add(const SpeculationStats& other);
};

struct RequestTimings {
  double queue_seconds = 0.0;    // from submission to the first launch
  double prefill_seconds = 0.0;  // from the first launch to the first token
  double decode_seconds = 0.0;   // from the first token to the last
  int64_t prompt_tokens = 0;
  int64_t cached_prompt_tokens = 0;  // of these, found in the prefix cache
  int64_t generated_tokens = 0;
};

// At most one a request and step.
struct Event {
  RequestId request = 0;
  std::vector<TokenOutput> tokens;  // new tokens in order
  std::vector<TokenOutput> prompt;  // with the first token, where prompt_logprobs were asked for: the prompt from its second token on
  std::vector<int32_t> drafts;      // what was drafted for this round, in the order of the verified rows
  std::vector<int32_t> parents;     // [drafts] draft that each hangs under, -1: the newest token; empty for a chain
  std::vector<int32_t> accepted;    // indices of the drafts that were accepted and emitted, in order
  int num_accepted = 0;             // how many
  FinishReason finish = FinishReason::kNone;
  std::string error;             // with kError: what was wrong, with numbers and the remedy
  SpeculationStats speculation;  // of the whole request, with its last event
  RequestTimings timings;        // likewise
};

}  // namespace haast
