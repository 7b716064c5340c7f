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

enum class SpeculativeAlgorithm { kNone, kEagle3 };

// Drafts of a round that pay on this processor's kernels: 3 where four rows cost hardly more than one (AVX-512 VNNI), else 2.
int DefaultDraftTokens();

struct SpeculationParams {
  SpeculativeAlgorithm algorithm = SpeculativeAlgorithm::kNone;
  int num_draft_tokens = 3;  // drafts of a round, the root excluded: 1..7. Verification then has one row more
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
