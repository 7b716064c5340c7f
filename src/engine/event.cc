#include "haast/event.h"

#include <algorithm>

namespace haast {

const char* FinishReasonName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kNone: return "none";
    case FinishReason::kStop: return "stop";
    case FinishReason::kLength: return "length";
    case FinishReason::kCancelled: return "cancelled";
    case FinishReason::kError: return "error";
  }
  return "unknown";
}

void SpeculationStats::Add(const SpeculationStats& other) {
  rounds += other.rounds;
  drafted += other.drafted;
  accepted += other.accepted;
  emitted += other.emitted;
  if (accepted_at.size() < other.accepted_at.size()) accepted_at.resize(other.accepted_at.size(), 0);
  for (size_t i = 0; i < other.accepted_at.size(); ++i) accepted_at[i] += other.accepted_at[i];
}

}  // namespace haast
