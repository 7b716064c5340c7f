// Suffix decoding (Oliaro et al., 2024): the request's own tokens and those of finished requests, as counts of what followed
// what. A tree of the likeliest continuations of the longest known suffix. No model; memory is bounded.
#pragma once

#include "spec/drafter.h"
#include "spec/suffix_trie.h"

namespace haast::spec {

class SuffixDrafter final : public Drafter {
 public:
  // `max_nodes`: of the history shared by all requests.
  explicit SuffixDrafter(int64_t max_nodes = int64_t{1} << 20);

  Status Propose(std::span<const ProposeItem> items) override;
  Status Observe(std::span<const ObserveItem>) override { return {}; }
  void Finish(DraftState* state, std::span<const int32_t> tokens) override;
  const SuffixTrie& history() const { return history_; }

 private:
  SuffixTrie history_;
};

}  // namespace haast::spec
