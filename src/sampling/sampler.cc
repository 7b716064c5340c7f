#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "base/check.h"
#include "base/format.h"
#include "sampling/philox.h"

namespace haast::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMaxTemperature = 100.0f;
constexpr int64_t kMassBlock = 256;   // tokens whose mass is summed together
constexpr int64_t kSearchBlock = 64;  // tokens skipped together when none of them is large enough
constexpr int kLanes = 16;            // partial results side by side, so that a compiler may use vector registers
constexpr int kBuckets = 2048;        // of log-probability, for top-p
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
  const double target = uniform * MassOfBlocks(p, threshold, block_mass);
  const int64_t block = Walk(static_cast<int64_t>(block_mass->size()), 0.0, target, [&](int64_t b) { return (*block_mass)[b]; });
  double before = 0.0;
  for (int64_t b = 0; b < block; ++b) before += (*block_mass)[b];
  const int64_t begin = block * kMassBlock;
  const int64_t count = std::min(kMassBlock, static_cast<int64_t>(p.size()) - begin);
  const int64_t offset = Walk(count, before, target, [&](int64_t i) { return p[begin + i] >= threshold ? double{p[begin + i]} : 0.0; });
  return static_cast<int32_t>(begin + offset);
}

using FourFloats = float __attribute__((vector_size(16)));

// Written with vectors: compilers leave a loop of fp32 maxima scalar, for the sake of NaN. Here a NaN never wins.
FourFloats Larger(FourFloats value, FourFloats than) { return value > than ? value : than; }

// The largest of `count` values that are not NaN; -infinity where there is none.
float BlockMaximum(const float* values, int64_t count) {
  const FourFloats lowest = FourFloats{} - kInfinity;
  FourFloats lanes[4] = {lowest, lowest, lowest, lowest};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    FourFloats next[4];
    std::memcpy(next, values + i, sizeof(next));
    for (int j = 0; j < 4; ++j) lanes[j] = Larger(next[j], lanes[j]);
  }
  const FourFloats all = Larger(Larger(lanes[0], lanes[1]), Larger(lanes[2], lanes[3]));
  float largest = -kInfinity;
  for (int j = 0; j < 4; ++j) largest = all[j] > largest ? all[j] : largest;
  for (; i < count; ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

// Calls visit(id) in ascending order for every value that is at least `bound` (a reference: visit may raise it).
template <typename Visit>
void ForEachAtLeast(std::span<const float> values, const float& bound, const Visit& visit) {
  const int64_t n = static_cast<int64_t>(values.size());
  for (int64_t begin = 0; begin < n; begin += kSearchBlock) {
    const int64_t count = std::min(kSearchBlock, n - begin);
    if (!(BlockMaximum(values.data() + begin, count) >= bound)) continue;
    for (int64_t i = begin; i < begin + count; ++i) {
      if (values[i] >= bound) visit(static_cast<int32_t>(i));
    }
  }
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

// Picks along ascending id among the candidates (ascending) whose probability is at least `threshold`.
int32_t DrawCandidate(float threshold, float uniform, SamplerScratch* scratch) {
  const auto& p = scratch->probabilities;
  auto& candidates = scratch->candidates;
  std::erase_if(candidates, [&](int32_t id) { return p[id] < threshold; });
  const double target = uniform * MassOf(candidates, p);
  const int64_t index = Walk(static_cast<int64_t>(candidates.size()), 0.0, target, [&](int64_t i) { return double{p[candidates[i]]}; });
  return candidates[index];
}

// An infinite sum belongs to one infinite logit, or to none at all.
float LogProb(float logit, float log_sum_exp) {
  if (std::isinf(log_sum_exp)) return logit == log_sum_exp ? 0.0f : -kInfinity;
  return logit - log_sum_exp;
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
    const double total = top_k ? MassOf(scratch->candidates, p) : MassOfBlocks(p, 0.0f, &scratch->block_mass);
    if (!top_k) SelectHeavy(params.top_p * total, total, scratch);
    KeepMass(params.top_p * total, logits, max, scale, scratch);
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
  float bound = std::numeric_limits<float>::lowest();
  ForEachAtLeast(logits, bound, [&](int32_t id) {
    // Behind those it equals: of equal ones the earlier stays.
    const auto place = std::find_if(top.begin(), top.end(), [&](const TokenLogprob& other) { return other.logprob < logits[id]; });
    top.insert(place, {id, logits[id]});
    if (top.size() > wanted) top.pop_back();
    if (top.size() == wanted) bound = std::nextafter(top.back().logprob, kInfinity);
  });
  for (TokenLogprob& entry : top) entry.logprob = LogProb(entry.logprob, log_sum_exp);
}

}  // namespace haast::sampling
