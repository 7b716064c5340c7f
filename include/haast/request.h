// A request: token ids in, how to sample, how to speculate, when to stop.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "haast/constraint.h"

namespace haast {

using RequestId = int64_t;

// The token of a position is a pure function of the target's logits there, these parameters and (seed, position).
struct SamplingParams {
  float temperature = 0.0f;  // 0: greedy (the largest logit, ties to the lowest id)
  int top_k = 0;             // 0: off
  float top_p = 1.0f;        // 1: off
  float min_p = 0.0f;        // 0: off
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

// Most drafts of a round: with the root 64 rows, one word of the tree mask.
inline constexpr int kMaxDraftTokens = 63;

// A round drafts a chain, or with top_k > 1 a tree: `depth` levels are expanded, `top_k` nodes of each, and the best
// `num_draft_tokens` nodes are verified (EAGLE-2, Li et al. 2024). What is generated never depends on any of it.
struct SpeculationParams {
  SpeculativeAlgorithm algorithm = SpeculativeAlgorithm::kNone;
  int num_draft_tokens = 3;  // drafts of a round, the root excluded: 1..63. Verification then has one row more
  int top_k = 1;             // children of a node: 1..16; 1: a chain
  int depth = 0;             // levels of a tree: 1..16; 0: num_draft_tokens for a chain, at most 5 for a tree
  // The engine chooses the length of each round's chain, from 0 to num_draft_tokens (at most 16), by what steps cost on this
  // machine at the present load and by what was accepted lately. top_k must be 1.
  bool automatic = false;
};

struct Request {
  std::vector<int32_t> prompt;  // at least one id
  SamplingParams sampling;
  SpeculationParams speculation;
  int64_t max_tokens = 256;                     // generated tokens, at least 1
  std::vector<int32_t> eos_ids;                 // any of them ends the answer; it is emitted as the last token
  int logprobs = -1;                            // -1: none; n >= 0: the token's logprob and those of the n most likely tokens (n <= 20)
  std::shared_ptr<TokenConstraint> constraint;  // null: none
};

}  // namespace haast
