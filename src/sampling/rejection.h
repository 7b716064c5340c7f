// Speculative sampling (Leviathan et al., 2023; Chen et al., 2023): a draft that was drawn from q is kept with probability
// min(1, p / q), else a token is drawn from the normalised max(p - q, 0). Either way the token has the target's distribution p,
// whatever q is.
//
// It is not the token that plain decoding draws at that position (the coupled rule of accept.h gives that one). Draft, acceptance
// and replacement use noise of three independent streams of the position, so that a seed gives one answer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/sampler.h"

namespace haast::sampling {

// The distributions that drafts were drawn from, one after another: 8 bytes for each token that a draft may be. Keeps its memory when
// cleared, so that a request takes it once.
class DraftDistributions {
 public:
  void Clear();
  void Append(const WeightedTokens& q);
  int size() const { return static_cast<int>(ends_.size()); }
  WeightedTokens Row(int i) const;  // valid until the next Append or Clear

 private:
  std::vector<int32_t> tokens_;
  std::vector<float> weights_;
  std::vector<size_t> ends_;
};

// The token at absolute `position`: `draft`, which was drawn from `q` with Noise::ForDrafts, or another one. `logits` are the target's
// there; `params` make them p as in SampleToken, so that at temperature 0 the token is the largest logit's. Ids of `q` are below
// their number, and `draft` has a weight in it.
int32_t SampleByRejection(std::span<const float> logits, int32_t draft, const WeightedTokens& q, const SamplingParams& params,
                          int64_t position, const kernels::Ops& ops, SamplerScratch* scratch);

}  // namespace haast::sampling
