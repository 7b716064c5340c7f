#include "spec/candidates.h"

#include <algorithm>

namespace haast::spec {

void FindCandidates(std::span<const float> logits, std::span<const int32_t> to_target, const SamplingParams& sampling, int64_t position,
                    int k, const kernels::Ops& ops, std::vector<Candidate>* out) {
  static_cast<void>(sampling);
  static_cast<void>(position);
  out->clear();
  const int64_t n = static_cast<int64_t>(logits.size());
  const auto target_id = [&](int32_t id) { return to_target.empty() ? id : to_target[static_cast<size_t>(id)]; };
  if (k == 1) {
    out->push_back({target_id(ops.argmax(logits.data(), n)), 0.0f});
    return;
  }
  const float log_sum_exp = ops.row_stats(logits.data(), n).log_sum_exp;
  std::vector<int32_t> best;  // ids, largest logit first; equal ones by lower id
  for (int32_t id = 0; id < n; ++id) {
    if (static_cast<int>(best.size()) == k && !(logits[id] > logits[best.back()])) continue;
    const auto place = std::find_if(best.begin(), best.end(), [&](int32_t other) { return logits[id] > logits[other]; });
    best.insert(place, id);
    if (static_cast<int>(best.size()) > k) best.pop_back();
  }
  for (const int32_t id : best) out->push_back({target_id(id), logits[id] - log_sum_exp});
}

}  // namespace haast::spec
