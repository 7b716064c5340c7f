#include "sampling/rejection.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "sampling/philox.h"
#include "sampling/race.h"

namespace haast::sampling {
namespace {

double Total(std::span<const float> weights) { return std::accumulate(weights.begin(), weights.end(), 0.0); }

float WeightOf(int32_t token, const WeightedTokens& of) {
  const auto it = std::find(of.tokens.begin(), of.tokens.end(), token);
  return it == of.tokens.end() ? 0.0f : of.weights[static_cast<size_t>(it - of.tokens.begin())];
}

}  // namespace

void DraftDistributions::Clear() {
  tokens_.clear();
  weights_.clear();
  ends_.clear();
}

void DraftDistributions::Append(const WeightedTokens& q) {
  HAAST_CHECK(q.tokens.size() == q.weights.size()) << q.tokens.size() << " tokens, " << q.weights.size() << " weights";
  tokens_.insert(tokens_.end(), q.tokens.begin(), q.tokens.end());
  weights_.insert(weights_.end(), q.weights.begin(), q.weights.end());
  ends_.push_back(tokens_.size());
}

WeightedTokens DraftDistributions::Row(int i) const {
  HAAST_CHECK(i >= 0 && i < size()) << "distribution " << i << " of " << size();
  const size_t begin = i == 0 ? 0 : ends_[static_cast<size_t>(i) - 1];
  const size_t count = ends_[static_cast<size_t>(i)] - begin;
  return {std::span(tokens_).subspan(begin, count), std::span(weights_).subspan(begin, count)};
}

int32_t SampleByRejection(std::span<const float> logits, int32_t draft, const WeightedTokens& q, const SamplingParams& params,
                          int64_t position, const kernels::Ops& ops, SamplerScratch* scratch) {
  const WeightedTokens p = Distribution(logits, params, ops, scratch);
  const double p_total = Total(p.weights);
  const double q_total = Total(q.weights);
  const double p_draft = WeightOf(draft, p) / p_total;
  const double q_draft = WeightOf(draft, q) / q_total;
  HAAST_CHECK(q_draft > 0.0) << "draft " << draft << " cannot have been drawn from its distribution of " << q.tokens.size() << " tokens";
  const double coin = OpenUniform(PairOf(RandomWords(params.seed, position, Stream::kAcceptance, 0)));
  if (coin * q_draft < p_draft) return draft;

  // Here p < q for the draft (coin < 1), so that it does not come back.
  auto& drafted = scratch->probabilities;  // q by id
  std::fill(drafted.begin(), drafted.end(), 0.0f);
  for (size_t i = 0; i < q.tokens.size(); ++i) drafted[static_cast<size_t>(q.tokens[i])] = q.weights[i];
  auto& residual = scratch->residual;
  residual.resize(p.tokens.size());
  for (size_t i = 0; i < residual.size(); ++i) {
    residual[i] = static_cast<float>(std::max(0.0, p.weights[i] / p_total - drafted[static_cast<size_t>(p.tokens[i])] / q_total));
  }
  Race race(Noise(params.seed, position), 1);
  race.OfferTokens(p.tokens, residual);
  // Rounding may leave nothing of p - q, where they hardly differ.
  if (race.arrivals().empty()) race.OfferTokens(p.tokens, p.weights);
  return race.arrivals()[0].token;
}

}  // namespace haast::sampling
