// Speculation that chooses its own depth: the part of the engine that knows costs.
#include <algorithm>
#include <array>

#include "base/clock.h"
#include "engine/engine_impl.h"
#include "engine/scheduler.h"

namespace haast::engine {

// Once, when the first request that speculates automatically has its first token, which need not wait for it.
Status EngineImpl::MeasureCosts() {
  const auto automatic = [](const auto& sequence) {
    return sequence->generated() > 0 && sequence->speculates() && sequence->request.speculation.automatic;
  };
  if (!costs_.target.empty() || std::none_of(running_.begin(), running_.end(), automatic)) return {};
  // Cached pages may have filled the pool. Where requests hold the rest, the measurement waits.
  MakeRoom(kv::PagesFor(TokensFor(kQuickGrid), options_.page_size));
  HAAST_ASSIGN_OR_RETURN(const bool measured, MeasureStepCosts(models_, kQuickGrid, &costs_));
  if (measured) PriceLaunches();
  return {};
}

// From now on every launch has a price.
void EngineImpl::PriceLaunches() {
  models_.target_runner->SetCosts(&costs_.target, nullptr);
  if (models_.draft_runner) models_.draft_runner->SetCosts(&costs_.head_step, &costs_.head_extend);
  if (models_.draft_model_runner) models_.draft_model_runner->SetCosts(&costs_.draft_model, nullptr);
}

// A drafter's part of the step: counts its time, and learns from it what launches of such a size cost.
Status EngineImpl::RunDrafter(size_t algorithm, LaunchCosts* costs, spec::CostLearner* learner, const std::function<Status()>& part) {
  const exec::Runner* runner = drafters_[algorithm]->runner();
  const double priced = runner == nullptr ? 0.0 : runner->priced_seconds();
  const double start = base::NowSeconds();
  HAAST_RETURN_IF_ERROR(part());
  const double seconds = base::NowSeconds() - start;
  drafter_stats_[algorithm].seconds += seconds;
  if (runner == nullptr || !learns_costs()) return {};
  // Prompts, and rows of which only K and V are wanted, are not what the curves were measured for.
  const LaunchSize& last = runner->launch_size();
  if (last.logit_rows > 0 && last.rows <= 2 * kQuickGrid.draft_rows.back())
    learner->Scale(runner->priced_seconds() - priced, seconds, costs);
  return {};
}

spec::DepthRequest EngineImpl::DepthRequestOf(const Sequence& sequence) const {
  const SpeculationParams& params = sequence.request.speculation;
  const auto algorithm = static_cast<size_t>(params.algorithm);
  const int64_t context_left = options_.max_context - static_cast<int64_t>(sequence.tokens.size());
  // A draft model may be ahead of what was accepted; the newest token is always new to it.
  const int64_t behind = std::max<int64_t>(1, sequence.kv.length() - sequence.kv.draft_length());
  return {.own = &sequence.acceptance,
          .prior = &acceptance_[algorithm],
          .most = CountDrafts(params.num_draft_tokens, sequence.remaining(), context_left),
          .context = sequence.kv.length(),
          .backlog = drafters_[algorithm]->runner() == nullptr ? 0 : behind,
          .remaining = sequence.remaining(),
          .id = sequence.id,
          .follows = prefix_ != nullptr};
}

// The chains of the next round for all that speculate automatically, drafter by drafter.
void EngineImpl::PlanDepths() {
  struct Group {
    std::vector<Sequence*> members;
    std::vector<spec::DepthRequest> requests;
  };
  std::array<Group, kNumSpeculativeAlgorithms> groups;
  LaunchSize others;  // of the next launch, as far as it is known
  for (const auto& sequence : running_) {
    if (sequence->id == 0) continue;
    const SpeculationParams& params = sequence->request.speculation;
    if (sequence->speculates() && params.automatic) {
      Group& group = groups[static_cast<size_t>(params.algorithm)];
      group.members.push_back(sequence.get());
      group.requests.push_back(DepthRequestOf(*sequence));
      continue;
    }
    const int64_t rows = 1 + (sequence->speculates() ? ShapeOf(params).num_tokens : 0);
    others.Add(rows, sequence->kv.length() + rows);
  }
  for (size_t algorithm = 0; algorithm < groups.size(); ++algorithm) {
    const auto& [members, requests] = groups[algorithm];
    if (members.empty()) continue;
    const spec::CostModel costs = CostsOf(costs_, static_cast<SpeculativeAlgorithm>(algorithm));
    std::vector<int> depths = spec::ChooseDepths(requests, others, costs);
    if (learns_costs()) explorers_[algorithm].Tick(requests, others, costs, learners_.target, &depths);
    probes_[algorithm].Tick(requests, others, costs, &depths);
    for (size_t m = 0; m < members.size(); ++m) {
      others.Add(depths[m] + 1, requests[m].context + depths[m] + 1);
      members[m]->planned_depth = depths[m];
    }
  }
}

}  // namespace haast::engine
