#include "engine/step_costs.h"

#include <algorithm>
#include <functional>

#include "engine/step_bench.h"

namespace haast::engine {
namespace {

constexpr int64_t kShortContext = 32;  // tokens
constexpr int64_t kManyRows = 8;
constexpr int64_t kAttentionRows = 4;  // attention is measured with one row and with these

using Launch = std::function<Result<double>(const StepSize& size)>;

// What is tried of one kind of launch.
struct Kind {
  std::vector<int64_t> logits;
  std::vector<int64_t> one_logit;
  std::vector<int64_t> no_logits;
  int64_t long_context;  // 0: none
  int repeats;
};

// Launches of one kind and their shortest times.
class Points {
 public:
  Points(const exec::Runner& runner, int64_t tokens, const Kind& kind)
      : limits_(runner.options()), tokens_(tokens), long_context_(kind.long_context), repeats_(kind.repeats) {
    Add(kind.logits, kShortContext, LogitRows::kAll);
    Add(kind.one_logit, kShortContext, LogitRows::kLast);
    Add(kind.no_logits, kShortContext, LogitRows::kNone);
    if (long_context_ > 0) Add({1, kAttentionRows}, long_context_, LogitRows::kAll);
  }

  // Every launch was timed often enough.
  bool Done() const { return launches_ >= points_.size() * static_cast<size_t>(repeats_); }

  // Times the launch whose turn it is.
  Status Measure(const Launch& launch) {
    if (points_.empty()) return {};
    Point& point = points_[launches_++ % points_.size()];
    HAAST_ASSIGN_OR_RETURN(const double seconds, launch(point.size));
    point.seconds = std::min(point.seconds, seconds);
    return {};
  }

  // Attention first, from two contexts; the curves are what remains.
  LaunchCosts Costs() const {
    LaunchCosts costs;
    // Of so few entries attention never takes longer than all else, whatever two disturbed launches say.
    const auto slower = [&](int64_t rows) {
      const double rest = Find(rows, kShortContext);
      return std::min(Find(rows, long_context_) - rest, rest);
    };
    if (Find(kAttentionRows, long_context_) > 0.0) {
      const double longer = static_cast<double>(long_context_ - kShortContext);
      const double row = (slower(kAttentionRows) - slower(1)) / (static_cast<double>(kAttentionRows - 1) * longer);
      costs.seconds_per_row_entry = std::max(0.0, row);
      costs.seconds_per_kv_entry = std::max(0.0, slower(1) / longer - costs.seconds_per_row_entry);
    }
    const LaunchCosts attention = costs;
    costs.all_logits = Curve(attention, LogitRows::kAll);
    costs.one_logit = Curve(attention, LogitRows::kLast);
    costs.no_logits = Curve(attention, LogitRows::kNone);
    return costs;
  }

 private:
  struct Point {
    StepSize size;
    double seconds;
  };

  void Add(const std::vector<int64_t>& rows, int64_t context, LogitRows logits) {
    for (const int64_t count : rows) {
      const int64_t most = logits == LogitRows::kAll ? std::min(limits_.max_rows, limits_.max_logit_rows) : limits_.max_rows;
      if (count > most || context + count > tokens_) continue;
      points_.push_back({{count, context, logits}, 1e9});
    }
  }

  double Find(int64_t rows, int64_t context) const {
    for (const Point& point : points_) {
      if (point.size.rows == rows && point.size.context == context && point.size.logits == LogitRows::kAll) return point.seconds;
    }
    return 0.0;
  }

  // More rows never cost less: noise must not look like a bargain.
  CostCurve Curve(const LaunchCosts& attention, LogitRows logits) const {
    CostCurve curve;
    double least = 1e-9;
    for (const auto& [size, seconds] : points_) {
      if (size.context != kShortContext || size.logits != logits) continue;
      LaunchSize attended;
      attended.Add(size.rows, size.context + size.rows);
      least = std::max({least, 0.5 * seconds, seconds - attention.Seconds(attended)});  // likewise
      curve.rows.push_back(size.rows);
      curve.seconds.push_back(least);
    }
    return curve;
  }

  const exec::RunnerOptions& limits_;
  const int64_t tokens_;
  const int64_t long_context_;
  const int repeats_;
  std::vector<Point> points_;
  size_t launches_ = 0;
};

Kind TargetKind(const CostGrid& grid) {
  return {grid.target_logits, grid.target_rows, grid.silent_rows, grid.long_context, grid.target_repeats};
}

Result<LaunchCosts> MeasureLaunches(const exec::Runner& runner, int64_t tokens, const Kind& kind, const Launch& launch) {
  Points points(runner, tokens, kind);
  while (!points.Done()) HAAST_RETURN_IF_ERROR(points.Measure(launch));
  return points.Costs();
}

// A draft extend always follows a pass of the target, which leaves little of the head in the caches: the two are timed in turns.
Status MeasureHead(const LoadedModels& models, int64_t tokens, const CostGrid& grid, StepBench* bench, StepCosts* costs) {
  const exec::Runner& head = *models.draft_runner;
  Points target(*models.target_runner, tokens, TargetKind(grid));
  Points extend(head, tokens, {grid.draft_logits, grid.draft_rows, grid.silent_rows, 0, grid.draft_repeats});
  while (!target.Done() || !extend.Done()) {
    HAAST_RETURN_IF_ERROR(target.Measure([&](const StepSize& size) { return bench->Verify(size); }));
    HAAST_RETURN_IF_ERROR(extend.Measure([&](const StepSize& size) { return bench->DraftExtend(size); }));
  }
  costs->target = target.Costs();
  costs->head_extend = extend.Costs();
  const Kind step = {grid.draft_logits, {}, {}, 0, grid.draft_repeats};
  HAAST_ASSIGN_OR_RETURN(costs->head_step,
                         MeasureLaunches(head, tokens, step, [&](const StepSize& size) { return bench->DraftStep(size); }));
  return {};
}

int64_t MostRows(const CostGrid& grid) {
  int64_t most = kManyRows;
  for (const auto* rows : {&grid.target_logits, &grid.target_rows, &grid.draft_logits, &grid.draft_rows, &grid.silent_rows}) {
    if (!rows->empty()) most = std::max(most, rows->back());
  }
  return most;
}

}  // namespace

const CostGrid kQuickGrid = {.target_logits = {1, 2, 4, kManyRows},
                             .target_rows = {},
                             .draft_logits = {1, kManyRows},
                             .draft_rows = {1, kManyRows},
                             .silent_rows = {},
                             .long_context = 512,
                             .target_repeats = 1,
                             .draft_repeats = 2};

CostGrid ThoroughGrid(int repeats) {
  const std::vector<int64_t> rows = {1, 2, 4, 8, 16, 32, 64, 128, 256};
  const std::vector<int64_t> logits = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 48, 64, 96, 128};
  CostGrid grid;
  grid.target_logits = grid.draft_logits = logits;
  grid.target_rows = grid.draft_rows = grid.silent_rows = rows;
  grid.long_context = 1024;
  grid.target_repeats = grid.draft_repeats = repeats;
  return grid;
}

int64_t TokensFor(const CostGrid& grid) { return std::max(grid.long_context + kAttentionRows, kShortContext + MostRows(grid)); }

Result<bool> MeasureStepCosts(const LoadedModels& models, const CostGrid& grid, StepCosts* costs) {
  const int64_t room =
      std::min(models.target_runner->options().max_context, static_cast<int64_t>(models.pages->num_free()) * models.pages->page_size());
  const int64_t tokens = std::min(TokensFor(grid), room);
  if (tokens < kShortContext + kManyRows) return false;
  StepCosts measured;
  {
    StepBench bench({models.target_runner.get(), models.draft_runner.get(), models.pages.get()}, tokens, MostRows(grid));
    HAAST_RETURN_IF_ERROR(bench.Prepare());
    if (models.draft_runner) {
      HAAST_RETURN_IF_ERROR(MeasureHead(models, tokens, grid, &bench, &measured));
    } else {
      HAAST_ASSIGN_OR_RETURN(measured.target, MeasureLaunches(*models.target_runner, tokens, TargetKind(grid),
                                                              [&](const StepSize& size) { return bench.Verify(size); }));
    }
  }
  if (exec::Runner* draft_model = models.draft_model_runner.get()) {
    StepBench bench({models.target_runner.get(), draft_model, models.pages.get()}, tokens, MostRows(grid));
    HAAST_RETURN_IF_ERROR(bench.Prepare());
    const Kind step = {grid.draft_logits, grid.draft_rows, grid.silent_rows, grid.long_context, grid.draft_repeats};
    HAAST_ASSIGN_OR_RETURN(measured.draft_model,
                           MeasureLaunches(*draft_model, tokens, step, [&](const StepSize& size) { return bench.DraftStep(size); }));
  }
  *costs = std::move(measured);
  return true;
}

spec::CostModel CostsOf(const StepCosts& costs, SpeculativeAlgorithm algorithm) {
  static const LaunchCosts kFree;
  switch (DraftSourceOf(algorithm)) {
    case DraftSource::kEagleHead:
    case DraftSource::kEagle3Head: return {&costs.target, &costs.head_step, &costs.head_extend};
    case DraftSource::kDraftModel: return {&costs.target, &costs.draft_model, &costs.draft_model};
    case DraftSource::kTokens: break;
  }
  return {&costs.target, &kFree, &kFree};
}

}  // namespace haast::engine
