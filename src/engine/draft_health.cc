#include "engine/draft_health.h"

#include "base/format.h"

namespace haast::engine {

std::optional<std::string> DraftHealth::Count(bool first_accepted, double floor) {
  ++rounds_;
  accepted_ += first_accepted ? 1 : 0;
  if (rounds_ < kWindow) return std::nullopt;
  const int accepted = accepted_;
  rounds_ = accepted_ = 0;
  if (accepted >= floor * kWindow) return std::nullopt;
  return fmt::format(
      "low_acceptance: the first draft was accepted in {} of {} rounds, expected at least {:.1f}%; drafting is off. The head or draft "
      "model was probably made for another model, or for another fine-tune of it",
      accepted, kWindow, 100.0 * floor);
}

}  // namespace haast::engine
