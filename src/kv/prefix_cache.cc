#include "kv/prefix_cache.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace haast::kv {

PrefixCache::EdgeView PrefixCache::EdgeOf(const Tree::value_type* parent, std::span<const int32_t> tokens, int64_t page_index) const {
  const size_t page_size = static_cast<size_t>(pool_.page_size());
  return {parent == nullptr ? 0 : parent->second.id, tokens.subspan(static_cast<size_t>(page_index) * page_size, page_size + 1)};
}

void PrefixCache::Touch(Tree::value_type* node) {
  if (node->second.children == 0) leaves_.erase({node->second.last_use, node});
  node->second.last_use = clock_;
  if (node->second.children == 0) leaves_.insert({clock_, node});
}

std::vector<int32_t> PrefixCache::Match(std::span<const int32_t> tokens, int drafter) {
  ++clock_;
  std::vector<int32_t> pages;
  const int64_t most = (static_cast<int64_t>(tokens.size()) - 1) / pool_.page_size();
  Tree::value_type* parent = nullptr;
  for (int64_t i = 0; i < most; ++i) {
    const auto found = nodes_.find(EdgeOf(parent, tokens, i));
    if (found == nodes_.end() || (drafter != 0 && found->second.drafter != drafter)) break;
    parent = &*found;
    Touch(parent);
    pages.push_back(found->second.page);
  }
  return pages;
}

PrefixCache::Tree::value_type* PrefixCache::Add(Tree::value_type* parent, const EdgeView& edge, int32_t page, int drafter) {
  const auto [node, fresh] = nodes_.emplace(Edge{edge.parent, {edge.ids.begin(), edge.ids.end()}},
                                            Node{.id = next_id_++, .parent = parent, .page = page, .drafter = drafter, .last_use = clock_});
  HAAST_CHECK(fresh) << "page " << page << " added twice";
  leaves_.insert({clock_, &*node});
  if (parent != nullptr && parent->second.children++ == 0) leaves_.erase({parent->second.last_use, parent});
  return &*node;
}

int64_t PrefixCache::CountFull(int64_t num_tokens, int drafter, const KvSeq& seq) const {
  int64_t valid = std::min(seq.length(), num_tokens - 1);
  if (drafter != 0) valid = std::min(valid, seq.draft_length());
  return valid / pool_.page_size();
}

void PrefixCache::Insert(std::span<const int32_t> tokens, int drafter, KvSeq* seq) {
  ++clock_;
  const int64_t full = CountFull(static_cast<int64_t>(tokens.size()), drafter, *seq);
  Tree::value_type* parent = nullptr;
  for (int64_t i = 0; i < full; ++i) {
    const int32_t page = seq->pages()[i];
    const EdgeView edge = EdgeOf(parent, tokens, i);
    const auto found = nodes_.find(edge);
    if (found == nodes_.end()) {
      pool_.List(page, seq->owner());
      parent = Add(parent, edge, page, drafter);
      continue;
    }
    Node& node = found->second;
    parent = &*found;
    Touch(parent);
    if (node.page == page) continue;
    if (drafter == 0 || node.drafter == drafter) {
      seq->Replace(static_cast<size_t>(i), node.page, &pool_);
    } else {
      // The listed page lacks the draft entries that this one has; who holds it keeps it.
      pool_.Unlist(node.page);
      pool_.List(page, seq->owner());
      node.page = page;
      node.drafter = drafter;
    }
  }
}

// Takes a leaf whose page no sequence holds. There may be none although pages could go: where a page with draft entries took
// the place of one without, a sequence may hold a leaf and not the pages above it. Then a held leaf is forgotten.
void PrefixCache::EvictOne() {
  const auto unheld = [&](const auto& leaf) { return pool_.holders(leaf.second->second.page) == 0; };
  auto victim = std::find_if(leaves_.begin(), leaves_.end(), unheld);
  if (victim == leaves_.end()) victim = leaves_.begin();
  HAAST_CHECK(victim != leaves_.end()) << nodes_.size() << " nodes without a leaf";
  Tree::value_type* node = victim->second;
  Tree::value_type* parent = node->second.parent;
  leaves_.erase(victim);
  num_evictions_ += pool_.holders(node->second.page) == 0;
  pool_.Unlist(node->second.page);
  nodes_.erase(nodes_.find(node->first));
  if (parent != nullptr && --parent->second.children == 0) leaves_.insert({parent->second.last_use, parent});
}

bool PrefixCache::MakeRoom(int64_t pages) {
  if (pages > int64_t{pool_.num_free()} + pool_.num_cached()) return false;
  while (pool_.num_free() < pages) EvictOne();
  return true;
}

Status PrefixCache::Check() const {
  std::vector<bool> seen(static_cast<size_t>(pool_.num_pages()), false);
  int64_t listed = 0, leaves = 0;
  for (const auto& [edge, node] : nodes_) {
    if (!pool_.listed(node.page) || seen[node.page]) {
      return Err(ErrorCode::kInvalidArgument, "prefix cache: page {} of node {} is {}", node.page, node.id,
                 seen[node.page] ? "in two nodes" : "not listed in the pool");
    }
    seen[node.page] = true;
    if (edge.parent != (node.parent == nullptr ? 0 : node.parent->second.id)) {
      return Err(ErrorCode::kInvalidArgument, "prefix cache: node {} hangs under {} by its key only", node.id, edge.parent);
    }
    leaves += node.children == 0;
  }
  for (int32_t page = 0; page < pool_.num_pages(); ++page) listed += pool_.listed(page);
  if (listed != size() || leaves != static_cast<int64_t>(leaves_.size())) {
    return Err(ErrorCode::kInvalidArgument, "prefix cache: {} nodes for {} listed pages, {} leaves of which {} are in the order of use",
               size(), listed, leaves, leaves_.size());
  }
  for (const auto& [last_use, node] : leaves_) {
    if (node->second.children != 0 || node->second.last_use != last_use) {
      return Err(ErrorCode::kInvalidArgument, "prefix cache: node {} has {} children and use {}, but is listed as a leaf of use {}",
                 node->second.id, node->second.children, node->second.last_use, last_use);
    }
  }
  return {};
}

}  // namespace haast::kv
