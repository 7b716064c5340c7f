#include "spec/depth_policy.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace haast::spec {
namespace {

constexpr double kFade = 0.98;          // of a count with every round: half is forgotten after 34
constexpr double kPriorRounds = 6.0;    // what the estimate over all requests is worth
constexpr double kUnknownChance = 0.5;  // before anything was seen
constexpr double kLearning = 0.05;      // share of a new timing
constexpr int kProbeEvery = 160;        // steps
constexpr int kProbeRounds = 4;

// Drafting must promise this much more than plain decoding: what an estimate is wrong by costs as much as it gains.
constexpr double kWorthwhile = 1.01;

// Calls visit(j, chance that draft j is emitted) for the first `depth` drafts of a request.
template <typename Visit>
void ForEachDraft(const DepthRequest& request, int depth, const Visit& visit) {
  double reached = 1.0;
  for (int j = 0; j < depth; ++j) {
    reached *= request.own->Chance(j, request.prior);
    visit(j, reached);
  }
}

// The price of a step: the target's launch, the drafter's learning from it, and its drafting for the next one.
double StepSeconds(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others, const CostModel& costs) {
  LaunchSize target = others;
  LaunchSize extend;
  std::array<LaunchSize, kMaxPlannedDepth> steps{};
  for (size_t i = 0; i < requests.size(); ++i) {
    const int64_t depth = depths[i];
    target.Add(depth + 1, requests[i].context + depth + 1);
    if (depth == 0) continue;
    const int64_t learned = 1 + depth / 2;
    extend.Add(learned, requests[i].context + learned);
    ++extend.logit_rows;
    for (int64_t level = 1; level < depth; ++level) steps[static_cast<size_t>(level)].Add(1, requests[i].context + level);
  }
  target.logit_rows = target.rows;
  double seconds = costs.target->Seconds(target);
  if (extend.rows > 0) seconds += costs.draft_extend->Seconds(extend);
  for (LaunchSize& step : steps) {
    if (step.rows == 0) continue;
    step.logit_rows = step.rows;
    seconds += costs.draft_step->Seconds(step);
  }
  return seconds;
}

}  // namespace

void Learn(const LaunchSize& size, double seconds, LaunchCosts* costs) {
  const double expected = costs->Seconds(size);
  if (size.rows < 1 || !(seconds > 0.0) || !(expected > 0.0)) return;
  // A launch that was interrupted by something else says little.
  const double ratio = std::clamp(seconds / expected, 0.5, 2.0);
  for (size_t i = 0; i < costs->all_logits.rows.size(); ++i) {
    // The points beside the launch move most; all move a little.
    const double distance = std::abs(std::log2(static_cast<double>(size.rows) / static_cast<double>(costs->all_logits.rows[i])));
    costs->all_logits.seconds[i] *= 1.0 + kLearning * (ratio - 1.0) * std::max(0.25, 1.0 - distance);
  }
}

void AcceptanceEstimate::Observe(int drafted, int accepted) {
  for (int i = 0; i < std::min(drafted, kMaxPlannedDepth); ++i) {
    counts_.tried[i] = counts_.tried[i] * kFade + 1.0;
    counts_.accepted[i] = counts_.accepted[i] * kFade + (i < accepted ? 1.0 : 0.0);
    if (i >= accepted) break;  // what comes after a refused draft was not judged
  }
}

double AcceptanceEstimate::Chance(int position, const AcceptanceEstimate* prior) const {
  const int i = std::clamp(position, 0, kMaxPlannedDepth - 1);
  // Where nothing was tried, a draft is as good as the one before it.
  const double expected = prior != nullptr ? prior->Chance(i, nullptr) : i == 0 ? kUnknownChance : Chance(i - 1, nullptr);
  const double weight = prior == nullptr ? 1.0 : kPriorRounds;
  return (counts_.accepted[i] + weight * expected) / (counts_.tried[i] + weight);
}

bool AcceptanceEstimate::AreCounts(const Counts& counts) {
  constexpr double kMost = 1.0 / (1.0 - kFade) + 1e-6;  // where a count that grows by 1 each round ends
  for (size_t i = 0; i < counts.tried.size(); ++i) {
    const bool ordered = counts.accepted[i] >= 0.0 && counts.accepted[i] <= counts.tried[i] && counts.tried[i] <= kMost;
    if (!ordered) return false;  // a NaN too
  }
  return true;
}

StepPrice PriceStep(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others, const CostModel& costs) {
  StepPrice price{.tokens = 0.0, .seconds = StepSeconds(requests, depths, others, costs)};
  for (size_t i = 0; i < requests.size(); ++i) {
    price.tokens += 1.0;
    ForEachDraft(requests[i], depths[i], [&](int, double reached) { price.tokens += reached; });
  }
  return price;
}

std::vector<int> ChooseDepths(std::span<const DepthRequest> requests, const LaunchSize& others, const CostModel& costs) {
  struct Step {
    double gain;  // chance that this draft is emitted
    int depth;
    size_t request;
  };
  std::vector<Step> steps;
  for (size_t i = 0; i < requests.size(); ++i) {
    ForEachDraft(requests[i], std::min(requests[i].most, kMaxPlannedDepth),
                 [&](int j, double reached) { steps.push_back({reached, j + 1, i}); });
  }
  // The likeliest drafts first. A deeper draft of a request is never likelier than the one before it, and comes after it.
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.gain > b.gain; });
  std::vector<int> depths(requests.size(), 0);
  std::vector<int> best = depths;
  double tokens = static_cast<double>(requests.size());
  const auto rate = [&] {
    const double seconds = StepSeconds(requests, depths, others, costs);
    return seconds > 0.0 ? tokens / seconds : 0.0;
  };
  double best_rate = rate() * kWorthwhile;
  for (const Step& step : steps) {
    depths[step.request] = step.depth;
    tokens += step.gain;
    const double now = rate();
    if (now <= best_rate) continue;
    best_rate = now;
    best = depths;
  }
  return best;
}

bool ProbeClock::IsSteps(int steps) { return steps >= 0 && steps < kProbeEvery + kProbeRounds; }

bool ProbeClock::Tick() {
  ++steps_;
  if (steps_ < kProbeEvery) return false;
  if (steps_ >= kProbeEvery + kProbeRounds - 1) steps_ = 0;
  return true;
}

}  // namespace haast::spec
