#include "text/stop_constraint.h"

#include <utility>

#include "base/check.h"

namespace haast::text {

StopConstraint::StopConstraint(const Tokenizer& tokenizer, std::shared_ptr<const StopSet> stops, bool skip_special)
    : now_{StreamDecoder(tokenizer, skip_special), StopMatcher(std::move(stops))} {}

void StopConstraint::Advance(int32_t token) {
  before_.push_back(now_);
  if (before_.size() > static_cast<size_t>(kMaxRollback)) before_.pop_front();
  now_.matcher.Push(now_.decoder.Push(token));
}

void StopConstraint::Rollback(int count) {
  HAAST_CHECK(count >= 0 && static_cast<size_t>(count) <= before_.size())
      << "rollback of " << count << " tokens; " << before_.size() << " are remembered";
  if (count == 0) return;
  const auto first = before_.end() - count;
  now_ = *first;
  before_.erase(first, before_.end());
}

}  // namespace haast::text
