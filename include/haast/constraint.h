// What may come next in one request, and when it ends: stop strings, grammars, minimum lengths.
#pragma once

#include <cstdint>
#include <span>

namespace haast {

// One object a request, called by the engine's thread. The engine asks it for every position of a draft run, so that
// nothing after a stop is emitted, counted or cached.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Whether Mask may change logits at the current position; false spares a copy of the row.
  virtual bool NeedsMask() const { return false; }
  // Sets forbidden tokens of the next position to -infinity. logits: [vocab].
  virtual void Mask(std::span<float> /*logits*/) {}
  // The next generated token is `token`.
  virtual void Advance(int32_t token) = 0;
  // Takes back the last `count` tokens given to Advance.
  virtual void Rollback(int count) = 0;
  // The answer is complete with the last token given to Advance.
  virtual bool finished() const = 0;
};

}  // namespace haast
