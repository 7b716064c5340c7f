#include "spec/cost_learning.h"

#include <algorithm>
#include <cmath>

namespace haast::spec {
namespace {

constexpr double kLearning = 0.05;       // share of a new timing, once there are many
constexpr double kFirstTiming = 0.5;     // what the measurement at the start is worth, in timings
constexpr double kForgetting = 0.99;     // of the count of timings, with every launch
constexpr double kFar = 1.4;             // times the rows of the last point
constexpr double kExploreShare = 0.005;  // of the time
constexpr double kFewTimings = 3.0;
constexpr double kManyTimings = 1.0 / kLearning;

// A launch that was interrupted by something else says little. None is too short by accident.
double Ratio(double seconds, double expected) { return std::clamp(seconds / expected, 0.1, 1.5); }

// The mean of few timings, then one that fades.
double Rate(double timings) { return std::max(kLearning, 1.0 / (1.0 + kFirstTiming + timings)); }

// The row count after `rows` in the target's curve, if few launches have shown what it costs; 0: none.
int64_t UnknownRows(const CostCurve& curve, int64_t rows, const CostLearner& learner) {
  const auto next = std::upper_bound(curve.rows.begin(), curve.rows.end(), rows);
  if (next == curve.rows.end()) return 0;
  return learner.Timings(static_cast<size_t>(next - curve.rows.begin())) < kFewTimings ? *next : 0;
}

// The shallowest chains first, as far as requests may draft.
void Deepen(std::span<const DepthRequest> requests, int64_t extra, std::vector<int>* depths) {
  for (; extra > 0; --extra) {
    int* shallowest = nullptr;
    for (size_t i = 0; i < requests.size(); ++i) {
      int& depth = (*depths)[i];
      if (depth < std::min(requests[i].most, kMaxPlannedDepth) && (shallowest == nullptr || depth < *shallowest)) shallowest = &depth;
    }
    if (shallowest == nullptr) return;
    ++*shallowest;
  }
}

}  // namespace

void CostLearner::Learn(const LaunchSize& size, double seconds, LaunchCosts* costs) {
  const double expected = costs->Seconds(size);
  if (size.rows < 1 || !(seconds > 0.0) || !(expected > 0.0) || !std::isfinite(seconds + expected)) return;
  CostCurve& curve = costs->all_logits;
  timings_.resize(curve.rows.size(), 0.0);
  const double ratio = Ratio(seconds, expected);
  if (static_cast<double>(size.rows) > kFar * static_cast<double>(curve.rows.back())) {
    const double rows = curve.At(size.rows);
    curve.rows.push_back(size.rows);
    curve.seconds.push_back(std::max(curve.seconds.back(), rows * std::clamp(seconds / expected, 0.1, 3.0)));
    timings_.push_back(1.0);
    return;
  }
  // What attention is taken to cost answers for its share.
  LaunchSize no_rows = size;
  no_rows.rows = no_rows.logit_rows = 0;
  const double attention = costs->Seconds(no_rows) / expected;
  costs->seconds_per_kv_entry *= 1.0 + (ratio - 1.0) * attention * kLearning;
  costs->seconds_per_row_entry *= 1.0 + (ratio - 1.0) * attention * kLearning;
  // The points beside the launch move most. All move a little where they know their cost: then it is the machine that has changed.
  const auto nearness = [&](size_t i) {
    return std::max(0.0, 1.0 - std::abs(std::log2(static_cast<double>(size.rows) / static_cast<double>(curve.rows[i]))));
  };
  double timings = 0.0;
  for (size_t i = 0; i < curve.rows.size(); ++i) timings += nearness(i) * timings_[i];
  const double far = timings >= kManyTimings ? 0.25 * kLearning : 0.0;
  for (size_t i = 0; i < curve.rows.size(); ++i) {
    const double near = nearness(i);
    curve.seconds[i] *= 1.0 + (ratio - 1.0) * (1.0 - attention) * std::max(far, near * Rate(timings_[i]));
    timings_[i] = timings_[i] * kForgetting + near;
  }
  // More rows never cost less.
  for (size_t i = curve.rows.size(); i-- > 1;) curve.seconds[i - 1] = std::min(curve.seconds[i - 1], curve.seconds[i]);
}

void CostLearner::Scale(double expected, double seconds, LaunchCosts* costs) {
  if (!(seconds > 0.0) || !(expected > 0.0) || !std::isfinite(seconds + expected)) return;
  const double ratio = Ratio(seconds, expected);
  const double factor = 1.0 + (ratio - 1.0) * Rate(scalings_);
  scalings_ = scalings_ * kForgetting + 1.0;
  for (CostCurve* curve : {&costs->all_logits, &costs->one_logit, &costs->no_logits}) {
    for (double& point : curve->seconds) point *= factor;
  }
  costs->seconds_per_kv_entry *= factor;
  costs->seconds_per_row_entry *= factor;
}

void DepthExplorer::Tick(std::span<const DepthRequest> requests, const LaunchSize& others, const CostModel& costs,
                         const CostLearner& learner, std::vector<int>* depths) {
  if (std::all_of(depths->begin(), depths->end(), [](int depth) { return depth == 0; })) return;
  saved_ = std::min(kMostSaved, saved_ + kExploreShare);
  int64_t rows = others.rows;
  for (const int depth : *depths) rows += depth + 1;
  const int64_t unknown = UnknownRows(costs.target->all_logits, rows, learner);
  if (unknown == 0) return;
  deeper_ = *depths;
  Deepen(requests, unknown - rows, &deeper_);
  if (deeper_ == *depths) return;
  const StepPrice usual = PriceStep(requests, *depths, others, costs);
  if (!(usual.speed > 0.0)) return;
  const double lost = std::max(0.0, LostSeconds(PriceStep(requests, deeper_, others, costs), usual) / usual.seconds);
  if (lost > saved_) return;
  saved_ -= lost;
  *depths = deeper_;
}

}  // namespace haast::spec
