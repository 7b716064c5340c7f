// What a request changes in its logits before a token is drawn: biases, penalties for what was said, no end before its time.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "haast/request.h"

namespace haast::sampling {

// The edits of one request and the tokens they depend on. Every token of the answer is told to Advance as soon as it is certain,
// inside a draft run too, so that each position sees what plain decoding would.
class LogitEdits {
 public:
  LogitEdits() = default;  // changes nothing
  explicit LogitEdits(const Request& request);

  // Whether Apply may change logits at the current position; false spares a copy of the row.
  bool active() const { return always_ || generated_ < min_tokens_; }
  // Edits the logits of the next position, in the order that SamplingParams names. logits: [vocab].
  void Apply(std::span<float> logits) const;
  // The next generated token is `token`.
  void Advance(int32_t token);

 private:
  struct Seen {
    int32_t token;
    int32_t generated;  // times in the answer
  };
  Seen& Find(int32_t token);

  bool penalises_ = false;
  bool always_ = false;  // biases or penalties
  float repetition_ = 1.0f;
  float frequency_ = 0.0f;
  float presence_ = 0.0f;
  std::vector<TokenBias> bias_;
  std::vector<int32_t> eos_ids_;
  int64_t min_tokens_ = 0;
  int64_t generated_ = 0;
  std::vector<Seen> seen_;  // each token of prompt and answer once; kept only where there are penalties
  std::unordered_map<int32_t, size_t> index_;
};

}  // namespace haast::sampling
