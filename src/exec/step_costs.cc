#include "haast/step_costs.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace haast {
namespace {

// What a launch can take, and an entry of the KV cache in it: what is outside is no time in seconds, and sums of it lose their meaning.
constexpr double kLeastSeconds = 1e-9;
constexpr double kMostSeconds = 1000.0;
constexpr double kMostSecondsPerEntry = 1.0;

Status CheckCurve(const CostCurve& curve, const char* kind, const char* name) {
  const auto refuse = [&](size_t i, const std::string& expected) {
    return Err(ErrorCode::kInvalidArgument, "step costs: {}, {}, point {} ({} rows, {} s): expected {}", kind, name, i + 1,
               i < curve.rows.size() ? curve.rows[i] : 0, i < curve.seconds.size() ? curve.seconds[i] : 0.0, expected);
  };
  if (curve.rows.size() != curve.seconds.size())
    return refuse(std::min(curve.rows.size(), curve.seconds.size()), "as many seconds as rows");
  for (size_t i = 0; i < curve.rows.size(); ++i) {
    const bool ascends = i == 0 ? curve.rows[0] == 1 : curve.rows[i] > curve.rows[i - 1];
    if (!ascends) return refuse(i, "row counts that ascend from 1");
    const bool is_time = curve.seconds[i] >= kLeastSeconds && curve.seconds[i] <= kMostSeconds;
    if (!is_time) return refuse(i, fmt::format("{} s to {} s", kLeastSeconds, kMostSeconds));  // a NaN too
    if (i > 0 && curve.seconds[i] < curve.seconds[i - 1]) return refuse(i, "no less time than for fewer rows");
  }
  return {};
}

Status CheckLaunches(const LaunchCosts& costs, const char* kind) {
  HAAST_RETURN_IF_ERROR(CheckCurve(costs.all_logits, kind, "all_logits"));
  HAAST_RETURN_IF_ERROR(CheckCurve(costs.one_logit, kind, "one_logit"));
  HAAST_RETURN_IF_ERROR(CheckCurve(costs.no_logits, kind, "no_logits"));
  for (const auto& [name, seconds] :
       {std::pair("seconds_per_kv_entry", costs.seconds_per_kv_entry), {"seconds_per_row_entry", costs.seconds_per_row_entry}}) {
    if (seconds >= 0.0 && seconds <= kMostSecondsPerEntry) continue;
    return Err(ErrorCode::kInvalidArgument, "step costs: {}, {} ({} s): expected 0 s to {} s", kind, name, seconds, kMostSecondsPerEntry);
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
