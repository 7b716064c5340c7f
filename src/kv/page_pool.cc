#include "kv/page_pool.h"

#include "base/check.h"
#include "base/format.h"

namespace haast::kv {

PagePool::PagePool(int num_pages, int page_size) : page_size_(page_size) {
  HAAST_CHECK(num_pages >= 1 && page_size >= 1) << num_pages << " pages of " << page_size << " slots";
  owner_.assign(static_cast<size_t>(num_pages), kFreePage);
  holders_.assign(owner_.size(), 0);
  listed_.assign(owner_.size(), false);
  owner_[0] = kReservedPage;
  free_.reserve(static_cast<size_t>(num_pages));
  for (int32_t page = num_pages - 1; page >= 1; --page) free_.push_back(page);
}

bool PagePool::Allocate(int count, int32_t owner, std::vector<int32_t>* pages) {
  HAAST_CHECK(count >= 0 && owner >= 0) << count << " pages for owner " << owner;
  if (count > num_free()) return false;
  for (int i = 0; i < count; ++i) {
    const int32_t page = free_.back();
    free_.pop_back();
    owner_[page] = owner;
    holders_[page] = 1;
    pages->push_back(page);
  }
  return true;
}

void PagePool::Free(std::span<const int32_t> pages, int32_t owner) {
  for (const int32_t page : pages) {
    HAAST_CHECK(page >= 0 && page < num_pages()) << "page " << page << " of " << num_pages();
    const bool shared = owner_[page] == kSharedPage && holders_[page] > 0;
    HAAST_CHECK(owner >= 0 && (shared || owner_[page] == owner))
        << "page " << page << " belongs to " << owner_[page] << ", freed by " << owner;
    if (--holders_[page] > 0) continue;
    if (listed_[page]) {
      ++num_cached_;
      continue;
    }
    owner_[page] = kFreePage;
    free_.push_back(page);
  }
}

void PagePool::CheckShared(int32_t page) const {
  HAAST_CHECK(page >= 0 && page < num_pages() && owner_[page] == kSharedPage)
      << "page " << page << " of " << num_pages() << " is not shared";
}

void PagePool::Hold(int32_t page) {
  CheckShared(page);
  if (holders_[page]++ == 0) --num_cached_;
}

void PagePool::List(int32_t page, int32_t owner) {
  HAAST_CHECK(page >= 0 && page < num_pages() && !listed_[page]) << "page " << page << " of " << num_pages() << " listed twice";
  HAAST_CHECK(owner >= 0 && holders_[page] > 0 && (owner_[page] == owner || owner_[page] == kSharedPage))
      << "page " << page << " belongs to " << owner_[page] << ", listed by " << owner;
  owner_[page] = kSharedPage;
  listed_[page] = true;
}

void PagePool::Unlist(int32_t page) {
  CheckShared(page);
  HAAST_CHECK(listed_[page]) << "page " << page << " is not listed";
  listed_[page] = false;
  if (holders_[page] > 0) return;
  --num_cached_;
  owner_[page] = kFreePage;
  free_.push_back(page);
}

Status PagePool::CheckAccounting() const {
  int64_t free = 0, held = 0, cached = 0, reserved = 0;
  for (int32_t page = 0; page < num_pages(); ++page) {
    const int32_t owner = owner_[page];
    const bool counted = owner == kFreePage || owner == kReservedPage ? holders_[page] == 0 && !listed_[page]
                         : owner == kSharedPage                       ? holders_[page] > 0 || (holders_[page] == 0 && listed_[page])
                                                                      : holders_[page] == 1 && !listed_[page];
    if (!counted) {
      return Err(ErrorCode::kInvalidArgument, "page pool: page {} belongs to {} but has {} holders and is {}", page, owner, holders_[page],
                 listed_[page] ? "listed" : "not listed");
    }
    (owner == kFreePage ? free : owner == kReservedPage ? reserved : holders_[page] > 0 ? held : cached) += 1;
  }
  if (owner_[0] != kReservedPage || reserved != 1) {
    return Err(ErrorCode::kInvalidArgument, "page pool: page 0 has owner {} and {} pages are reserved; expected {} and 1", owner_[0],
               reserved, kReservedPage);
  }
  std::vector<bool> seen(owner_.size(), false);
  for (const int32_t page : free_) {
    if (page < 1 || page >= num_pages()) {
      return Err(ErrorCode::kInvalidArgument, "page pool: page {} on the free list of a pool of {}", page, num_pages());
    }
    if (seen[page]) return Err(ErrorCode::kInvalidArgument, "page pool: page {} is on the free list twice", page);
    if (owner_[page] != kFreePage) {
      return Err(ErrorCode::kInvalidArgument, "page pool: page {} is on the free list but belongs to {}", page, owner_[page]);
    }
    seen[page] = true;
  }
  if (num_free() != free || num_cached_ != cached) {
    return Err(ErrorCode::kInvalidArgument,
               "page pool: {} pages on the free list and {} counted as cached, but {} free + {} cached + {} held + {} reserved of {}",
               num_free(), num_cached_, free, cached, held, reserved, num_pages());
  }
  return {};
}

}  // namespace haast::kv
