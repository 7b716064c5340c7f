// One running request.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/swap_space.h"
#include "haast/event.h"
#include "haast/request.h"
#include "kv/kv_seq.h"
#include "sampling/logit_edits.h"
#include "spec/depth_policy.h"
#include "spec/drafter.h"

namespace haast::engine {

// Invariant between steps: tokens.size() > kv.length(). The tokens from kv.length() on have no KV yet: a prompt being
// prefilled, or the one newest token of a decoding request. A waiting request holds no pages.
struct Sequence {
  RequestId id = 0;
  Request request;
  std::vector<int32_t> tokens;  // prompt, then generated
  sampling::LogitEdits edits;
  std::vector<TokenOutput> prompt_logprobs;  // of the prompt's tokens from the second on, as far as they are known
  kv::KvSeq kv;
  spec::DraftState draft;
  spec::DraftTree tree;  // drafts of the round in flight
  spec::AcceptanceEstimate acceptance;
  int planned_depth = 0;                      // of the next round, where speculation is automatic
  spec::TreeShape shape;                      // of the next round, within its pages
  std::unique_ptr<SwapSpace::Entry> swapped;  // KV and drafter state of a waiting request; null: it is computed again
  int64_t swapped_length = 0;                 // tokens of it whose target and draft KV are both there
  int64_t cached_prompt_tokens = 0;
  int64_t listed_pages = 0;  // of its pages, how many the prefix cache has seen
  SpeculationStats stats;
  double submitted = 0.0;  // seconds on the monotonic clock
  double started = 0.0;
  double first_token = 0.0;

  int64_t pending() const { return static_cast<int64_t>(tokens.size()) - kv.length(); }
  int64_t generated() const { return static_cast<int64_t>(tokens.size() - request.prompt.size()); }
  int64_t remaining() const { return request.max_tokens - generated(); }
  // Its prompt's rows need logits, so it takes few at a time and needs all of them run.
  bool wants_prompt_logprobs() const { return request.prompt_logprobs >= 0 && generated() == 0; }
  bool speculates() const { return request.speculation.algorithm != SpeculativeAlgorithm::kNone; }
  // Its answer depends on its drafts: which positions are drafted, and from what, must follow from the request alone. So it drafts as
  // many as it may in every round, never fewer for want of pages, and after a preemption goes on with the round that comes next.
  bool samples_drafts() const {
    return speculates() && request.speculation.sampling == SpeculativeSampling::kRejection && request.sampling.temperature > 0.0f;
  }
  // A preempted request of that kind that is computed again: its newest token waits for its drafts.
  bool holds_newest_back() const { return samples_drafts() && generated() > 0 && pending() > 1; }
};

}  // namespace haast::engine
