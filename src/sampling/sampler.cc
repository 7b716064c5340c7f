#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "base/format.h"
#include "sampling/race.h"
#include "sampling/row_search.h"

namespace haast::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMaxTemperature = 100.0f;
constexpr float kMaxRepetitionPenalty = 100.0f;
constexpr float kMaxPenalty = 2.0f;
constexpr float kMaxBias = 100.0f;
constexpr int64_t kMassBlock = 256;  // tokens whose mass is summed together
constexpr int kLanes = 16;           // partial results side by side, so that a compiler may use vector registers
constexpr int kBuckets = 2048;       // of log-probability, for top-p
constexpr float kBucketsPerNat = 64.0f;

// Most likely first; equal logits by lower id. Orders by logit: exp may round two different logits to one probability.
struct MoreLikely {
  const float* logits;
  bool operator()(int32_t a, int32_t b) const { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; }
};

// Mass of `count` probabilities of which those below `threshold` count as 0, in one fixed order. A lane adds at most
// kMassBlock / kLanes numbers in fp32: 1e-6 of the block's mass at worst.
double BlockMass(const float* p, int64_t count, float threshold) {
  std::array<float, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += p[i + lane] >= threshold ? p[i + lane] : 0.0f;
  }
  for (; i < count; ++i) lanes[0] += p[i] >= threshold ? p[i] : 0.0f;
  double mass = 0.0;
  for (const float lane : lanes) mass += lane;
  return mass;
}

// Fills block_mass; returns the sum over all blocks.
double MassOfBlocks(const std::vector<float>& p, float threshold, std::vector<double>* block_mass) {
  const int64_t n = static_cast<int64_t>(p.size());
  const int64_t blocks = (n + kMassBlock - 1) / kMassBlock;
  block_mass->resize(static_cast<size_t>(blocks));
  double total = 0.0;
  for (int64_t b = 0; b < blocks; ++b) {
    (*block_mass)[b] = BlockMass(p.data() + b * kMassBlock, std::min(kMassBlock, n - b * kMassBlock), threshold);
    total += (*block_mass)[b];
  }
  return total;
}

// A finite logit that at least `k` tokens reach: the k-th largest of the block maxima, each a token of its own.
float TopKBound(std::span<const float> logits, int64_t k, std::vector<float>* maxima) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  const int64_t n = static_cast<int64_t>(logits.size());
  const int64_t blocks = (n + kSearchBlock - 1) / kSearchBlock;
  if (k > blocks) return kLowest;
  maxima->resize(static_cast<size_t>(blocks));
  for (int64_t b = 0; b < blocks; ++b) {
    (*maxima)[b] = BlockMaximum(logits.data() + b * kSearchBlock, std::min(kSearchBlock, n - b * kSearchBlock));
  }
  std::nth_element(maxima->begin(), maxima->begin() + (k - 1), maxima->end(), std::greater<float>());
  return std::max((*maxima)[k - 1], kLowest);
}

// Drops the candidates that are less likely than `cut`; the others stay in ascending order.
void DropBelow(int32_t cut, const MoreLikely& more_likely, std::vector<int32_t>* candidates) {
  std::erase_if(*candidates, [&](int32_t id) { return more_likely(cut, id); });
}

// Fills scratch->candidates with the k most likely tokens that can be drawn.
void SelectTopK(std::span<const float> logits, int64_t k, SamplerScratch* scratch) {
  auto& candidates = scratch->candidates;
  candidates.clear();
  const float bound = TopKBound(logits, k, &scratch->block_maxima);
  ForEachAtLeast(logits, bound, [&](int32_t id) { candidates.push_back(id); });
  if (static_cast<int64_t>(candidates.size()) <= k) return;
  const MoreLikely more_likely{logits.data()};
  auto& ranked = scratch->ranked;
  ranked = candidates;
  std::nth_element(ranked.begin(), ranked.begin() + (k - 1), ranked.end(), more_likely);
  DropBelow(ranked[k - 1], more_likely, &candidates);
}

// Fills scratch->candidates with a superset of the smallest set that has `mass` of `total`: all the tokens left out
// together weigh less than what may be left out.
void SelectHeavy(double mass, double total, SamplerScratch* scratch) {
  constexpr float kSmallest = std::numeric_limits<float>::denorm_min();
  const auto& p = scratch->probabilities;
  scratch->candidates.clear();
  // Half the allowance, so that rounding cannot make the rest heavier than it.
  const float bound = std::max(kSmallest, static_cast<float>(0.5 * (total - mass) / static_cast<double>(p.size())));
  ForEachAtLeast(p, bound, [&](int32_t id) { scratch->candidates.push_back(id); });
}

double MassOf(const std::vector<int32_t>& ids, const std::vector<float>& p) {
  double mass = 0.0;
  for (const int32_t id : ids) mass += p[id];
  return mass;
}

// Keeps the smallest set of most likely candidates whose mass reaches `mass`. Only the tokens of one narrow bucket of
// log-probability, the one in which the mass is reached, are sorted.
void KeepMass(double mass, std::span<const float> logits, float max, float scale, SamplerScratch* scratch) {
  const auto& p = scratch->probabilities;
  // Never decreases with falling logits, so that buckets and MoreLikely agree.
  const auto bucket_of = [&](int32_t id) {
    return static_cast<int>(std::min((max - logits[id]) * scale * kBucketsPerNat, static_cast<float>(kBuckets - 1)));
  };
  auto& bucket_mass = scratch->bucket_mass;
  bucket_mass.assign(kBuckets, 0.0);
  for (const int32_t id : scratch->candidates) bucket_mass[bucket_of(id)] += p[id];
  double sum = 0.0;
  int bucket = 0;
  while (bucket < kBuckets && sum + bucket_mass[bucket] < mass) sum += bucket_mass[bucket++];
  if (bucket == kBuckets) return;  // rounding: everything together just misses it
  auto& ranked = scratch->ranked;
  ranked.clear();
  for (const int32_t id : scratch->candidates) {
    if (bucket_of(id) == bucket) ranked.push_back(id);
  }
  const MoreLikely more_likely{logits.data()};
  std::sort(ranked.begin(), ranked.end(), more_likely);
  size_t last = 0;
  for (; last + 1 < ranked.size() && sum + p[ranked[last]] < mass; ++last) sum += p[ranked[last]];
  DropBelow(ranked[last], more_likely, &scratch->candidates);
}

// Drops the candidates whose probability is below `threshold`, and fills candidate_weights for the others.
void WeighCandidates(float threshold, SamplerScratch* scratch) {
  const auto& p = scratch->probabilities;
  auto& candidates = scratch->candidates;
  std::erase_if(candidates, [&](int32_t id) { return p[id] < threshold; });
  auto& weights = scratch->candidate_weights;
  weights.clear();
  for (const int32_t id : candidates) weights.push_back(p[id]);
}

// A row of logits on its way to a token.
struct Row {
  int32_t best = 0;     // the likeliest token
  bool certain = true;  // `best` is drawn whatever the noise
  float max = 0.0f;
  float scale = 0.0f;
  bool top_k = false;
  bool top_p = false;
};

// Fills scratch->probabilities unless the row is certain.
Row ReadRow(std::span<const float> logits, const SamplingParams& params, const kernels::Ops& ops, SamplerScratch* scratch) {
  const int64_t n = static_cast<int64_t>(logits.size());
  HAAST_CHECK(n > 0 && scratch->probabilities.size() == logits.size()) << n << " logits, scratch for " << scratch->probabilities.size();
  Row row{.best = ops.argmax(logits.data(), n)};
  row.max = logits[static_cast<size_t>(row.best)];
  if (!std::isfinite(row.max)) {
    if (row.max != kInfinity) row.best = 0;
    return row;
  }
  row.scale = 1.0f / params.temperature;
  if (params.temperature <= 0.0f || !std::isfinite(row.scale)) return row;
  row.certain = false;
  row.top_k = params.top_k > 0 && params.top_k < n;
  row.top_p = params.top_p < 1.0f;
  ExpWeights(logits, row.max, row.scale, ops, scratch->probabilities);
  return row;
}

// Fills scratch->candidates with what top-k and top-p leave of a row that has one of them.
void Filter(std::span<const float> logits, const SamplingParams& params, const Row& row, SamplerScratch* scratch) {
  const auto& p = scratch->probabilities;
  if (row.top_k) SelectTopK(logits, params.top_k, scratch);
  if (!row.top_p) return;
  const double total = row.top_k ? MassOf(scratch->candidates, p) : MassOfBlocks(p, 0.0f, &scratch->block_mass);
  if (!row.top_k) SelectHeavy(params.top_p * total, total, scratch);
  KeepMass(params.top_p * total, logits, row.max, row.scale, scratch);
}

// An infinite sum belongs to one infinite logit, or to none at all.
float LogProb(float logit, float log_sum_exp) {
  if (std::isinf(log_sum_exp)) return logit == log_sum_exp ? 0.0f : -kInfinity;
  return logit - log_sum_exp;
}

}  // namespace

Status CheckSamplingParams(const SamplingParams& params, int64_t vocab) {
  // Written so that NaN fails every comparison.
  if (!(params.temperature >= 0.0f && params.temperature <= kMaxTemperature)) {
    return Err(ErrorCode::kInvalidArgument, "temperature is {}, expected a number in [0, {}]", params.temperature, kMaxTemperature);
  }
  if (params.top_k < 0) return Err(ErrorCode::kInvalidArgument, "top_k is {}, expected 0 (off) or a positive number", params.top_k);
  if (!(params.top_p > 0.0f && params.top_p <= 1.0f)) {
    return Err(ErrorCode::kInvalidArgument, "top_p is {}, expected a number in (0, 1]", params.top_p);
  }
  if (!(params.min_p >= 0.0f && params.min_p <= 1.0f)) {
    return Err(ErrorCode::kInvalidArgument, "min_p is {}, expected a number in [0, 1]", params.min_p);
  }
  if (!(params.repetition_penalty > 0.0f && params.repetition_penalty <= kMaxRepetitionPenalty)) {
    return Err(ErrorCode::kInvalidArgument, "repetition_penalty is {}, expected a number in (0, {}]", params.repetition_penalty,
               kMaxRepetitionPenalty);
  }
  for (const auto& [name, value] :
       {std::pair("frequency_penalty", params.frequency_penalty), {"presence_penalty", params.presence_penalty}}) {
    if (std::abs(value) <= kMaxPenalty) continue;
    return Err(ErrorCode::kInvalidArgument, "{} is {}, expected a number in [-{}, {}]", name, value, kMaxPenalty, kMaxPenalty);
  }
  for (const TokenBias& entry : params.logit_bias) {
    if (entry.token >= 0 && entry.token < vocab && std::abs(entry.bias) <= kMaxBias) continue;
    return Err(ErrorCode::kInvalidArgument, "logit_bias of token {} is {}, expected a token in [0, {}) and a number in [-{}, {}]",
               entry.token, entry.bias, vocab, kMaxBias, kMaxBias);
  }
  return {};
}

float ExpWeights(std::span<const float> logits, float max, float scale, const kernels::Ops& ops, std::span<float> weights) {
  const float sum = ops.exp_row(logits.data(), static_cast<int64_t>(logits.size()), max, scale, weights.data());
  if (std::isfinite(sum)) return sum;
  double rest = 0.0;
  for (float& weight : weights) {
    weight = std::isnan(weight) ? 0.0f : weight;
    rest += weight;
  }
  return static_cast<float>(rest);
}

int32_t SampleToken(std::span<const float> logits, const SamplingParams& params, int64_t position, const kernels::Ops& ops,
                    SamplerScratch* scratch) {
  const Row row = ReadRow(logits, params, ops, scratch);
  if (row.certain) return row.best;
  const auto& p = scratch->probabilities;
  const float threshold = params.min_p * p[row.best];
  Race race(Noise(params.seed, position), 1);
  race.Expect(row.best, p[row.best]);
  if (!row.top_k && !row.top_p) {
    race.OfferRow(p, threshold);
  } else {
    Filter(logits, params, row, scratch);
    WeighCandidates(threshold, scratch);
    race.OfferTokens(scratch->candidates, scratch->candidate_weights);
  }
  return race.arrivals()[0].token;
}

WeightedTokens Distribution(std::span<const float> logits, const SamplingParams& params, const kernels::Ops& ops, SamplerScratch* scratch) {
  const Row row = ReadRow(logits, params, ops, scratch);
  if (row.certain) {
    scratch->candidates.assign(1, row.best);
    scratch->candidate_weights.assign(1, 1.0f);
    return {scratch->candidates, scratch->candidate_weights};
  }
  if (row.top_k || row.top_p) {
    Filter(logits, params, row, scratch);
  } else {
    scratch->candidates.resize(logits.size());
    std::iota(scratch->candidates.begin(), scratch->candidates.end(), 0);
  }
  // Exp may round a small probability to 0.
  WeighCandidates(std::max(params.min_p * scratch->probabilities[row.best], std::numeric_limits<float>::denorm_min()), scratch);
  return {scratch->candidates, scratch->candidate_weights};
}

void FillLogprobs(std::span<const float> logits, int top_n, const kernels::Ops& ops, TokenOutput* output) {
  const int64_t n = static_cast<int64_t>(logits.size());
  HAAST_CHECK(output->token >= 0 && output->token < n) << "token " << output->token << " of " << n;
  const float log_sum_exp = ops.row_stats(logits.data(), n).log_sum_exp;
  output->logprob = LogProb(logits[output->token], log_sum_exp);
  auto& top = output->top;
  FindLargest(logits, top_n, &top);
  for (TokenLogprob& entry : top) entry.logprob = LogProb(entry.logprob, log_sum_exp);
}

}  // namespace haast::sampling
