// Proposes a draft tree for each sequence and learns from what was kept. A new drafter is one file and one line in the
// engine's table.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "haast/result.h"
#include "kv/kv_seq.h"

namespace haast::spec {

// What a drafter remembers of one request between rounds. Owned by the request; opaque to the engine.
struct DraftState {
  std::vector<float> carried;  // [H] value that the next draft step reads
  int32_t next_draft = -1;     // first draft of the next round, a target id; -1: nothing can be drafted yet
};

// Drafts of one round in target ids. drafts[i] hangs under row parents[i + 1] of the verify launch (row 0 is the root: the
// newest committed token; draft i is row i + 1).
struct DraftTree {
  std::vector<int32_t> drafts;
  std::vector<int32_t> parents{-1};  // [drafts + 1], parents[0] = -1
  void Clear() {
    drafts.clear();
    parents.assign(1, -1);
  }
  void AppendToChain(int32_t token) {
    parents.push_back(static_cast<int32_t>(drafts.size()));
    drafts.push_back(token);
  }
};

struct ProposeItem {
  DraftState* state;
  const kv::KvSeq* kv;  // committed length s; pages reach to s + num_drafts
  int num_drafts;       // at least 1
  DraftTree* tree;      // filled
};

// Tokens of one sequence that became certain in this step: row j is position `first_position` + j, its target features and
// the id of the token after it.
struct ObserveItem {
  DraftState* state;
  kv::KvSeq* kv;
  int64_t first_position;
  std::span<const int32_t> next_ids;   // [n] id at first_position + j + 1
  std::span<const float* const> taps;  // [n] pointers to tapped features
  bool will_draft;                     // the next round drafts; false for a prompt chunk that is not the last
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual const char* name() const = 0;
  virtual Status Propose(std::span<const ProposeItem> items) = 0;
  virtual Status Observe(std::span<const ObserveItem> items) = 0;
};

}  // namespace haast::spec
