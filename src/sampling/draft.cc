#include "sampling/draft.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "sampling/row_search.h"

namespace haast::sampling {
namespace {

// How far a head's log-weights are taken to be from its target's, in nats: the scale of Score under which the tokens that the target
// then drew are likeliest. Fitted to the first drafts of 806 rounds of the default model and the shipped head (8 candidates each, the
// prompts of bench/prompts, up to 96 tokens): 0.9 at temperature 1, 1.1 at 0.7, 1.0 for both together, where the 725 tokens that
// were candidates have a mean -log chance of 0.928 (0.943 at 0.8 and at 1.2, 1.13 at 0.5, 1.09 at 2).
constexpr double kHeadError = 1.0;

}  // namespace

void DraftSampler::ChooseLargest(std::span<const float> logits, int count) {
  const int64_t n = static_cast<int64_t>(logits.size());
  const int32_t best = ops_.argmax(logits.data(), n);
  if (count == 1 || !std::isfinite(logits[static_cast<size_t>(best)])) {
    candidates_.push_back({ToTarget(best), 0.0f});
    return;
  }
  const kernels::RowStats stats = ops_.row_stats(logits.data(), n);
  const float log_sum_exp = std::isnan(stats.log_sum_exp) ? stats.max : stats.log_sum_exp;  // a NaN among the logits
  FindLargest(logits, count, &largest_);
  for (const TokenLogprob& entry : largest_) candidates_.push_back({ToTarget(entry.token), entry.logprob - log_sum_exp});
}

// The target's weights differ from the head's, so that another token may come first there, the less likely the later it comes here.
// For log-weights that differ by Gumbel noise of scale kHeadError these are the exact chances (among the arrivals alone).
void DraftSampler::Score(const std::vector<Arrival>& arrivals) {
  double sum = 0.0;
  for (const Arrival& arrival : arrivals) {
    const double lateness = std::log(arrival.time / arrivals[0].time) / kHeadError;
    sum += std::exp(-lateness);
    candidates_.push_back({arrival.token, static_cast<float>(-lateness)});
  }
  for (Candidate& candidate : candidates_) candidate.score -= static_cast<float>(std::log(sum));
}

std::span<const Candidate> DraftSampler::Choose(std::span<const float> logits, const SamplingParams& params, int64_t position, int count) {
  HAAST_CHECK(!logits.empty() && count > 0 && (to_target_.empty() || to_target_.size() == logits.size()))
      << logits.size() << " logits for " << to_target_.size() << " ids, " << count << " drafts";
  candidates_.clear();
  const float scale = 1.0f / params.temperature;
  const int32_t best = ops_.argmax(logits.data(), static_cast<int64_t>(logits.size()));
  const float max = logits[static_cast<size_t>(best)];
  if (params.temperature <= 0.0f || !std::isfinite(scale) || !std::isfinite(max)) {
    ChooseLargest(logits, count);
    return candidates_;
  }
  weights_.resize(logits.size());
  ExpWeights(logits, max, scale, ops_, weights_);
  Race race(Noise(params.seed, position), count);
  FindLargest(logits, count, &largest_);
  for (const TokenLogprob& entry : largest_) race.Expect(ToTarget(entry.token), weights_[static_cast<size_t>(entry.token)]);
  if (to_target_.empty()) {
    race.OfferRow(weights_);
  } else {
    race.OfferTokens(to_target_, weights_);
  }
  Score(race.arrivals());
  return candidates_;
}

DraftSampler::Drawn DraftSampler::Draw(std::span<const float> logits, const SamplingParams& params, int64_t position) {
  HAAST_CHECK(to_target_.empty() || to_target_.size() == logits.size()) << logits.size() << " logits for " << to_target_.size() << " ids";
  scratch_.probabilities.resize(logits.size());
  const WeightedTokens q = Distribution(logits, params, ops_, &scratch_);
  for (int32_t& token : scratch_.candidates) token = ToTarget(token);
  Race race(Noise::ForDrafts(params.seed, position), 1);
  race.OfferTokens(q.tokens, q.weights);
  return {race.arrivals()[0].token, q};
}

}  // namespace haast::sampling
