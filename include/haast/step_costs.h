// What launches cost on one machine: the prices that automatic speculation decides by, and that runs are summed up with.
#pragma once

#include <cstdint>
#include <vector>

#include "haast/result.h"

namespace haast {

// Seconds by a number of rows: known at some row counts, straight lines between them.
struct CostCurve {
  std::vector<int64_t> rows;    // ascending from 1
  std::vector<double> seconds;  // [rows]
  // Past the last point the last slope goes on. 0 for an empty curve or no rows.
  double At(int64_t count) const;
};

// What a launch's price depends on.
struct LaunchSize {
  int64_t rows = 0;
  int64_t logit_rows = 0;   // of those, rows with logits
  int64_t kv_entries = 0;   // KV entries of its sequences, the launch's own included
  int64_t row_entries = 0;  // the same, counted once for each row that looks at them
  void Add(int64_t sequence_rows, int64_t kv_len) {
    rows += sequence_rows;
    kv_entries += kv_len;
    row_entries += sequence_rows * kv_len;
  }
};

// Launches of one kind: of the target, draft steps, draft extends.
struct LaunchCosts {
  CostCurve all_logits;  // logits on every row; without what attention costs, as `one_logit`
  CostCurve one_logit;   // logits on the last row only; may be empty: rows without logits cost nothing
  CostCurve no_logits;   // K and V are all that is wanted of the rows; may be empty: as `one_logit`
  double seconds_per_kv_entry = 0.0;
  double seconds_per_row_entry = 0.0;
  bool empty() const { return all_logits.rows.empty(); }
  double Seconds(const LaunchSize& size) const;
};

// Drafters without a model cost nothing.
struct StepCosts {
  LaunchCosts target;
  LaunchCosts head_step;    // an EAGLE head on its own features; empty: no head
  LaunchCosts head_extend;  // on the target's
  LaunchCosts draft_model;  // empty: none
};

// kInvalidArgument, naming the curve, the number and its range: no target, row counts that do not ascend from 1, not as many seconds as
// rows, a launch outside 1 ns to 1000 s, an entry outside 0 s to 1 s, seconds that fall with more rows.
Status CheckStepCosts(const StepCosts& costs);

}  // namespace haast
