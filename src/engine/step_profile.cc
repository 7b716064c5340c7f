#include "engine/step_profile.h"

#include <algorithm>

#include "exec/launch_profile.h"

namespace haast::engine {
namespace {

Result<double> RunStep(StepBench& bench, const StepToProfile& step) {
  switch (step.kind) {
    case StepKind::kVerify: break;
    case StepKind::kDraftStep: return bench.DraftStep(step.size);
    case StepKind::kDraftExtend: return bench.DraftExtend(step.size);
  }
  return bench.Verify(step.size);
}

Result<std::unique_ptr<exec::Runner>> RecordedRunner(model::Model* model, const kernels::Ops& ops, const LoadedModels& models) {
  if (model == nullptr) return std::unique_ptr<exec::Runner>();
  return exec::Runner::Create(*model, ops, *models.pool, *models.pages, models.target_runner->options());
}

}  // namespace

Result<std::vector<StepProfile>> ProfileSteps(const LoadedModels& models, const std::vector<StepToProfile>& steps, int passes) {
  kernels::OpTrace trace(*models.ops);
  HAAST_ASSIGN_OR_RETURN(const auto target, RecordedRunner(models.target.get(), trace.ops(), models));
  HAAST_ASSIGN_OR_RETURN(const auto draft, RecordedRunner(models.draft.get(), trace.ops(), models));
  int64_t tokens = 1;
  int64_t rows = 1;
  for (const StepToProfile& step : steps) {
    tokens = std::max(tokens, step.size.context + step.size.rows);
    rows = std::max(rows, step.size.rows);
  }
  StepBench bench({target.get(), draft.get(), models.pages.get()}, tokens, rows);
  HAAST_RETURN_IF_ERROR(bench.Prepare());
  std::vector<exec::LaunchProfile> seen(steps.size());
  for (int pass = -1; pass < passes; ++pass) {
    for (size_t i = 0; i < steps.size(); ++i) {
      trace.Clear();
      HAAST_ASSIGN_OR_RETURN(const double seconds, RunStep(bench, steps[i]));
      if (pass >= 0) seen[i].Add(trace.calls(), seconds);
    }
  }
  std::vector<StepProfile> profiles;
  for (size_t i = 0; i < steps.size(); ++i) profiles.push_back(seen[i].Report(steps[i].name, steps[i].size.rows));
  return profiles;
}

}  // namespace haast::engine
