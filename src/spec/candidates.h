// A row of draft logits to the tokens that are worth a place in the tree.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "haast/request.h"
#include "sampling/sampler.h"
#include "spec/draft_tree.h"

namespace haast::spec {

// The `k` most likely tokens of `logits`, best first, in target ids (`to_target` empty: the same ids), with their
// log-probabilities. `position` is the absolute position that the tokens would take. With k = 1 the score is not computed (0).
void FindCandidates(std::span<const float> logits, std::span<const int32_t> to_target, const SamplingParams& sampling, int64_t position,
                    int k, const kernels::Ops& ops, std::vector<Candidate>* out);

}  // namespace haast::spec
