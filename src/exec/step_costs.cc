#include "haast/step_costs.h"

#include <algorithm>
#include <cmath>

#include "base/format.h"

namespace haast {
namespace {

Status CheckCurve(const CostCurve& curve, const char* kind, const char* name) {
  const auto refuse = [&](size_t i, const char* expected) {
    return Err(ErrorCode::kInvalidArgument, "step costs: {}, {}, point {} ({} rows, {} s): expected {}", kind, name, i + 1,
               i < curve.rows.size() ? curve.rows[i] : 0, i < curve.seconds.size() ? curve.seconds[i] : 0.0, expected);
  };
  if (curve.rows.size() != curve.seconds.size())
    return refuse(std::min(curve.rows.size(), curve.seconds.size()), "as many seconds as rows");
  for (size_t i = 0; i < curve.rows.size(); ++i) {
    const bool ascends = i == 0 ? curve.rows[0] == 1 : curve.rows[i] > curve.rows[i - 1];
    if (!ascends) return refuse(i, "row counts that ascend from 1");
    if (!std::isfinite(curve.seconds[i]) || curve.seconds[i] <= 0.0) return refuse(i, "a finite time above 0");
    if (i > 0 && curve.seconds[i] < curve.seconds[i - 1]) return refuse(i, "no less time than for fewer rows");
  }
  return {};
}

Status CheckLaunches(const LaunchCosts& costs, const char* kind) {
  HAAST_RETURN_IF_ERROR(CheckCurve(costs.all_logits, kind, "all_logits"));
  HAAST_RETURN_IF_ERROR(CheckCurve(costs.one_logit, kind, "one_logit"));
  HAAST_RETURN_IF_ERROR(CheckCurve(costs.no_logits, kind, "no_logits"));
  for (const double seconds : {costs.seconds_per_kv_entry, costs.seconds_per_row_entry}) {
    if (std::isfinite(seconds) && seconds >= 0.0) continue;
    return Err(ErrorCode::kInvalidArgument, "step costs: {}: {} s an entry: expected a finite time, at least 0", kind, seconds);
  }
  return {};
}

}  // namespace

double CostCurve::At(int64_t count) const {
  if (rows.empty() || count < 1) return 0.0;
  if (rows.size() == 1) return seconds[0];
  size_t right = 1;
  while (right + 1 < rows.size() && rows[right] < count) ++right;
  const double slope = (seconds[right] - seconds[right - 1]) / static_cast<double>(rows[right] - rows[right - 1]);
  return std::max(0.0, seconds[right - 1] + slope * static_cast<double>(count - rows[right - 1]));
}

double LaunchCosts::Seconds(const LaunchSize& size) const {
  const CostCurve& others = size.logit_rows == 0 && !no_logits.rows.empty() ? no_logits : one_logit;
  const double without_logits = std::max(0.0, others.At(size.rows) - others.At(size.logit_rows));
  return all_logits.At(size.logit_rows) + without_logits + seconds_per_kv_entry * static_cast<double>(size.kv_entries) +
         seconds_per_row_entry * static_cast<double>(size.row_entries);
}

Status CheckStepCosts(const StepCosts& costs) {
  if (costs.target.empty()) return Err(ErrorCode::kInvalidArgument, "step costs: the target has no all_logits curve");
  HAAST_RETURN_IF_ERROR(CheckLaunches(costs.target, "target"));
  HAAST_RETURN_IF_ERROR(CheckLaunches(costs.head_step, "head_step"));
  HAAST_RETURN_IF_ERROR(CheckLaunches(costs.head_extend, "head_extend"));
  return CheckLaunches(costs.draft_model, "draft_model");
}

}  // namespace haast
