// One request plainly and speculatively, in turns: the same tokens, and how much sooner.
#pragma once

#include <string>
#include <vector>

#include "cli/generator.h"
#include "cli/json_forms.h"

namespace haast::cli {

// How two answers to one request differ: the first position with another token or other logprob bits; -1: nowhere.
int64_t FirstDifference(const Answer& a, const Answer& b);

struct Comparison {
  Answer answer;     // the first speculative one, as it was shown
  Spread plain_tps;  // decode tokens a second
  Spread speculative_tps;
  int64_t first_difference = -1;  // over all runs; -1: identical
  double read_gb_per_s = 0.0;     // measured in the same run
  double plain_bandwidth = 0.0;   // shares of it that the weights' bytes took
  double speculative_bandwidth = 0.0;
  int runs = 0;
  bool interrupted = false;  // nothing but `answer` is set

  double speedup() const { return plain_tps.median > 0.0 ? speculative_tps.median / plain_tps.median : 0.0; }
};

// `request.speculation` must be on. `sink` sees the first speculative answer, which is warm-up, as is one plain answer;
// then `runs` of each are timed, alternating.
Result<Comparison> Compare(Generator& generator, const TextRequest& request, int runs, const AnswerSink& sink);

std::string ComparisonText(const Comparison& comparison);
Json ComparisonJson(const Comparison& comparison);

}  // namespace haast::cli
