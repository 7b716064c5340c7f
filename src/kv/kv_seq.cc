#include "kv/kv_seq.h"

#include <algorithm>

#include "base/check.h"

namespace haast::kv {

bool KvSeq::Reserve(int64_t tokens, PagePool* pool) {
  const int64_t missing = PagesFor(tokens, pool->page_size()) - static_cast<int64_t>(pages_.size());
  if (missing <= 0) return true;
  if (missing > pool->num_free()) return false;
  return pool->Allocate(static_cast<int>(missing), owner_, &pages_);
}

void KvSeq::Commit(int64_t length, int page_size) {
  const int64_t reserved = static_cast<int64_t>(pages_.size()) * page_size;
  HAAST_CHECK(length >= 0 && length <= reserved) << "commit of " << length << " tokens, " << reserved << " reserved";
  // Draft entries of tokens that were taken back are not valid either.
  if (length < length_) draft_length_ = std::min(draft_length_, length);
  length_ = length;
}

void KvSeq::CommitDraft(int64_t length, int page_size) {
  const int64_t reserved = static_cast<int64_t>(pages_.size()) * page_size;
  HAAST_CHECK(length >= 0 && length <= reserved) << "commit of " << length << " draft entries, " << reserved << " reserved";
  draft_length_ = length;
}

void KvSeq::ReleaseSurplus(PagePool* pool) {
  const int64_t kept = PagesFor(std::max(length_, draft_length_), pool->page_size());
  pool->Free(std::span<const int32_t>(pages_).subspan(static_cast<size_t>(kept)), owner_);
  pages_.resize(static_cast<size_t>(kept));
}

void KvSeq::Release(PagePool* pool) {
  pool->Free(pages_, owner_);
  pages_.clear();
  length_ = 0;
  draft_length_ = 0;
}

}  // namespace haast::kv
