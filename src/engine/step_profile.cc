#include "engine/step_profile.h"

#include <algorithm>

#include "kernels/op_trace.h"

namespace haast::engine {
namespace {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// All calls of one op in a step.
struct OpTally {
  std::string op;
  int64_t calls = 0;
  int64_t bytes = 0;
  double seconds = 0.0;        // of the running pass
  std::vector<double> passes;  // of the finished ones
};

class StepTally {
 public:
  void AddPass(std::span<const kernels::OpCall> calls, double seconds) {
    double inside = 0.0;
    operations_ = 0;
    for (OpTally& op : ops_) op.calls = op.bytes = 0;
    for (const kernels::OpCall& call : calls) {
      OpTally& op = Find(kernels::OpName(call));
      ++op.calls;
      op.bytes += call.bytes;
      op.seconds += call.seconds;
      operations_ += call.operations;
      inside += call.seconds;
    }
    for (OpTally& op : ops_) {
      op.passes.push_back(op.seconds);
      op.seconds = 0.0;
    }
    rest_.push_back(std::max(seconds - inside, 0.0));
    whole_.push_back(seconds);
  }

  StepProfile Report(const StepToProfile& step) const {
    StepProfile profile{.step = step.name, .rows = step.size.rows, .milliseconds = Median(whole_) * 1e3, .operations = operations_};
    for (const OpTally& op : ops_) {
      profile.ops.push_back({op.op, op.calls, Median(op.passes) * 1e6, op.bytes});
      profile.bytes += op.bytes;
    }
    profile.ops.push_back({"the rest", 0, Median(rest_) * 1e6, 0});
    return profile;
  }

 private:
  OpTally& Find(const std::string& name) {
    const auto it = std::find_if(ops_.begin(), ops_.end(), [&](const OpTally& op) { return op.op == name; });
    return it != ops_.end() ? *it : ops_.emplace_back(OpTally{.op = name});
  }

  std::vector<OpTally> ops_;  // in order of their first call
  std::vector<double> rest_;
  std::vector<double> whole_;
  int64_t operations_ = 0;
};

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
  std::vector<StepTally> tallies(steps.size());
  for (int pass = -1; pass < passes; ++pass) {
    for (size_t i = 0; i < steps.size(); ++i) {
      trace.Clear();
      HAAST_ASSIGN_OR_RETURN(const double seconds, RunStep(bench, steps[i]));
      if (pass >= 0) tallies[i].AddPass(trace.calls(), seconds);
    }
  }
  std::vector<StepProfile> profiles;
  for (size_t i = 0; i < steps.size(); ++i) profiles.push_back(tallies[i].Report(steps[i]));
  return profiles;
}

}  // namespace haast::engine
