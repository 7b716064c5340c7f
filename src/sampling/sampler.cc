#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/format.h"
#include "sampling/philox.h"

namespace haast::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMaxTemperature = 100.0f;
constexpr int64_t kBlock = 256;  // tokens whose mass is summed together
constexpr int kLanes = 8;        // partial sums side by side, so that a compiler may use vector registers

// Most likely first; equal logits by lower id. Orders by logit: exp may round two different logits to one probability.
struct MoreLikely {
  const float* logits;
  bool operator()(int32_t a, int32_t b) const { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; }
};

// Mass of `count` probabilities of which those below `threshold` count as 0, in one fixed order.
double BlockMass(const float* p, int64_t count, float threshold) {
  std::array<double, kLanes> lanes{};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += p[i + lane] >= threshold ? p[i + lane] : 0.0f;
  }
  for (; i < count; ++i) lanes[0] += p[i] >= threshold ? p[i] : 0.0f;
  double mass = 0.0;
  for (const double lane : lanes) mass += lane;
  return mass;
}

// The first of `count` items at which the running sum of mass(i) exceeds `target`, starting from `sum`. Rounding may
// keep the sum from getting there: then the last item with mass.
template <typename Mass>
int64_t Walk(int64_t count, double sum, double target, const Mass& mass) {
  int64_t last = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double m = mass(i);
    if (m <= 0.0) continue;
    last = i;
    sum += m;
    if (sum > target) break;
  }
  return last;
}

// Picks along ascending id among the tokens whose probability is at least `threshold`: block by block, then inside one.
int32_t DrawDense(const std::vector<float>& p, float threshold, float uniform, std::vector<double>* block_mass) {
  const int64_t n = static_cast<int64_t>(p.size());
  const int64_t blocks = (n + kBlock - 1) / kBlock;
  block_mass->resize(static_cast<size_t>(blocks));
  double total = 0.0;
  for (int64_t b = 0; b < blocks; ++b) {
    (*block_mass)[b] = BlockMass(p.data() + b * kBlock, std::min(kBlock, n - b * kBlock), threshold);
    total += (*block_mass)[b];
  }
  const double target = uniform * total;
  const int64_t block = Walk(blocks, 0.0, target, [&](int64_t b) { return (*block_mass)[b]; });
  double before = 0.0;
  for (int64_t b = 0; b < block; ++b) before += (*block_mass)[b];
  const int64_t begin = block * kBlock;
  const int64_t offset =
      Walk(std::min(kBlock, n - begin), before, target, [&](int64_t i) { return p[begin + i] >= threshold ? double{p[begin + i]} : 0.0; });
  return static_cast<int32_t>(begin + offset);
}

// The largest logit of each block that is not NaN; -infinity where there is none.
float BlockMaximum(const float* logits, int64_t count) {
  std::array<float, kLanes> lanes;
  lanes.fill(-kInfinity);
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] = logits[i + lane] > lanes[lane] ? logits[i + lane] : lanes[lane];
  }
  for (; i < count; ++i) lanes[0] = logits[i] > lanes[0] ? logits[i] : lanes[0];
  return *std::max_element(lanes.begin(), lanes.end());
}

// A logit that at least `k` tokens reach: the k-th largest of the block maxima, each of which is a token of its own.
float TopKBound(std::span<const float> logits, int64_t k, std::vector<float>* maxima) {
  constexpr int64_t kTokens = 64;
  const int64_t n = static_cast<int64_t>(logits.size());
  const int64_t blocks = (n + kTokens - 1) / kTokens;
  if (k > blocks) return -kInfinity;
  maxima->resize(static_cast<size_t>(blocks));
  for (int64_t b = 0; b < blocks; ++b) (*maxima)[b] = BlockMaximum(logits.data() + b * kTokens, std::min(kTokens, n - b * kTokens));
  std::nth_element(maxima->begin(), maxima->begin() + (k - 1), maxima->end(), std::greater<float>());
  return (*maxima)[k - 1];
}

// Fills scratch->candidates with the k most likely tokens that can be drawn, in no particular order.
void SelectTopK(std::span<const float> logits, int64_t k, SamplerScratch* scratch) {
  auto& candidates = scratch->candidates;
  candidates.clear();
  const float bound = TopKBound(logits, k, &scratch->block_maxima);
  for (size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] >= bound && logits[id] > -kInfinity) candidates.push_back(static_cast<int32_t>(id));
  }
  if (static_cast<int64_t>(candidates.size()) <= k) return;
  std::nth_element(candidates.begin(), candidates.begin() + k, candidates.end(), MoreLikely{logits.data()});
  candidates.resize(static_cast<size_t>(k));
}

// Fills scratch->candidates with a superset of the smallest set that has `mass` of `total`: all the tokens left out
// together weigh less than what may be left out.
void SelectHeavy(double mass, double total, SamplerScratch* scratch) {
  const auto& p = scratch->probabilities;
  auto& candidates = scratch->candidates;
  candidates.clear();
  // Half the allowance, so that rounding cannot make the rest heavier than it.
  const float bound = static_cast<float>(0.5 * (total - mass) / static_cast<double>(p.size()));
  for (size_t id = 0; id < p.size(); ++id) {
    if (p[id] > 0.0f && p[id] >= bound) candidates.push_back(static_cast<int32_t>(id));
  }
}

// An infinite sum belongs to one infinite logit, or to none at all.
float LogProb(float logit, float log_sum_exp) {
  if (std::isinf(log_sum_exp)) return logit == log_sum_exp ? 0.0f : -kInfinity;
  return logit - log_sum_exp;
}

double MassOf(const std::vector<int32_t>& ids, const std::vector<float>& p) {
  double mass = 0.0;
  for (const int32_t id : ids) mass += p[id];
  return mass;
}

// Keeps the smallest set of most likely candidates whose mass reaches `mass`; at least one. Sorts only as far as needed.
void KeepMass(double mass, std::span<const float> logits, SamplerScratch* scratch) {
  auto& candidates = scratch->candidates;
  const MoreLikely more_likely{logits.data()};
  const size_t n = candidates.size();
  double sum = 0.0;
  for (size_t begin = 0, step = 64; begin < n; begin += step, step *= 4) {
    step = std::min(step, n - begin);
    const auto first = candidates.begin() + static_cast<int64_t>(begin);
    const auto last = first + static_cast<int64_t>(step);
    if (last != candidates.end()) std::nth_element(first, last, candidates.end(), more_likely);
    std::sort(first, last, more_likely);
    for (size_t i = begin; i < begin + step; ++i) {
      sum += scratch->probabilities[candidates[i]];
      if (sum < mass) continue;
      candidates.resize(i + 1);
      return;
    }
  }
}

int32_t DrawCandidate(float threshold, float uniform, SamplerScratch* scratch) {
  const auto& p = scratch->probabilities;
  auto& candidates = scratch->candidates;
  std::erase_if(candidates, [&](int32_t id) { return !(p[id] >= threshold); });
  std::sort(candidates.begin(), candidates.end());
  const double target = uniform * MassOf(candidates, p);
  const int64_t index = Walk(static_cast<int64_t>(candidates.size()), 0.0, target, [&](int64_t i) { return double{p[candidates[i]]}; });
  return candidates[index];
}

}  // namespace

Status CheckSamplingParams(const SamplingParams& params) {
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
  return {};
}

int32_t SampleToken(std::span<const float> logits, const SamplingParams& params, int64_t position, const kernels::Ops& ops,
                    SamplerScratch* scratch) {
  const int64_t n = static_cast<int64_t>(logits.size());
  HAAST_CHECK(n > 0 && scratch->probabilities.size() == logits.size()) << n << " logits, scratch for " << scratch->probabilities.size();
  const int32_t best = ops.argmax(logits.data(), n);
  const float max = logits[best];
  if (!std::isfinite(max)) return max == kInfinity ? best : 0;
  const float scale = 1.0f / params.temperature;
  if (params.temperature <= 0.0f || !std::isfinite(scale)) return best;

  auto& p = scratch->probabilities;
  const float sum = ops.exp_row(logits.data(), n, max, scale, p.data());
  if (!std::isfinite(sum)) {
    for (float& value : p) value = std::isnan(value) ? 0.0f : value;
  }
  const float threshold = params.min_p * p[best];
  const float uniform = Uniform(params.seed, position, Stream::kTarget);
  const bool top_k = params.top_k > 0 && params.top_k < n;
  const bool top_p = params.top_p < 1.0f;
  if (!top_k && !top_p) return DrawDense(p, threshold, uniform, &scratch->block_mass);
  if (top_k) SelectTopK(logits, params.top_k, scratch);
  if (top_p) {
    const double total = top_k ? MassOf(scratch->candidates, p) : BlockMass(p.data(), n, 0.0f);
    if (!top_k) SelectHeavy(params.top_p * total, total, scratch);
    KeepMass(params.top_p * total, logits, scratch);
  }
  return DrawCandidate(threshold, uniform, scratch);
}

void FillLogprobs(std::span<const float> logits, int top_n, const kernels::Ops& ops, TokenOutput* output) {
  const int64_t n = static_cast<int64_t>(logits.size());
  HAAST_CHECK(output->token >= 0 && output->token < n) << "token " << output->token << " of " << n;
  const float log_sum_exp = ops.row_stats(logits.data(), n).log_sum_exp;
  output->logprob = LogProb(logits[output->token], log_sum_exp);
  auto& top = output->top;  // holds logits until the end, most likely first
  top.clear();
  if (top_n <= 0) return;
  const size_t wanted = static_cast<size_t>(std::min<int64_t>(top_n, n));
  top.reserve(wanted + 1);
  float worst = -kInfinity;  // a token must beat it; of equal ones the earlier stays
  for (int32_t id = 0; id < n; ++id) {
    if (!(logits[id] > worst)) continue;
    auto place = std::find_if(top.begin(), top.end(), [&](const TokenLogprob& other) { return other.logprob < logits[id]; });
    top.insert(place, {id, logits[id]});
    if (top.size() > wanted) top.pop_back();
    if (top.size() == wanted) worst = top.back().logprob;
  }
  for (TokenLogprob& entry : top) entry.logprob = LogProb(entry.logprob, log_sum_exp);
}

}  // namespace haast::sampling
