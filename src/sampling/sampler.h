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

// Refuses parameters outside the ranges that request.h names, with their values.
Status CheckSamplingParams(const SamplingParams& params, int64_t vocab);

// Memory of a sampler, reused by all calls of one thread: [vocab] probabilities and candidate ids.
class SamplerScratch {
 public:
  explicit SamplerScratch(int64_t vocab) : probabilities(vocab), logits(vocab) {
    candidates.reserve(vocab);
    ranked.reserve(vocab);
  }
  std::vector<float> probabilities;
  std::vector<float> logits;  // a copy for constraints that mask
  std::vector<int32_t> candidates;
  std::vector<float> candidate_weights;  // their probabilities, side by side
  std::vector<float> residual;           // of speculative sampling, beside `candidates` (rejection.h)
  std::vector<double> block_mass;        // [vocab / block] partial sums
  std::vector<float> block_maxima;       // [vocab / block]
  std::vector<int32_t> ranked;           // candidates while they are ordered by likelihood
  std::vector<double> bucket_mass;       // [buckets of log-probability]
};

// Draws the token at absolute `position`. Temperature 0: argmax. Otherwise top-k, then top-p, then min-p restrict the
// candidates of softmax(logits / temperature), which then race (race.h). The order is that of Hugging Face's transformers (vLLM
// applies min-p first). Top-k keeps exactly k tokens, ties by lower id; top-p the smallest set of
// most likely tokens whose share of the rest is at least top_p; min-p those with at least min_p times the largest probability.
// -infinity and NaN logits are never drawn; +infinity wins; a row without either that has no finite logit gives token 0.
int32_t SampleToken(std::span<const float> logits, const SamplingParams& params, int64_t position, const kernels::Ops& ops,
                    SamplerScratch* scratch);

// A distribution over tokens: token tokens[i] has the probability weights[i] / sum of weights. Ids differ; the weights are finite,
// none is negative and one is above 0.
struct WeightedTokens {
  std::span<const int32_t> tokens;
  std::span<const float> weights;
};

// The distribution that SampleToken draws from, ids ascending, tokens of weight 0 left out. Lies in `scratch`, until its next use.
WeightedTokens Distribution(std::span<const float> logits, const SamplingParams& params, const kernels::Ops& ops, SamplerScratch* scratch);

// weights[i] = exp((logits[i] - max) * scale), 0 for NaN; returns their sum. `max` is the largest logit, finite.
float ExpWeights(std::span<const float> logits, float max, float scale, const kernels::Ops& ops, std::span<float> weights);

// Fills logprob (and `top_n` most likely tokens, ties by lower id) of `output->token` from the raw logits: log-softmax
// before temperature, bias and masks. Tokens of probability 0 (-infinity) are not listed.
void FillLogprobs(std::span<const float> logits, int top_n, const kernels::Ops& ops, TokenOutput* output);

}  // namespace haast::sampling
