// The KV pages of one sequence and how many of its tokens are committed. Rollback is a length, not a copy.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kv/page_pool.h"

namespace haast::kv {

// Shared pages come first and are full of committed tokens: what a launch writes lies behind them.
class KvSeq {
 public:
  KvSeq() = default;
  explicit KvSeq(int32_t owner) : owner_(owner) {}

  int32_t owner() const { return owner_; }
  const std::vector<int32_t>& pages() const { return pages_; }
  int64_t length() const { return length_; }              // tokens whose target KV is valid
  int64_t draft_length() const { return draft_length_; }  // draft entries that were made from target features

  // Makes room for `tokens` tokens in all; false (and nothing changed) where the pool has too few pages.
  bool Reserve(int64_t tokens, PagePool* pool);
  // A sequence without pages begins with shared ones, full of committed tokens; with `with_draft` their draft entries are
  // valid too.
  void Adopt(std::span<const int32_t> shared_pages, bool with_draft, PagePool* pool);
  // The i-th page makes way for a shared one of the same contents.
  void Replace(size_t index, int32_t shared_page, PagePool* pool);
  // Target KV is now valid for `length` tokens (grows after a launch, shrinks by truncation); within the reservation.
  void Commit(int64_t length, int page_size);
  void CommitDraft(int64_t length, int page_size);
  // Gives back pages beyond the committed tokens and draft entries, and beyond the first `tokens` tokens.
  void ReleaseSurplus(int64_t tokens, PagePool* pool);
  // Gives back all pages and forgets every token; harmless where none are held.
  void Release(PagePool* pool);

 private:
  int32_t owner_ = -1;
  std::vector<int32_t> pages_;
  int64_t length_ = 0;
  int64_t draft_length_ = 0;
};

}  // namespace haast::kv
