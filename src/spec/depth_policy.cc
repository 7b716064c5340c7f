#include "spec/depth_policy.h"

#include <algorithm>
#include <cmath>

namespace haast::spec {
namespace {

constexpr double kFade = 0.98;           // of a count with every round: half is forgotten after 34
constexpr double kPriorRounds = 6.0;     // what the estimate over all requests is worth
constexpr double kUnknownChance = 0.8;   // before anything was seen: hopeful, for what is not tried is not learned
constexpr double kUnknownRounds = 10.0;  // what that is worth
constexpr double kProbeShare = 0.005;    // of the time
constexpr int kProbeRounds = 4;
// Share of a probe's price that it is taken to lose at least: those that seem to lose nothing are those whose chances are thought too good.
constexpr double kLeastLoss = 0.1;
constexpr int64_t kHorizon = 64;  // tokens over whose rounds a backlog is shared out, where the answer may be longer

// Drafting must promise this much more than plain decoding: what an estimate is wrong by costs as much as it gains.
constexpr double kWorthwhile = 1.01;

// Expected tokens of a step of one request, by its depth.
using TokensByDepth = std::array<double, kMaxPlannedDepth + 1>;

// Up to the depth that it may draft.
TokensByDepth ExpectedTokens(const DepthRequest& request) {
  TokensByDepth tokens{1.0};
  double reached = 1.0;  // chance that a draft is emitted
  for (int j = 0; j < std::min(request.most, kMaxPlannedDepth); ++j) {
    reached *= request.own->Chance(j, request.prior);
    tokens[static_cast<size_t>(j) + 1] = tokens[static_cast<size_t>(j)] + reached;
  }
  return tokens;
}

// What a round of drafting leaves to be learned belongs to the next one; a longer backlog is shared out over all rounds to come.
int64_t FreshRows(const DepthRequest& request) { return request.backlog <= kMaxPlannedDepth + 1 ? request.backlog : 2; }

// What it costs to learn `rows` of the backlog now.
double LearnSeconds(const DepthRequest& request, int64_t rows, const CostModel& costs) {
  const double now = costs.draft_extend->Seconds({.rows = rows, .logit_rows = 1});
  return request.follows ? now - costs.draft_extend->Seconds({.rows = rows}) : now;
}

// `tokens`: of a round, expected.
double BacklogSeconds(const DepthRequest& request, double tokens, const CostModel& costs) {
  const double extra = LearnSeconds(request, request.backlog, costs) - LearnSeconds(request, FreshRows(request), costs);
  return std::max(0.0, extra) / std::max(1.0, static_cast<double>(std::min(request.remaining, kHorizon)) / tokens);
}

// `tokens_of(i)`: ExpectedTokens of requests[i].
template <typename TokensOf>
StepPrice Price(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others, const CostModel& costs,
                const TokensOf& tokens_of) {
  StepPrice price{StepSeconds(requests, depths, others, costs), 0.0};
  double seconds = price.seconds;
  double steps = 0.0;  // that a token of every request takes, summed up
  for (size_t i = 0; i < requests.size(); ++i) {
    const double expected = tokens_of(i)[static_cast<size_t>(depths[i])];
    steps += 1.0 / expected;
    if (depths[i] > 0) seconds += BacklogSeconds(requests[i], expected, costs);
  }
  if (steps * seconds > 0.0) price.speed = static_cast<double>(requests.size()) / (steps * seconds);
  return price;
}

}  // namespace

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
  return Price(requests, depths, others, costs, [&](size_t i) { return ExpectedTokens(requests[i]); });
}

double StepSpeed(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others, const CostModel& costs) {
  return PriceStep(requests, depths, others, costs).speed;
}

std::vector<int> ChooseDepths(std::span<const DepthRequest> requests, const LaunchSize& others, const CostModel& costs) {
  std::vector<TokensByDepth> tokens;
  for (const DepthRequest& request : requests) tokens.push_back(ExpectedTokens(request));
  const auto speed = [&](const std::vector<int>& depths) {
    return Price(requests, depths, others, costs, [&](size_t i) -> const TokensByDepth& { return tokens[i]; }).speed;
  };
  std::vector<int> best(requests.size(), 0);
  double best_speed = speed(best) * kWorthwhile;
  const auto consider = [&](const std::vector<int>& depths) {
    const double now = speed(depths);
    if (now <= best_speed) return;
    best_speed = now;
    best = depths;
  };
  // The drafts that save most steps first. A deeper draft of a request never saves more than the one before it, and comes after it.
  struct Draft {
    double saved;  // steps for a token
    int depth;
    size_t request;
  };
  std::vector<Draft> drafts;
  int deepest = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const int most = std::min(requests[i].most, kMaxPlannedDepth);
    deepest = std::max(deepest, most);
    for (int d = 1; d <= most; ++d) {
      const auto depth = static_cast<size_t>(d);
      drafts.push_back({1.0 / tokens[i][depth - 1] - 1.0 / tokens[i][depth], d, i});
    }
  }
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) { return a.saved > b.saved; });
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

bool ProbeClock::GoOn(std::span<const DepthRequest> requests, std::vector<int>* depths) const {
  bool any = false;
  for (const size_t i : idle_) {
    if (std::find(probing_.begin(), probing_.end(), requests[i].id) == probing_.end()) continue;
    (*depths)[i] = std::min(depth_, requests[i].most);
    any = true;
  }
  return any;
}

ProbeClock::Choice ProbeClock::Cheapest(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others,
                                        const CostModel& costs) {
  const StepPrice usual = PriceStep(requests, depths, others, costs);
  Choice best{.lost = saved_ * usual.seconds};
  const auto consider = [&](std::span<const size_t> members, int depth) {
    caught_up_.assign(requests.begin(), requests.end());
    tried_.assign(depths.begin(), depths.end());
    double backlog = 0.0;
    for (const size_t i : members) {
      backlog += LearnSeconds(requests[i], requests[i].backlog, costs) - LearnSeconds(requests[i], 1, costs);
      caught_up_[i].backlog = 1;
      tried_[i] = std::min(depth, requests[i].most);
    }
    backlog = std::max(0.0, backlog);
    if (backlog > best.lost) return;
    const StepPrice tried = PriceStep(caught_up_, tried_, others, costs);
    const double lost = kProbeRounds * std::max(LostSeconds(tried, usual), kLeastLoss * (tried.seconds - usual.seconds)) + backlog;
    if (lost <= best.lost) best = {members, depth, lost};
  };
  const auto behind = [&](size_t a, size_t b) { return requests[a].backlog < requests[b].backlog; };
  const std::span<const size_t> least(&*std::min_element(idle_.begin(), idle_.end(), behind), 1);
  if (requests[least[0]].most > 1) consider(least, 2);
  consider(least, 1);
  if (idle_.size() > 1) consider(idle_, 1);
  return best;
}

void ProbeClock::Tick(std::span<const DepthRequest> requests, const LaunchSize& others, const CostModel& costs, std::vector<int>* depths) {
  idle_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    if ((*depths)[i] == 0 && requests[i].most > 0) idle_.push_back(i);
  }
  if (idle_.empty()) return;
  const double seconds = StepSeconds(requests, *depths, others, costs);
  if (seconds <= 0.0) return;
  saved_ = std::min(kMostSaved, saved_ + kProbeShare);
  if (rounds_ > 0) {
    --rounds_;
    if (GoOn(requests, depths)) return;
  }
  const Choice choice = Cheapest(requests, *depths, others, costs);
  if (choice.members.empty()) return;
  saved_ -= choice.lost / seconds;
  depth_ = choice.depth;
  rounds_ = kProbeRounds - 1;
  probing_.clear();
  for (const size_t i : choice.members) probing_.push_back(requests[i].id);
  GoOn(requests, depths);
}

}  // namespace haast::spec
