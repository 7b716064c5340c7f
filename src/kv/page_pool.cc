#include "kv/page_pool.h"

#include "base/check.h"
#include "base/format.h"

namespace haast::kv {
namespace {

constexpr int32_t kFree = -1;
constexpr int32_t kReserved = -2;

}  // namespace

PagePool::PagePool(int num_pages, int page_size) : page_size_(page_size) {
  HAAST_CHECK(num_pages >= 1 && page_size >= 1) << num_pages << " pages of " << page_size << " slots";
  owner_.assign(static_cast<size_t>(num_pages), kFree);
  owner_[0] = kReserved;
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
    pages->push_back(page);
  }
  return true;
}

void PagePool::Free(std::span<const int32_t> pages, int32_t owner) {
  for (const int32_t page : pages) {
    HAAST_CHECK(page >= 0 && page < num_pages()) << "page " << page << " of " << num_pages();
    HAAST_CHECK(owner >= 0 && owner_[page] == owner) << "page " << page << " belongs to " << owner_[page] << ", freed by " << owner;
    owner_[page] = kFree;
    free_.push_back(page);
  }
}

Status PagePool::CheckAccounting() const {
  int64_t free = 0, held = 0, reserved = 0;
  for (const int32_t owner : owner_) {
    (owner == kFree ? free : owner == kReserved ? reserved : held) += 1;
  }
  if (owner_[0] != kReserved || reserved != 1) {
    return Err(ErrorCode::kInvalidArgument, "page pool: page 0 has owner {} and {} pages are reserved; expected {} and 1", owner_[0],
               reserved, kReserved);
  }
  std::vector<bool> listed(owner_.size(), false);
  for (const int32_t page : free_) {
    if (page < 1 || page >= num_pages()) {
      return Err(ErrorCode::kInvalidArgument, "page pool: page {} on the free list of a pool of {}", page, num_pages());
    }
    if (listed[page]) return Err(ErrorCode::kInvalidArgument, "page pool: page {} is on the free list twice", page);
    if (owner_[page] != kFree) {
      return Err(ErrorCode::kInvalidArgument, "page pool: page {} is on the free list but belongs to {}", page, owner_[page]);
    }
    listed[page] = true;
  }
  if (static_cast<int64_t>(free_.size()) != free) {
    return Err(ErrorCode::kInvalidArgument, "page pool: {} pages on the free list but {} free + {} held + {} reserved of {}", free_.size(),
               free, held, reserved, num_pages());
  }
  return {};
}

}  // namespace haast::kv
