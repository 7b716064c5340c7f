// Stop strings as the engine sees them: the request ends with the token that completes one.
#pragma once

#include <deque>
#include <memory>

#include "haast/constraint.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace haast::text {

// Follows the text of the generated tokens. It masks nothing: every token is allowed, and some end the answer.
// A front door that feeds the same tokens to its own StreamDecoder and StopMatcher gets the text before the stop.
class StopConstraint final : public TokenConstraint {
 public:
  // `tokenizer` outlives this object. skip_special: as the answer is shown, so that a stop string is found exactly when
  // its text would be seen.
  StopConstraint(const Tokenizer& tokenizer, std::shared_ptr<const StopSet> stops, bool skip_special);

  void Advance(int32_t token) override;
  // count: 0 to the tokens given so far, at most kMaxRollback.
  void Rollback(int count) override;
  bool finished() const override { return now_.matcher.stopped(); }

  // The stop that is complete, as an index in the set; -1: none.
  int stop() const { return now_.matcher.stop(); }

  // Longer than any draft run; older states are forgotten.
  static constexpr int kMaxRollback = 128;

 private:
  struct State {
    StreamDecoder decoder;
    StopMatcher matcher;
  };

  State now_;
  std::deque<State> before_;  // the states before each of the last tokens, oldest first
};

}  // namespace haast::text
