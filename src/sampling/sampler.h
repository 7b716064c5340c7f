// Logits to a token: a pure function of (logits, parameters, seed, position).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "haast/event.h"
#include "haast/request.h"
#include "haast/result.h"
#include "kernels/ops.h"

namespace haast::sampling {

// Refuses parameters out of range with their values: temperature finite and in [0, 100], top_k >= 0, top_p in (0, 1],
// min_p in [0, 1].
Status CheckSamplingParams(const SamplingParams& params);

// Memory of a sampler, reused by all calls of one thread: [vocab] probabilities and candidate ids.
class SamplerScratch {
 public:
  explicit SamplerScratch(int64_t vocab) : probabilities(vocab), logits(vocab) { candidates.reserve(vocab); }
  std::vector<float> probabilities;
  std::vector<float> logits;         // a copy for constraints that mask
  std::vector<int32_t> candidates;
};

// Draws the token at absolute `position`. Temperature 0: argmax. Otherwise top-k, then top-p, then min-p restrict the
// candidates of softmax(logits / temperature) (order as in vLLM), and one uniform picks along ascending token id.
// -infinity logits are never drawn; a row with no finite logit gives token 0.
int32_t SampleToken(std::span<const float> logits, const SamplingParams& params, int64_t position, const kernels::Ops& ops,
                    SamplerScratch* scratch);

// Fills logprob (and `top_n` most likely tokens, ties by lower id) of `output->token` from the raw logits: log-softmax
// before temperature, bias and masks.
void FillLogprobs(std::span<const float> logits, int top_n, const kernels::Ops& ops, TokenOutput* output);

}  // namespace haast::sampling
