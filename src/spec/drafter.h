// Proposes a draft tree for each sequence and learns from what was kept. A new drafter is one file in this folder, NAME_drafter.cc, with
// its Make...Drafter, and one line in HAAST_SPECULATIVE_ALGORITHMS (haast/speculation.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "exec/runner.h"
#include "haast/request.h"
#include "haast/result.h"
#include "kv/kv_seq.h"
#include "spec/draft_tree.h"

namespace haast::model {
class DraftHead;
}

namespace haast::spec {

// Data that a drafter derives from a request's tokens and can make again from them at any time.
class DraftIndex {
 public:
  virtual ~DraftIndex() = default;
};

// What a drafter remembers of one request between rounds. Owned by the request; opaque to the engine. All but `index`
// belongs to a saved request.
struct DraftState {
  std::vector<Candidate> first;         // for the next round's first draft, best first; empty: nothing can be drafted yet
  std::vector<int32_t> first_q_tokens;  // where first[0] was drawn: from this distribution (sampling::WeightedTokens)
  std::vector<float> first_q_weights;
  std::vector<float> carried;        // [H] value that the next draft step of a head reads
  std::vector<float> waiting_taps;   // [n, width] features of committed tokens that the head has not seen yet
  std::vector<int32_t> waiting_ids;  // [n] the id after each of them
  std::unique_ptr<DraftIndex> index;
};

struct ProposeItem {
  DraftState* state;
  kv::KvSeq* kv;                    // committed length s; pages reach to s + 1 + shape.num_tokens
  std::span<const int32_t> tokens;  // [s + 1] committed tokens, then the newest one
  const SamplingParams* sampling;
  TreeShape shape;             // num_tokens is at least 1
  DraftTree* tree;             // filled; may stay empty
  bool sample_drafts = false;  // a chain whose drafts are drawn, and DraftTree::q filled; a drafter whose drafts are certain ignores it
};

// Tokens of one sequence that became certain in this step: row j is position `first_position` + j, its target features and
// the id of the token after it.
struct ObserveItem {
  DraftState* state;
  kv::KvSeq* kv;
  const SamplingParams* sampling;
  int64_t first_position;
  std::span<const int32_t> tokens;     // all of them: position first_position + n holds the newest
  int64_t count;                       // n
  std::span<const float* const> taps;  // [n] tapped features; empty where the drafter needs none
  bool will_draft;                     // the next round drafts; false after a prompt chunk that is not the last
  int top_k;                           // of the next round
  bool sample_drafts;                  // likewise
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // The runner whose KV cache holds this drafter's entries, in the pages of the sequence; null: it has none.
  virtual exec::Runner* runner() { return nullptr; }
  // Reads features of the target (ObserveItem::taps).
  virtual bool needs_taps() const { return false; }
  virtual Status Propose(std::span<const ProposeItem> items) = 0;
  virtual Status Observe(std::span<const ObserveItem> items) = 0;
  // Whether this drafter can go on with a state of a request with `length` committed tokens and `draft_length` draft entries. It
  // may come from a file: nothing in it is certain.
  virtual bool AcceptsState(const DraftState& state, int64_t length, int64_t draft_length) const {
    return draft_length <= length && state.first.empty() && state.first_q_tokens.empty() && state.first_q_weights.empty() &&
           state.carried.empty() && state.waiting_taps.empty() && state.waiting_ids.empty();
  }
  // The request has ended with `tokens`, its prompt first.
  virtual void Finish(DraftState* state, std::span<const int32_t> tokens) {
    static_cast<void>(state);
    static_cast<void>(tokens);
  }
};

// What a drafter may be made of. All of it outlives the drafter; null: not loaded.
struct DraftParts {
  const model::DraftHead* head;  // the target taps its feature_width() floats a token
  exec::Runner* head_runner;     // runs `head`
  exec::Runner* draft_model;     // runs a second model
  const kernels::Ops* ops;
  bool share;  // entries in the pages may be shared with other requests
};

// MakeEagle3Drafter and so on, each in its drafter's file; called where the source of HAAST_SPECULATIVE_ALGORITHMS is loaded.
#define HAAST_DECLARE_MAKER(algorithm, name, source, trees) std::unique_ptr<Drafter> Make##algorithm##Drafter(const DraftParts& parts);
HAAST_SPECULATIVE_ALGORITHMS(HAAST_DECLARE_MAKER)
#undef HAAST_DECLARE_MAKER

}  // namespace haast::spec
