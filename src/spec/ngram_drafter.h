// Prompt lookup: the request's own tokens, where its last few occurred before, say what comes next (Saxena 2023; "ngram" in
// vLLM and SGLang). No model and no memory but the tokens.
#pragma once

#include "spec/drafter.h"

namespace haast::spec {

class NgramDrafter final : public Drafter {
 public:
  Status Propose(std::span<const ProposeItem> items) override;
  Status Observe(std::span<const ObserveItem>) override { return {}; }
};

// Where the tokens that follow `tokens` begin, by the longest of its suffixes (longest tried: `max_n` tokens) that occurs
// earlier in it; the latest such place, and one followed by at least one token. -1: no suffix of `min_n` tokens does.
int64_t FindNgram(std::span<const int32_t> tokens, int min_n, int max_n);

}  // namespace haast::spec
