// A request: token ids in, how to sample, how to speculate, when to stop.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "haast/constraint.h"
#include "haast/limits.h"

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

enum class SpeculativeAlgorithm {
  kNone,
  kEagle3,      // an EAGLE-3 or EAGLE-3.1 head
  kEagle,       // an EAGLE-1 or EAGLE-2 head
  kDraftModel,  // a second model of the same vocabulary; chains only
  kNgram,       // prompt lookup in the request's own tokens; chains only
  kSuffix       // the likeliest continuations in the request's own tokens and those of finished requests
};
inline constexpr int kNumSpeculativeAlgorithms = 6;
const char* SpeculativeAlgorithmName(SpeculativeAlgorithm algorithm);  // "none", "eagle3", "eagle", "draft_model", "ngram", "suffix"

// How drafts are made and judged above temperature 0; at 0 both are greedy.
enum class SpeculativeSampling {
  // The target draws its own token at each position and a draft is accepted if it equals it: the answer is, bit for bit, that of plain
  // decoding.
  kCoupled,
  // Drafts are drawn from the drafter's distribution q, accepted with probability min(1, p / q), else replaced by a draw from the
  // normalised max(p - q, 0) (Leviathan et al. 2023, Chen et al. 2023). Each token has the distribution of plain decoding, p, but the
  // answer of a seed is another one: it depends on the drafter, num_draft_tokens and max_tokens too, and on nothing else. Where a
  // drafter is certain (n-gram, suffix) kCoupled is such a rule, and used. Chains of a fixed length only.
  kRejection
};
inline constexpr int kNumSpeculativeSamplings = 2;
const char* SpeculativeSamplingName(SpeculativeSampling sampling);  // "coupled", "rejection"

// A round drafts a chain, or with top_k > 1 a tree: `depth` levels are expanded, `top_k` nodes of each, and the best
// `num_draft_tokens` nodes are verified (EAGLE-2, Li et al. 2024). What is generated never depends on any of it, unless `sampling` is
// kRejection.
struct SpeculationParams {
  SpeculativeAlgorithm algorithm = SpeculativeAlgorithm::kNone;
  int num_draft_tokens = 3;  // drafts of a round, the root excluded: 1..63. Verification then has one row more
  int top_k = 1;             // children of a node: 1..16; 1: a chain
  int depth = 0;             // levels of a tree: 1..16; 0: num_draft_tokens for a chain, at most 5 for a tree
  // The engine chooses the length of each round's chain, from 0 to num_draft_tokens (at most 16), by what steps cost on this
  // machine at the present load and by what was accepted lately. top_k must be 1.
  bool automatic = false;
  SpeculativeSampling sampling = SpeculativeSampling::kCoupled;  // kRejection needs top_k 1, and automatic off
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
