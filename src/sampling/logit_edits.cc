#include "sampling/logit_edits.h"

#include <limits>

namespace haast::sampling {

LogitEdits::LogitEdits(const Request& request)
    : repetition_(request.sampling.repetition_penalty),
      frequency_(request.sampling.frequency_penalty),
      presence_(request.sampling.presence_penalty),
      bias_(request.sampling.logit_bias),
      eos_ids_(request.eos_ids),
      min_tokens_(request.eos_ids.empty() ? 0 : request.min_tokens) {
  penalises_ = repetition_ != 1.0f || frequency_ != 0.0f || presence_ != 0.0f;
  always_ = penalises_ || !bias_.empty();
  if (!penalises_) return;
  for (const int32_t token : request.prompt) Find(token);
}

LogitEdits::Seen& LogitEdits::Find(int32_t token) {
  const auto [it, added] = index_.try_emplace(token, seen_.size());
  if (added) seen_.push_back({token, 0});
  return seen_[it->second];
}

void LogitEdits::Advance(int32_t token) {
  ++generated_;
  if (penalises_) ++Find(token).generated;
}

void LogitEdits::Apply(std::span<float> logits) const {
  for (const TokenBias& entry : bias_) logits[static_cast<size_t>(entry.token)] += entry.bias;
  for (const Seen& seen : seen_) {
    float& logit = logits[static_cast<size_t>(seen.token)];
    logit = logit > 0.0f ? logit / repetition_ : logit * repetition_;
    if (seen.generated == 0) continue;
    logit -= frequency_ * static_cast<float>(seen.generated);
    logit -= presence_;
  }
  if (generated_ >= min_tokens_) return;
  for (const int32_t id : eos_ids_) {
    // A tokenizer may name ids that the model does not have.
    if (static_cast<size_t>(id) < logits.size()) logits[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
  }
}

}  // namespace haast::sampling
