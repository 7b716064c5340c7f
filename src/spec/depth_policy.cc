#include "spec/depth_policy.h"

#include <algorithm>
#include <cmath>

namespace haast::spec {
namespace {

constexpr double kFade = 0.98;           // of a count with every round: half is forgotten after 34
constexpr double kPriorRounds = 6.0;     // what the estimate over all requests is worth
constexpr double kUnknownChance = 0.8;   // before anything was seen: hopeful, for what is not tried is not learned
constexpr double kUnknownRounds = 10.0;  // what that is worth
constexpr double kLearning = 0.05;       // share of a new timing
constexpr double kProbeShare = 0.01;     // of the time
constexpr int kProbeRounds = 4;
constexpr int64_t kHorizon = 64;  // rounds over which a backlog is shared out, where the answer may be longer

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

// What a round of drafting leaves to be learned belongs to the next one; a longer backlog is shared out over all rounds to come.
int64_t FreshRows(const DepthRequest& request) { return request.backlog <= kMaxPlannedDepth + 1 ? request.backlog : 2; }

double BacklogSeconds(const DepthRequest& request, const CostModel& costs) {
  const double all = costs.draft_extend->Seconds({.rows = request.backlog, .logit_rows = 1});
  const double fresh = costs.draft_extend->Seconds({.rows = FreshRows(request), .logit_rows = 1});
  return std::max(0.0, all - fresh) / static_cast<double>(std::clamp<int64_t>(request.remaining, 1, kHorizon));
}

// The price of a step: the drafter's learning and drafting, and the target's launch.
double StepSeconds(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others, const CostModel& costs) {
  double seconds = 0.0;
  LaunchSize target = others;
  LaunchSize extend;
  std::array<LaunchSize, kMaxPlannedDepth> steps{};
  for (size_t i = 0; i < requests.size(); ++i) {
    const int64_t depth = depths[i];
    target.Add(depth + 1, requests[i].context + depth + 1);
    if (depth == 0) continue;
    extend.Add(FreshRows(requests[i]), requests[i].context);
    ++extend.logit_rows;
    seconds += BacklogSeconds(requests[i], costs);
    for (int64_t level = 1; level < depth; ++level) steps[static_cast<size_t>(level)].Add(1, requests[i].context + level);
  }
  target.logit_rows = target.rows;
  seconds += costs.target->Seconds(target);
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
  const double weight = prior == nullptr ? kUnknownRounds : kPriorRounds;
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
  std::vector<int> best(requests.size(), 0);
  std::vector<std::array<double, kMaxPlannedDepth + 1>> tokens(requests.size());  // expected of each request by its depth
  const auto rate = [&](const std::vector<int>& depths) {
    double sum = 0.0;
    for (size_t i = 0; i < depths.size(); ++i) sum += tokens[i][static_cast<size_t>(depths[i])];
    const double seconds = StepSeconds(requests, depths, others, costs);
    return seconds > 0.0 ? sum / seconds : 0.0;
  };
  double best_rate = 0.0;
  const auto consider = [&](const std::vector<int>& depths) {
    const double now = rate(depths);
    if (now <= best_rate) return;
    best_rate = now;
    best = depths;
  };
  // The likeliest drafts first. A deeper draft of a request is never likelier than the one before it, and comes after it.
  struct Draft {
    double gain;  // chance that it is emitted
    int depth;
    size_t request;
  };
  std::vector<Draft> drafts;
  int deepest = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const int most = std::min(requests[i].most, kMaxPlannedDepth);
    deepest = std::max(deepest, most);
    tokens[i][0] = 1.0;
    ForEachDraft(requests[i], most, [&](int j, double reached) {
      tokens[i][static_cast<size_t>(j) + 1] = tokens[i][static_cast<size_t>(j)] + reached;
      drafts.push_back({reached, j + 1, i});
    });
  }
  best_rate = rate(best) * kWorthwhile;
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) { return a.gain > b.gain; });
  std::vector<int> depths(requests.size(), 0);
  for (const Draft& draft : drafts) {
    depths[draft.request] = draft.depth;
    consider(depths);
  }
  // That order leads past shallow chains for all, which share their launches of the drafter.
  for (int depth = 1; requests.size() > 1 && depth <= deepest; ++depth) {
    for (size_t i = 0; i < requests.size(); ++i) depths[i] = std::min({depth, requests[i].most, kMaxPlannedDepth});
    consider(depths);
  }
  return best;
}

int ProbeClock::Tick(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& step, const CostModel& costs) {
  const DepthRequest* least = nullptr;  // to catch up, of the idle ones
  const DepthRequest* same = nullptr;   // as in the step before
  for (size_t i = 0; i < requests.size(); ++i) {
    if (depths[i] > 0 || requests[i].most == 0) continue;
    if (least == nullptr || requests[i].backlog < least->backlog) least = &requests[i];
    if (requests[i].id == probing_) same = &requests[i];
  }
  LaunchSize plain = step;
  plain.logit_rows = plain.rows;
  const double seconds = costs.target->Seconds(plain);
  if (least == nullptr || seconds <= 0.0) return -1;
  saved_ += kProbeShare;
  if (rounds_ > 0) {
    --rounds_;
    if (same != nullptr) return static_cast<int>(same - requests.data());
  }
  const int depth = std::min(kProbeDepth, least->most);
  LaunchSize others = step;
  --others.rows;
  const double round = StepSeconds({least, 1}, {&depth, 1}, others, costs) - seconds;
  const double backlog = costs.draft_extend->Seconds({.rows = least->backlog, .logit_rows = 1});
  if (saved_ * seconds < kProbeRounds * round + backlog) return -1;
  saved_ = 0.0;
  rounds_ = kProbeRounds - 1;
  probing_ = least->id;
  return static_cast<int>(least - requests.data());
}

}  // namespace haast::spec
