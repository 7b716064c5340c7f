// Draft trees: what a round proposes, and how the pool of candidates becomes one.
#pragma once

#include <cstdint>
#include <vector>

#include "haast/request.h"
#include "sampling/draft.h"
#include "sampling/rejection.h"

namespace haast::spec {

// Rows of a verify launch of one request: the drafts and the root.
inline constexpr int kMaxTreeRows = kMaxDraftTokens + 1;

// How far and how wide a round may draft. A chain has top_k 1 and depth = num_tokens.
struct TreeShape {
  int num_tokens = 0;  // drafts, the root excluded
  int depth = 0;       // levels below the root
  int top_k = 1;       // children of a node, and nodes of a level that are expanded
};

using sampling::Candidate;

// Drafts of one round in target ids. drafts[i] hangs under row parents[i + 1] of the verify launch (row 0 is the root: the
// newest committed token; draft i is row i + 1).
struct DraftTree {
  std::vector<int32_t> drafts;
  std::vector<int32_t> parents{-1};  // [drafts + 1], parents[0] = -1
  sampling::DraftDistributions q;    // [drafts] of a chain: what each was drawn from; or empty: the drafts are certain

  void Clear();
  void AppendToChain(int32_t token);
  bool IsChain() const;
  int depth() const;  // levels below the root
};

// Every candidate of a round with its path's confidence: EAGLE-2's pool (Li et al., 2024). Parents come before children.
class CandidatePool {
 public:
  struct Node {
    int32_t token;
    int parent;   // node, -1: the root
    float score;  // sum over its path, at most its parent's
    int depth;    // 1 below the root
  };

  void Clear() { nodes_.clear(); }
  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& node(int i) const { return nodes_[i]; }
  // Returns the new node.
  int Add(int parent, const Candidate& candidate);
  // The `count` nodes from `begin` on with the best scores, in order of insertion.
  std::vector<int> Best(int begin, int count) const;
  // The best `count` nodes of the pool as a tree: closed under ancestors, since no child scores above its parent and ties go
  // to the earlier node.
  void Fill(int count, DraftTree* tree) const;

 private:
  std::vector<Node> nodes_;
};

}  // namespace haast::spec
