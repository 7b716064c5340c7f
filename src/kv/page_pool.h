// Pages of KV slots and who holds them. A page holds `page_size` token slots; slot = page * page_size + offset. Target and
// draft head use the same page ids in caches of their own, so one allocation serves both.
//
//   free      on the free list
//   owned     held by one sequence, which may write it
//   shared    full and read-only: held by any number of sequences, listed by the prefix cache, or both
//   reserved  page 0: padding rows of fixed-size launches write there
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "haast/result.h"

namespace haast::kv {

// What owners() says of a page that no single sequence owns.
inline constexpr int32_t kFreePage = -1;
inline constexpr int32_t kReservedPage = -2;
inline constexpr int32_t kSharedPage = -3;

class PagePool {
 public:
  // num_pages counts the reserved page.
  PagePool(int num_pages, int page_size);

  int page_size() const { return page_size_; }
  int num_pages() const { return static_cast<int>(owner_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }
  int num_cached() const { return num_cached_; }  // listed by the prefix cache and held by no sequence
  int num_held() const { return num_pages() - 1 - num_free() - num_cached(); }
  int64_t num_slots() const { return static_cast<int64_t>(owner_.size()) * page_size_; }

  // Appends `count` pages owned by `owner` (>= 0) to `pages`; all or nothing. False where fewer are free.
  bool Allocate(int count, int32_t owner, std::vector<int32_t>* pages);
  // A sequence lets pages go: each must be owned by `owner` or be a shared one that it holds (a bug otherwise).
  void Free(std::span<const int32_t> pages, int32_t owner);
  // One sequence more holds a shared page.
  void Hold(int32_t page);
  // The prefix cache lists a page that sequence `owner` holds: from now on it is shared.
  void List(int32_t page, int32_t owner);
  // The prefix cache forgets a page; it is free once no sequence holds it.
  void Unlist(int32_t page);

  int holders(int32_t page) const { return holders_[page]; }
  bool listed(int32_t page) const { return listed_[page]; }
  // Owner of each page, or kFreePage, kReservedPage, kSharedPage.
  std::span<const int32_t> owners() const { return owner_; }

  // free + cached + held + reserved == total, the free list has no duplicates and every page on it is marked free.
  Status CheckAccounting() const;

 private:
  friend class PagePoolTestPeer;  // damages the accounting to see it noticed
  void CheckShared(int32_t page) const;

  int page_size_;
  int num_cached_ = 0;
  std::vector<int32_t> free_;     // last in, first out: recently used pages are warm in cache
  std::vector<int32_t> owner_;    // [num_pages]
  std::vector<int32_t> holders_;  // [num_pages] sequences that hold the page
  std::vector<bool> listed_;      // [num_pages]
};

// Pages that `tokens` tokens need.
inline int64_t PagesFor(int64_t tokens, int page_size) { return (tokens + page_size - 1) / page_size; }

}  // namespace haast::kv
