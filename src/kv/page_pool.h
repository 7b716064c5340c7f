// Pages of KV slots and who owns them. A page holds `page_size` token slots; slot = page * page_size + offset. Target and
// draft head use the same page ids in caches of their own, so one allocation serves both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "haast/result.h"

namespace haast::kv {

class PagePool {
 public:
  // Page 0 is reserved: padding rows of fixed-size launches write there. num_pages counts it.
  PagePool(int num_pages, int page_size);

  int page_size() const { return page_size_; }
  int num_pages() const { return static_cast<int>(owner_.size()); }
  int num_free() const { return static_cast<int>(free_.size()); }
  int64_t num_slots() const { return static_cast<int64_t>(owner_.size()) * page_size_; }

  // Appends `count` pages owned by `owner` (>= 0) to `pages`; all or nothing. False where fewer are free.
  bool Allocate(int count, int32_t owner, std::vector<int32_t>* pages);
  // Gives pages back; each must be owned by `owner` (a bug otherwise).
  void Free(std::span<const int32_t> pages, int32_t owner);

  // Owner of each page: -1 free, -2 reserved.
  std::span<const int32_t> owners() const { return owner_; }

  // free + held + reserved == total, the free list has no duplicates and every page on it is marked free.
  Status CheckAccounting() const;

 private:
  friend class PagePoolTestPeer;  // damages the accounting to see it noticed
  int page_size_;
  std::vector<int32_t> free_;   // last in, first out: recently used pages are warm in cache
  std::vector<int32_t> owner_;  // [num_pages]
};

// Pages that `tokens` tokens need.
inline int64_t PagesFor(int64_t tokens, int page_size) { return (tokens + page_size - 1) / page_size; }

}  // namespace haast::kv
