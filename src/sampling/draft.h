// A draft head's logits to draft tokens: those that the target is most likely to draw at the same position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "haast/event.h"
#include "haast/request.h"
#include "kernels/ops.h"
#include "sampling/race.h"
#include "sampling/sampler.h"

namespace haast::sampling {

// A token that may follow, in target ids.
struct Candidate {
  int32_t token = -1;
  float score = 0.0f;  // log of the confidence that it follows, at most 0
};

// Chooses drafts. Above temperature 0 they are the first to arrive in the target's own race at that position (race.h): where head
// and target have one law, the best draft is the token that SampleToken draws. Filters (top-k and so on) are not applied.
class DraftSampler {
 public:
  // Entry i of the head's logits stands for target id to_target[i]; empty: for i. Both outlive the sampler.
  DraftSampler(std::span<const int32_t> to_target, const kernels::Ops& ops) : to_target_(to_target), ops_(ops) {}

  // The `count` (at least 1) best drafts for the token at absolute `position`, best first, ties by lower index. Fewer where fewer can
  // be drawn, never none: logits that are all NaN or infinite give one of them. With one draft its score is not computed (0). Valid
  // until the next call.
  std::span<const Candidate> Choose(std::span<const float> logits, const SamplingParams& params, int64_t position, int count);

  struct Drawn {
    int32_t token;
    WeightedTokens q;  // what it was drawn from, in target ids
  };
  // A draft for rejection.h: drawn from softmax(logits / temperature) after top-k, top-p and min-p, with noise of its own. Valid until
  // the next call.
  Drawn Draw(std::span<const float> logits, const SamplingParams& params, int64_t position);

 private:
  int32_t ToTarget(int32_t draft_id) const { return to_target_.empty() ? draft_id : to_target_[static_cast<size_t>(draft_id)]; }
  void ChooseLargest(std::span<const float> logits, int count);
  void Score(const std::vector<Arrival>& arrivals);

  std::span<const int32_t> to_target_;
  const kernels::Ops& ops_;
  std::vector<float> weights_;
  std::vector<TokenLogprob> largest_;
  std::vector<Candidate> candidates_;
  SamplerScratch scratch_{0};  // for Draw, as large as the logits it saw
};

}  // namespace haast::sampling
