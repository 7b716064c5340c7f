#include "spec/suffix_drafter.h"

#include <algorithm>
#include <cmath>

namespace haast::spec {
namespace {

constexpr int kMaxMatch = 12;              // tokens that are looked up
constexpr int kMaxRun = kMaxMatch + 12;    // tokens of a counted run: the longest match and what may follow it
constexpr int64_t kLongestIndexed = 8192;  // newest tokens of a request that are counted
constexpr int kTokensPerMatched = 2;       // drafts for each matched token: a short match says little about the far future

// Counts of one request's tokens, as far as they have been added.
struct RequestIndex final : DraftIndex {
  RequestIndex() : trie(kMaxRun, INT64_MAX) {}
  SuffixTrie trie;
  int64_t added = 0;
};

RequestIndex& IndexOf(DraftState* state) {
  if (state->index == nullptr) state->index = std::make_unique<RequestIndex>();
  return static_cast<RequestIndex&>(*state->index);
}

void CatchUp(std::span<const int32_t> tokens, RequestIndex* index) {
  const int64_t size = static_cast<int64_t>(tokens.size());
  index->added = std::max(index->added, size - kLongestIndexed);
  for (; index->added < size; ++index->added) index->trie.Append(tokens[index->added]);
}

// Adds the likeliest continuations of `node`, best first over the whole tree, until `pool` has `count` nodes.
void Grow(const SuffixTrie& trie, int64_t node, const TreeShape& shape, int count, CandidatePool* pool) {
  struct Open {
    int64_t node;  // of the trie
    int parent;    // of the pool
    float score;
    int depth;
    Candidate candidate;
  };
  std::vector<Open> open;
  const auto expand = [&](int64_t from, int parent, float score, int depth) {
    if (depth > shape.depth) return;
    const std::vector<SuffixTrie::Child> children = trie.Children(from);
    int64_t total = 0;
    for (const SuffixTrie::Child& child : children) total += child.count;
    for (size_t i = 0; i < children.size() && static_cast<int>(i) < shape.top_k; ++i) {
      const float own = std::log(static_cast<float>(children[i].count) / static_cast<float>(total));
      open.push_back({children[i].node, parent, score + own, depth, {children[i].token, own}});
    }
  };
  expand(node, -1, 0.0f, 1);
  while (!open.empty() && pool->size() < count) {
    const auto best = std::max_element(open.begin(), open.end(), [](const Open& a, const Open& b) { return a.score < b.score; });
    const Open taken = *best;
    open.erase(best);
    expand(taken.node, pool->Add(taken.parent, taken.candidate), taken.score, taken.depth + 1);
  }
}

}  // namespace

SuffixDrafter::SuffixDrafter(int64_t max_nodes) : history_(kMaxRun, max_nodes) {}

Status SuffixDrafter::Propose(std::span<const ProposeItem> items) {
  CandidatePool pool;
  for (const ProposeItem& item : items) {
    item.tree->Clear();
    RequestIndex& index = IndexOf(item.state);
    CatchUp(item.tokens, &index);
    int own_length = 0;
    int shared_length = 0;
    const int64_t own = index.trie.Match(item.tokens, kMaxMatch, &own_length);
    const int64_t shared = history_.Match(item.tokens, kMaxMatch, &shared_length);
    const int length = std::max(own_length, shared_length);
    if (length == 0) continue;
    const int count = std::min(item.shape.num_tokens, kTokensPerMatched * length);
    pool.Clear();
    // The request's own history where both know as much.
    if (own_length >= shared_length) {
      Grow(index.trie, own, item.shape, count, &pool);
    } else {
      Grow(history_, shared, item.shape, count, &pool);
    }
    pool.Fill(count, item.tree);
  }
  return {};
}

void SuffixDrafter::Finish(DraftState* state, std::span<const int32_t> tokens) {
  state->index.reset();
  const size_t kept = std::min(tokens.size(), static_cast<size_t>(kLongestIndexed));
  const std::span<const int32_t> newest = tokens.last(kept);
  history_.Add({newest.begin(), newest.end()});
}

std::unique_ptr<Drafter> MakeSuffixDrafter(const DraftParts&) { return std::make_unique<SuffixDrafter>(); }

}  // namespace haast::spec
