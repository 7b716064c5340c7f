// Measures what launches cost on this machine: what automatic speculation decides by.
#pragma once

#include "engine/loaded_models.h"
#include "spec/cost_learning.h"

namespace haast::engine {

// Rows that are tried, and how often; of the times of one launch the shortest counts.
struct CostGrid {
  std::vector<int64_t> target_logits;  // row counts from 1, with logits on all rows
  std::vector<int64_t> target_rows;    // with logits on the last; may be empty
  std::vector<int64_t> draft_logits;
  std::vector<int64_t> draft_rows;
  std::vector<int64_t> silent_rows;  // with logits on none, of targets, heads' extends and draft models; may be empty
  int64_t long_context = 0;          // against a short one: what attention costs. Not of heads, which have one layer
  int target_repeats = 1;
  int draft_repeats = 1;
};

// For a running engine, once: some 80 ms for a model of 100 MB on two cores. Costs follow then what launches take (CostLearner).
extern const CostGrid kQuickGrid;
// For a file.
CostGrid ThoroughGrid(int repeats);

// Tokens whose pages MeasureStepCosts takes for a while.
int64_t TokensFor(const CostGrid& grid);

// Runs the grid's launches on pages of its own. Row counts that a runner has no room for are left out. Where the pool has no
// room for them now, the costs stay as they are; false then.
Result<bool> MeasureStepCosts(const LoadedModels& models, const CostGrid& grid, StepCosts* costs);

// One for each of StepCosts.
struct CostLearners {
  spec::CostLearner target;
  spec::CostLearner head_step;
  spec::CostLearner head_extend;
  spec::CostLearner draft_model;
};

// The costs that rounds of `algorithm` are judged by.
spec::CostModel CostsOf(const StepCosts& costs, SpeculativeAlgorithm algorithm);

}  // namespace haast::engine
