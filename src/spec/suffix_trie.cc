#include "spec/suffix_trie.h"

#include <algorithm>

namespace haast::spec {

// Adds `change` to the counts along `run`; nodes whose count falls to 0 go.
void SuffixTrie::Count(std::span<const int32_t> run, int64_t change) {
  int64_t node = 0;
  for (const int32_t token : run) {
    const auto found = nodes_[node].children.find(token);
    int64_t child = found == nodes_[node].children.end() ? -1 : found->second;
    if (child < 0) {
      if (free_.empty()) {
        child = static_cast<int64_t>(nodes_.size());
        nodes_.emplace_back();
      } else {
        child = free_.back();
        free_.pop_back();
      }
      nodes_[node].children.emplace(token, child);
    }
    nodes_[child].count += change;
    const bool gone = nodes_[child].count == 0;
    if (gone) nodes_[node].children.erase(token);
    node = child;
    if (!gone) continue;
    // Counts do not grow with depth, so everything below is gone with it, one node a level of this run.
    free_.push_back(child);
  }
}

void SuffixTrie::Append(int32_t token) {
  std::vector<int64_t> tails{0};
  for (const int64_t parent : tails_) {
    if (static_cast<int>(tails.size()) > max_depth_) break;
    const auto [found, fresh] = nodes_[parent].children.try_emplace(token, static_cast<int64_t>(nodes_.size()));
    const int64_t child = found->second;
    if (fresh) nodes_.emplace_back();
    ++nodes_[child].count;
    tails.push_back(child);
  }
  tails_ = std::move(tails);
}

void SuffixTrie::Add(std::vector<int32_t> sequence) {
  const std::span<const int32_t> tokens(sequence);
  for (size_t begin = 0; begin < tokens.size(); ++begin) {
    Count(tokens.subspan(begin, std::min(tokens.size() - begin, static_cast<size_t>(max_depth_))), 1);
  }
  sequences_.push_back(std::move(sequence));
  while (num_nodes() > max_nodes_ && !sequences_.empty()) Forget();
}

void SuffixTrie::Forget() {
  const std::vector<int32_t> oldest = std::move(sequences_.front());
  sequences_.pop_front();
  const std::span<const int32_t> tokens(oldest);
  for (size_t begin = 0; begin < tokens.size(); ++begin) {
    Count(tokens.subspan(begin, std::min(tokens.size() - begin, static_cast<size_t>(max_depth_))), -1);
  }
}

int64_t SuffixTrie::Find(std::span<const int32_t> run) const {
  int64_t node = 0;
  for (const int32_t token : run) {
    const auto child = nodes_[node].children.find(token);
    if (child == nodes_[node].children.end()) return -1;
    node = child->second;
  }
  return node;
}

int64_t SuffixTrie::Match(std::span<const int32_t> tokens, int longest, int* length) const {
  for (int64_t n = std::min<int64_t>(longest, static_cast<int64_t>(tokens.size())); n > 0; --n) {
    const int64_t node = Find(tokens.last(static_cast<size_t>(n)));
    if (node < 0 || nodes_[node].children.empty()) continue;
    *length = static_cast<int>(n);
    return node;
  }
  *length = 0;
  return 0;
}

std::vector<SuffixTrie::Child> SuffixTrie::Children(int64_t node) const {
  std::vector<Child> children;
  children.reserve(nodes_[node].children.size());
  for (const auto& [token, child] : nodes_[node].children) children.push_back({token, child, nodes_[child].count});
  std::sort(children.begin(), children.end(),
            [](const Child& a, const Child& b) { return a.count != b.count ? a.count > b.count : a.token < b.token; });
  return children;
}

}  // namespace haast::spec
