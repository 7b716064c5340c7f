// Pages of finished and running requests, found again by the tokens they hold: a radix tree whose edges are pages.
//
// Draft KV entry p holds the pair (feature of token p, id of token p + 1), so the last draft entry of a page depends on the
// token after the page. The key of a page is therefore its `page_size` ids and the id after them, below the path of the pages
// before it. A match is right for target and draft KV alike and always leaves at least one token to compute.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "kv/kv_seq.h"
#include "kv/page_pool.h"

namespace haast::kv {

class PrefixCache {
 public:
  // `pool` outlives the cache.
  explicit PrefixCache(PagePool* pool) : pool_(*pool) {}

  // The pages of the longest cached prefix of `tokens`, now the most recently used ones. `drafter` (0: none) names the
  // drafter that reads the draft entries of the pages: pages without its entries are not for it.
  std::vector<int32_t> Match(std::span<const int32_t> tokens, int drafter);

  // Pages of `seq` that Insert would list: full, committed, and the token after them known among `num_tokens`.
  int64_t CountFull(int64_t num_tokens, int drafter, const KvSeq& seq) const;

  // Lists the full committed pages of `seq`, whose draft entries are those of `drafter` (0: it wrote none). Where another
  // page of the same contents is listed already, `seq` takes that one and gives its own back.
  void Insert(std::span<const int32_t> tokens, int drafter, KvSeq* seq);

  // Evicts the least recently used leaves until `pages` pages are free; false, and nothing evicted, where there are too few
  // that no sequence holds.
  bool MakeRoom(int64_t pages);

  int64_t size() const { return static_cast<int64_t>(nodes_.size()); }
  int64_t num_evictions() const { return num_evictions_; }  // pages that went back to the pool

  // Every node's page is listed, no other page is, and the leaves are those without children.
  Status Check() const;

 private:
  friend class PrefixCacheTestPeer;  // damages the tree to see it noticed

  struct Edge {
    int64_t parent;            // id of the node above; 0: the root
    std::vector<int32_t> ids;  // [page_size + 1]
  };
  struct EdgeView {
    int64_t parent;
    std::span<const int32_t> ids;
  };
  struct EdgeLess {
    using is_transparent = void;
    template <typename A, typename B>
    bool operator()(const A& a, const B& b) const {
      if (a.parent != b.parent) return a.parent < b.parent;
      return std::lexicographical_compare(a.ids.begin(), a.ids.end(), b.ids.begin(), b.ids.end());
    }
  };
  struct Node;
  using Tree = std::map<Edge, Node, EdgeLess>;
  struct Node {
    int64_t id;
    Tree::value_type* parent;  // null: the root
    int32_t page;
    int drafter;  // whose draft entries the page holds; 0: none
    int64_t last_use;
    int children = 0;
  };

  EdgeView EdgeOf(const Tree::value_type* parent, std::span<const int32_t> tokens, int64_t page_index) const;
  Tree::value_type* Add(Tree::value_type* parent, const EdgeView& edge, int32_t page, int drafter);
  void Touch(Tree::value_type* node);
  void EvictOne();

  PagePool& pool_;
  Tree nodes_;
  std::set<std::pair<int64_t, Tree::value_type*>> leaves_;  // by last use; uses differ, so the order is that of time alone
  int64_t next_id_ = 1;
  int64_t clock_ = 0;
  int64_t num_evictions_ = 0;
};

}  // namespace haast::kv
