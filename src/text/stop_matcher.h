// Finds the end of an answer by its text: several stop strings, in a stream of pieces.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "haast/result.h"

namespace haast::text {

// A compiled set of stop strings (Aho and Corasick, "Efficient string matching", 1975). Immutable, shared by the matchers of one request.
class StopSet {
 public:
  // An empty list is valid and never matches. Errors (kInvalidArgument): a stop string that is empty or not UTF-8, more
  // than kMaxStrings of them, or more than kMaxBytes in all.
  static Result<std::shared_ptr<const StopSet>> Create(std::vector<std::string> stops);
  StopSet() = default;  // matches nothing

  const std::vector<std::string>& stops() const { return stops_; }

  static constexpr size_t kMaxStrings = 64;
  static constexpr size_t kMaxBytes = 16384;

 private:
  friend class StopMatcher;
  struct Node {
    std::vector<std::pair<uint8_t, int32_t>> next;  // sorted by byte
    int32_t fail = 0;
    int32_t depth = 0;  // length of the prefix this node stands for
    int32_t stop = -1;  // the longest stop string that ends here
  };
  void Build();
  int32_t AddChild(int32_t node, uint8_t byte);
  int32_t Child(int32_t node, uint8_t byte) const;  // -1: none
  int32_t Next(int32_t node, uint8_t byte) const;

  std::vector<std::string> stops_;
  std::vector<Node> nodes_ = std::vector<Node>(1);  // [0] is the empty prefix
};

// Follows one text. The stop that *ends* first wins, and of those that end at the same byte the longest, so the kept text
// depends on the text alone and not on how it was cut into tokens. Holds back at most the longest stop string less one
// byte. A copy is an independent matcher (a snapshot to go back to).
class StopMatcher {
 public:
  struct Piece {
    std::string text;  // may be shown now; never part of a stop string
    int stop = -1;     // index in stops() of the stop that is now complete: the text ends here, before it
  };

  explicit StopMatcher(std::shared_ptr<const StopSet> stops);

  // The text of the next token. After a stop every further Push gives nothing and the same stop.
  Piece Push(std::string_view text);
  // The answer ended for another reason: the text that was held back.
  std::string Finish();

  bool stopped() const { return stop_ >= 0; }
  int stop() const { return stop_; }
  // Bytes of the text so far that belong to the answer whatever follows; all of the answer once stopped.
  uint64_t kept_bytes() const { return kept_bytes_; }
  size_t held_bytes() const { return held_.size(); }

 private:
  std::shared_ptr<const StopSet> stops_;
  std::string held_;  // the longest suffix of the text that begins a stop string
  int32_t node_ = 0;
  int stop_ = -1;
  uint64_t kept_bytes_ = 0;
};

}  // namespace haast::text
