// Speculation that chooses its own depth: the part of the engine that knows costs.
#include <algorithm>

#include "engine/engine_impl.h"
#include "engine/scheduler.h"

namespace haast::engine {

// Once, when the first request speculates automatically.
Status EngineImpl::MeasureCosts() {
  const auto automatic = [](const auto& sequence) { return sequence->speculates() && sequence->request.speculation.automatic; };
  if (!costs_.target.empty() || std::none_of(running_.begin(), running_.end(), automatic)) return {};
  // Cached pages may have filled the pool. Where requests hold the rest, the measurement waits.
  MakeRoom(kv::PagesFor(TokensFor(kQuickGrid), options_.page_size));
  return MeasureStepCosts(models_, kQuickGrid, &costs_).map([](bool) {});
}

// The chains of the next round for all that speculate automatically, drafter by drafter.
void EngineImpl::PlanDepths() {
  LaunchSize others;  // of the next launch, as far as it is known
  for (const auto& sequence : running_) {
    const SpeculationParams& params = sequence->request.speculation;
    if (sequence->id == 0 || (sequence->speculates() && params.automatic)) continue;
    const int64_t rows = 1 + (sequence->speculates() ? ShapeOf(params).num_tokens : 0);
    others.Add(rows, sequence->kv.length() + rows);
  }
  for (int i = 1; i < kNumSpeculativeAlgorithms; ++i) {
    std::vector<Sequence*> members;
    std::vector<spec::DepthRequest> requests;
    for (const auto& sequence : running_) {
      const SpeculationParams& params = sequence->request.speculation;
      if (sequence->id == 0 || !params.automatic || params.algorithm != static_cast<SpeculativeAlgorithm>(i)) continue;
      const int most =
          CountDrafts(params.num_draft_tokens, sequence->remaining(), options_.max_context - static_cast<int64_t>(sequence->tokens.size()));
      members.push_back(sequence.get());
      // A draft model may be ahead of what was accepted; the newest token is always new to it.
      const int64_t behind = std::max<int64_t>(1, sequence->kv.length() - sequence->kv.draft_length());
      const int64_t backlog = drafters_[i]->runner() == nullptr ? 0 : behind;
      requests.push_back({&sequence->acceptance, &acceptance_[i], most, sequence->kv.length(), backlog, sequence->remaining()});
    }
    if (members.empty()) continue;
    const spec::CostModel costs = CostsOf(costs_, static_cast<SpeculativeAlgorithm>(i));
    const std::vector<int> depths = spec::ChooseDepths(requests, others, costs);
    std::vector<size_t> idle;
    std::vector<spec::DepthRequest> idle_requests;
    std::vector<RequestId> idle_ids;
    for (size_t m = 0; m < members.size(); ++m) {
      members[m]->planned_depth = depths[m];
      others.Add(depths[m] + 1, requests[m].context + depths[m] + 1);
      if (depths[m] > 0 || requests[m].most == 0) continue;
      idle.push_back(m);
      idle_requests.push_back(requests[m]);
      idle_ids.push_back(members[m]->id);
    }
    const int probing = probes_[i].Tick(idle_requests, idle_ids, others, costs);
    if (probing >= 0) members[idle[probing]]->planned_depth = std::min(spec::kProbeDepth, idle_requests[probing].most);
  }
}

}  // namespace haast::engine
