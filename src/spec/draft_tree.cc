#include "spec/draft_tree.h"

#include <algorithm>
#include <numeric>

namespace haast::spec {

void DraftTree::Clear() {
  drafts.clear();
  parents.assign(1, -1);
  q.Clear();
}

void DraftTree::AppendToChain(int32_t token) {
  parents.push_back(static_cast<int32_t>(drafts.size()));
  drafts.push_back(token);
}

bool DraftTree::IsChain() const {
  for (size_t row = 1; row < parents.size(); ++row) {
    if (parents[row] != static_cast<int32_t>(row) - 1) return false;
  }
  return true;
}

int DraftTree::depth() const {
  std::vector<int> depths(parents.size(), 0);
  int deepest = 0;
  for (size_t row = 1; row < parents.size(); ++row) {
    depths[row] = depths[static_cast<size_t>(parents[row])] + 1;
    deepest = std::max(deepest, depths[row]);
  }
  return deepest;
}

int CandidatePool::Add(int parent, const Candidate& candidate) {
  const float above = parent < 0 ? 0.0f : nodes_[parent].score;
  const int depth = parent < 0 ? 1 : nodes_[parent].depth + 1;
  // Also right for a NaN: it counts as no confidence at all.
  const float own = candidate.score <= 0.0f ? candidate.score : candidate.score > 0.0f ? 0.0f : -1e30f;
  nodes_.push_back({candidate.token, parent, above + own, depth});
  return size() - 1;
}

std::vector<int> CandidatePool::Best(int begin, int count) const {
  std::vector<int> order(static_cast<size_t>(std::max(0, size() - begin)));
  std::iota(order.begin(), order.end(), begin);
  if (count < static_cast<int>(order.size())) {
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return nodes_[a].score > nodes_[b].score; });
    order.resize(static_cast<size_t>(std::max(0, count)));
    std::sort(order.begin(), order.end());
  }
  return order;
}

void CandidatePool::Fill(int count, DraftTree* tree) const {
  tree->Clear();
  std::vector<int32_t> row_of(nodes_.size(), -1);
  for (const int i : Best(0, count)) {
    const Node& node = nodes_[i];
    tree->parents.push_back(node.parent < 0 ? 0 : row_of[static_cast<size_t>(node.parent)]);
    tree->drafts.push_back(node.token);
    row_of[static_cast<size_t>(i)] = static_cast<int32_t>(tree->drafts.size());
  }
}

}  // namespace haast::spec
