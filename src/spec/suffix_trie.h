// How often every run of up to `max_depth` tokens occurred in the sequences seen so far, in bounded memory.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

namespace haast::spec {

class SuffixTrie {
 public:
  // At most about `max_nodes` nodes (some 60 bytes each): the oldest sequences are forgotten first.
  SuffixTrie(int max_depth, int64_t max_nodes) : max_depth_(max_depth), max_nodes_(max_nodes) { nodes_.resize(1); }

  // Adds one token to a sequence that grows: every run that ends with it is counted. Such a sequence is never forgotten, so a
  // trie has one of them or whole ones (Add), not both.
  void Append(int32_t token);
  // Adds a whole sequence, and forgets the oldest ones where it does not fit.
  void Add(std::vector<int32_t> sequence);

  struct Child {
    int32_t token;
    int64_t node;
    int64_t count;
  };
  // The node of the longest suffix of `tokens` (at most `longest` of them) that was followed by something; 0 (the root) where
  // not even the last token was. `length` receives how many tokens matched. Below the node are max_depth - length levels.
  int64_t Match(std::span<const int32_t> tokens, int longest, int* length) const;
  int64_t count(int64_t node) const { return nodes_[node].count; }
  // The children of a node, most frequent first; equal ones by lower token.
  std::vector<Child> Children(int64_t node) const;
  int64_t num_nodes() const { return static_cast<int64_t>(nodes_.size() - free_.size()) - 1; }

 private:
  struct Node {
    int64_t count = 0;
    std::unordered_map<int32_t, int64_t> children;
  };
  int64_t Find(std::span<const int32_t> run) const;
  void Count(std::span<const int32_t> run, int64_t change);
  void Forget();

  int max_depth_;
  int64_t max_nodes_;
  std::vector<Node> nodes_;  // 0: the root
  std::vector<int64_t> free_;
  std::vector<int64_t> tails_{0};               // of Append: the nodes of its last 0, 1, 2, ... tokens
  std::deque<std::vector<int32_t>> sequences_;  // of Add, oldest first
};

}  // namespace haast::spec
