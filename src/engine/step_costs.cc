#include "engine/step_costs.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "engine/step_bench.h"

namespace haast::engine {
namespace {

constexpr int64_t kDepth = 32;  // tokens of context
constexpr int kRepeats = 2;     // the faster one counts: what interrupts a launch is not its cost
const std::vector<int> kPassRows = {1, 2, 3, 4, 6, 8, 16};
const std::vector<int> kDraftRows = {1, 2, 4, 8};

using Launch = std::function<Result<double>(int64_t rows)>;

Status MeasureCurve(const std::vector<int>& rows, const Launch& launch, spec::CostCurve* curve) {
  std::vector<double> seconds(rows.size(), 1e9);
  HAAST_RETURN_IF_ERROR(launch(rows.front()).map([](double) {}));  // warms up
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    for (size_t i = 0; i < rows.size(); ++i) {
      HAAST_ASSIGN_OR_RETURN(const double taken, launch(rows[i]));
      seconds[i] = std::min(seconds[i], taken);
    }
  }
  // More rows never cost less: noise must not look like a bargain.
  for (size_t i = 1; i < seconds.size(); ++i) seconds[i] = std::max(seconds[i], seconds[i - 1]);
  curve->Set(rows, std::move(seconds));
  return {};
}

// Of `rows`, those whose logits the runner has room for.
std::vector<int> Within(const std::vector<int>& rows, int64_t most) {
  std::vector<int> fitting;
  std::copy_if(rows.begin(), rows.end(), std::back_inserter(fitting), [&](int count) { return count <= most; });
  return fitting;
}

}  // namespace

const int64_t kMeasuredTokens = kDepth + kPassRows.back();

Result<bool> MeasureStepCosts(const LoadedModels& models, const Drafters& drafters, StepCosts* costs) {
  if (models.pages->num_free() < kv::PagesFor(kMeasuredTokens, models.pages->page_size())) return false;
  if (models.target_runner->options().max_context < kMeasuredTokens) return false;
  for (size_t i = 0; i < drafters.size(); ++i) {
    exec::Runner* draft = drafters[i] ? drafters[i]->runner() : nullptr;
    if (draft == nullptr && !costs->pass.empty()) continue;
    StepBench bench({models.target_runner.get(), draft, models.pages.get()}, kDepth, kPassRows.back());
    HAAST_RETURN_IF_ERROR(bench.Prepare(kDepth));
    if (costs->pass.empty()) HAAST_RETURN_IF_ERROR(MeasureCurve(kPassRows, [&](int64_t rows) { return bench.Verify(rows); }, &costs->pass));
    if (draft == nullptr) continue;
    const std::vector<int> draft_rows = Within(kDraftRows, draft->options().max_logit_rows);
    HAAST_RETURN_IF_ERROR(MeasureCurve(draft_rows, [&](int64_t rows) { return bench.DraftStep(rows); }, &costs->draft_step[i]));
    HAAST_RETURN_IF_ERROR(MeasureCurve(draft_rows, [&](int64_t rows) { return bench.DraftExtend(rows); }, &costs->draft_extend[i]));
  }
  return true;
}

}  // namespace haast::engine
