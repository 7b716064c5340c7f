// How deep the next round should draft: pure functions of what steps cost on this machine and of what was accepted lately.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "haast/step_costs.h"

namespace haast::spec {

inline constexpr int kMaxPlannedDepth = 16;
// Of time, in steps, that is kept at most for rounds that only try something (ProbeClock, DepthExplorer).
inline constexpr double kMostSaved = 2.0;

// Costs that outlive their use here.
struct CostModel {
  const LaunchCosts* target;
  const LaunchCosts* draft_step;    // empty: it costs nothing
  const LaunchCosts* draft_extend;  // likewise
};

// Chance that draft i is accepted where the drafts before it were: counts that fade, so that the last hundred rounds decide.
class AcceptanceEstimate {
 public:
  // Faded counts of rounds, for each draft of a round.
  struct Counts {
    std::array<double, kMaxPlannedDepth> tried{};
    std::array<double, kMaxPlannedDepth> accepted{};
  };
  AcceptanceEstimate() = default;
  explicit AcceptanceEstimate(const Counts& counts) : counts_(counts) {}  // where AreCounts
  // Whether Observe can have led to `counts`: every one finite, no more accepted than tried.
  static bool AreCounts(const Counts& counts);
  const Counts& counts() const { return counts_; }

  void Observe(int drafted, int accepted);
  // `prior`: an estimate over more requests, worth a few rounds; null: a position that was never tried
  // is taken to be as the one before it, the first one to be good.
  double Chance(int position, const AcceptanceEstimate* prior) const;
  double rounds() const { return counts_.tried[0]; }

 private:
  Counts counts_;
};

// One request that may draft.
struct DepthRequest {
  const AcceptanceEstimate* own;
  const AcceptanceEstimate* prior;  // of its drafter, over all requests
  int most;                         // drafts at most
  int64_t context;                  // its KV entries before the next round
  int64_t backlog;                  // of these, entries that the drafter has not made yet and must make before it drafts
  int64_t remaining;                // tokens that it may still generate
  int64_t id = 0;                   // the request's, by which a probe goes on with it
  bool follows = false;             // the drafter makes the backlog's entries sooner or later, whether it drafts or not
};

// The depths (0: no drafts) with the highest StepSpeed. `others`: the part of the target's launch that belongs to nobody in `requests`.
std::vector<int> ChooseDepths(std::span<const DepthRequest> requests, const LaunchSize& others, const CostModel& costs);

// Tokens a second of one request in steps with these depths, expected: the harmonic mean over `requests`; 0 where steps cost nothing.
// depths[i] <= requests[i].most.
// It is the time that answers take that counts, not the tokens of a step: a request that leaves its drafts to others keeps its place
// for longer, and runs on nearly alone when they are done.
double StepSpeed(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others, const CostModel& costs);

// The expected price of such a step: the drafters' learning and drafting, and the target's launch; without what drafters have been behind
// for long.
double StepSeconds(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others, const CostModel& costs);

// A step: its StepSeconds and its StepSpeed.
struct StepPrice {
  double seconds;
  double speed;
};
StepPrice PriceStep(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others, const CostModel& costs);

// Seconds that the step `tried` loses, by what it is expected to make: the `usual` ones make as much in tried.speed / usual.speed of its
// time. Below 0 where it gains. usual.speed > 0.
inline double LostSeconds(const StepPrice& tried, const StepPrice& usual) { return tried.seconds * (1.0 - tried.speed / usual.speed); }

// When drafts that do not pay are tried again, for a few rounds. What these rounds lose, by the chances as they are thought to be, is kept
// to a two-hundredth: seldom where drafts would be a loss, soon where they would nearly pay.
class ProbeClock {
 public:
  // One step of requests with these planned depths, as of ChooseDepths. Of those that may draft but for which it was judged not worth it,
  // some may draft all the same: those that did in the step before, for a few rounds, else the one with the least backlog or all, whichever
  // loses less.
  void Tick(std::span<const DepthRequest> requests, const LaunchSize& others, const CostModel& costs, std::vector<int>* depths);

 private:
  // Those of idle_ that drafted in the step before draft again; false where there are none.
  bool GoOn(std::span<const DepthRequest> requests, std::vector<int>* depths) const;
  // What to try, and the seconds that it loses.
  struct Choice {
    std::span<const size_t> members;  // into `requests`; empty: nothing
    int depth = 0;
    double lost = 0.0;
  };
  Choice Cheapest(std::span<const DepthRequest> requests, std::span<const int> depths, const LaunchSize& others, const CostModel& costs);

  double saved_ = 0.0;            // of time, in steps
  std::vector<int64_t> probing_;  // ids
  int depth_ = 0;                 // of theirs
  int rounds_ = 0;                // that they go on
  // Of one Tick, kept for their memory.
  std::vector<size_t> idle_;
  std::vector<DepthRequest> caught_up_;
  std::vector<int> tried_;
};

}  // namespace haast::spec
