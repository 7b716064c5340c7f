#include "text/stop_matcher.h"

#include <algorithm>
#include <queue>
#include <utility>

#include "base/check.h"
#include "base/format.h"
#include "text/utf8.h"

namespace haast::text {

Result<std::shared_ptr<const StopSet>> StopSet::Create(std::vector<std::string> stops) {
  if (stops.size() > kMaxStrings) {
    return Err(ErrorCode::kInvalidArgument, "stop: got {} strings; expected at most {}", stops.size(), kMaxStrings);
  }
  size_t bytes = 0;
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) return Err(ErrorCode::kInvalidArgument, "stop: string {} is empty; expected at least one byte", i);
    if (!IsValidUtf8(stops[i])) return Err(ErrorCode::kInvalidArgument, "stop: string {} is not valid UTF-8", i);
    bytes += stops[i].size();
  }
  if (bytes > kMaxBytes) {
    return Err(ErrorCode::kInvalidArgument, "stop: the strings have {} bytes in all; expected at most {}", bytes, kMaxBytes);
  }
  auto set = std::make_shared<StopSet>();
  set->stops_ = std::move(stops);
  set->Build();
  return set;
}

void StopSet::Build() {
  nodes_.assign(1, Node{});
  for (size_t i = 0; i < stops_.size(); ++i) {
    int32_t node = 0;
    for (const char c : stops_[i]) node = AddChild(node, static_cast<uint8_t>(c));
    if (nodes_[node].stop < 0) nodes_[node].stop = static_cast<int32_t>(i);
  }
  // Breadth first: a node's failure link leads to a shallower one, which is complete by then.
  std::queue<int32_t> queue;
  queue.push(0);
  while (!queue.empty()) {
    const int32_t node = queue.front();
    queue.pop();
    for (const auto& [byte, child] : nodes_[node].next) {
      nodes_[child].fail = node == 0 ? 0 : Next(nodes_[node].fail, byte);
      if (nodes_[child].stop < 0) nodes_[child].stop = nodes_[nodes_[child].fail].stop;
      queue.push(child);
    }
  }
}

int32_t StopSet::AddChild(int32_t node, uint8_t byte) {
  if (const int32_t child = Child(node, byte); child >= 0) return child;
  const auto child = static_cast<int32_t>(nodes_.size());
  Node added;
  added.depth = nodes_[node].depth + 1;
  nodes_.push_back(std::move(added));
  auto& next = nodes_[node].next;
  next.insert(std::lower_bound(next.begin(), next.end(), std::pair<uint8_t, int32_t>{byte, -1}), {byte, child});
  return child;
}

int32_t StopSet::Child(int32_t node, uint8_t byte) const {
  const auto& next = nodes_[node].next;
  const auto it = std::lower_bound(next.begin(), next.end(), std::pair<uint8_t, int32_t>{byte, -1});
  return it != next.end() && it->first == byte ? it->second : -1;
}

int32_t StopSet::Next(int32_t node, uint8_t byte) const {
  for (;; node = nodes_[node].fail) {
    if (const int32_t child = Child(node, byte); child >= 0) return child;
    if (node == 0) return 0;
  }
}

StopMatcher::StopMatcher(std::shared_ptr<const StopSet> stops) : stops_(std::move(stops)) {
  HAAST_CHECK(stops_ != nullptr) << "a stop matcher needs a set, if only an empty one";
}

StopMatcher::Piece StopMatcher::Push(std::string_view text) {
  if (stopped()) return {.text = {}, .stop = stop_};
  for (size_t i = 0; i < text.size(); ++i) {
    node_ = stops_->Next(node_, static_cast<uint8_t>(text[i]));
    if (const int32_t stop = stops_->nodes_[node_].stop; stop >= 0) {
      text = text.substr(0, i + 1);
      stop_ = stop;
      break;
    }
  }
  held_.append(text);
  const size_t keep_back = stopped() ? stops_->stops_[stop_].size() : static_cast<size_t>(stops_->nodes_[node_].depth);
  HAAST_CHECK(keep_back <= held_.size()) << keep_back << " bytes of a stop string seen, " << held_.size() << " held";
  Piece piece{.text = held_.substr(0, held_.size() - keep_back), .stop = stop_};
  held_.erase(0, piece.text.size());
  kept_bytes_ += piece.text.size();
  if (stopped()) held_.clear();
  return piece;
}

std::string StopMatcher::Finish() {
  if (stopped()) return {};
  kept_bytes_ += held_.size();
  node_ = 0;
  return std::exchange(held_, {});
}

}  // namespace haast::text
