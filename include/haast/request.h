// A request: token ids in, how to sample, how to speculate, when to stop.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "haast/constraint.h"
#include "haast/limits.h"
#include "haast/speculation.h"

namespace haast {

using RequestId = int64_t;

struct TokenBias {
  int32_t token;
  float bias;  // -100 to 100
};

// The token of a position is a pure function of the target's logits there, the tokens before it, these parameters and
// (seed, position). First the logits are edited, in this order: logit_bias, repetition_penalty, frequency_penalty,
// presence_penalty, Request::min_tokens, Request::constraint (vLLM's order). Then they are divided by the temperature and
// filtered: top_k, top_p, min_p.
struct SamplingParams {
  float temperature = 0.0f;  // 0: greedy (the largest logit, ties to the lowest id); at most 100
  int top_k = 0;             // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
  // Above 0, at most 100; 1: off. Of every token of prompt and answer, a positive logit is divided by it, another multiplied
  // (Keskar et al. 2019, as in Hugging Face's transformers and vLLM).
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;     // -2 to 2: subtracted from a logit for each time the answer has the token (OpenAI)
  float presence_penalty = 0.0f;      // -2 to 2: subtracted where the answer has the token at all (OpenAI)
  std::vector<TokenBias> logit_bias;  // added to logits; a token named twice gets both
  uint64_t seed = 0;
};

struct Request {
  std::vector<int32_t> prompt;  // at least one id
  SamplingParams sampling;
  SpeculationParams speculation;
  int64_t max_tokens = 256;      // generated tokens, at least 1
  int64_t min_tokens = 0;        // end tokens cannot be drawn before so many were generated; at most max_tokens
  std::vector<int32_t> eos_ids;  // any of them ends the answer; it is emitted as the last token
  int logprobs = -1;             // -1: none; n >= 0: the token's logprob and those of the n most likely tokens (n <= 20)
  int prompt_logprobs = -1;      // likewise for the prompt's tokens from the second on; its rows are then run a few at a time
  std::shared_ptr<TokenConstraint> constraint;  // null: none
};

}  // namespace haast
