// What launches take corrects what they were measured to cost.
#pragma once

#include <span>
#include <vector>

#include "spec/depth_policy.h"

namespace haast::spec {

// Follows the costs of one kind of launch. A machine changes, and what was measured once may have been disturbed: the first launches of a
// size count most.
class CostLearner {
 public:
  // A launch of this size, logits on all rows, took `seconds`. A size far past the last point becomes a point.
  void Learn(const LaunchSize& size, double seconds, LaunchCosts* costs);
  // Launches that `costs` price at `expected` took `seconds`: all of `costs` move alike.
  void Scale(double expected, double seconds, LaunchCosts* costs);
  // Launches near the i-th point of all_logits, lately.
  double Timings(size_t point) const { return point < timings_.size() ? timings_[point] : 0.0; }

 private:
  std::vector<double> timings_;
  double scalings_ = 0.0;
};

// Now and then a round that is deeper than pays: a cost that is thought too high is never corrected by rounds that avoid it. What these
// rounds lose, by the costs as they are thought to be, is kept to a two-hundredth.
class DepthExplorer {
 public:
  // Deepens the chains of one step up to the next row count of the target's curve of which little is known; `depths`, as ChooseDepths
  // gave them. Where all are 0 nothing is done: ProbeClock tries those.
  void Tick(std::span<const DepthRequest> requests, const LaunchSize& others, const CostModel& costs, const CostLearner& learner,
            std::vector<int>* depths);

 private:
  double saved_ = kMostSaved;  // the first rounds may explore
  std::vector<int> deeper_;    // of one Tick, kept for its memory
};

}  // namespace haast::spec
