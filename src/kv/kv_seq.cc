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

void KvSeq::Adopt(std::span<const int32_t> shared_pages, bool with_draft, PagePool* pool) {
  HAAST_CHECK(pages_.empty() && length_ == 0) << pages_.size() << " pages and " << length_ << " tokens before shared pages";
  for (const int32_t page : shared_pages) pool->Hold(page);
  pages_.assign(shared_pages.begin(), shared_pages.end());
  length_ = static_cast<int64_t>(pages_.size()) * pool->page_size();
  draft_length_ = with_draft ? length_ : 0;
}

void KvSeq::Replace(size_t index, int32_t shared_page, PagePool* pool) {
  pool->Hold(shared_page);
  pool->Free(std::span<const int32_t>(pages_).subspan(index, 1), owner_);
  pages_[index] = shared_page;
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

void KvSeq::ReleaseSurplus(int64_t tokens, PagePool* pool) {
  const int64_t used = PagesFor(std::max({tokens, length_, draft_length_}), pool->page_size());
  const int64_t kept = std::min(used, static_cast<int64_t>(pages_.size()));
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
