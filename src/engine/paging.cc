// Who holds which pages: admission, growth by a step, preemption, the prefix cache.
//
// A request starts when its tokens and one round fit; later pages are found as they come. Where they run out, cached pages
// go first (the least recently used), then the latest request gives up its pages and waits at the head of the queue. The
// oldest one is never asked and fits the pool alone (CheckRequest), so there is always progress. Drafts take pages from
// nobody but the cache: where those are missing, a round drafts less. (Not where answers depend on drafts,
// Sequence::samples_drafts: those are as good as tokens.)
#include <algorithm>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "engine/engine_impl.h"
#include "engine/scheduler.h"

namespace haast::engine {

int EngineImpl::DraftKind(const Sequence& sequence) const {
  spec::Drafter* drafter = DrafterOf(sequence);
  return drafter != nullptr && drafter->runner() != nullptr ? static_cast<int>(sequence.request.speculation.algorithm) : 0;
}

SequenceCaches EngineImpl::CachesOf(const Sequence& sequence) const {
  kv::KvCache* draft = DraftKind(sequence) != 0 ? &DrafterOf(sequence)->runner()->cache() : nullptr;
  return {&models_.target_runner->cache(), draft, models_.pages.get()};
}

int64_t EngineImpl::MostTokens(const Request& request) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  return prompt + std::min(request.max_tokens, options_.max_context - prompt);
}

void EngineImpl::Admit() {
  while (!waiting_.empty() && static_cast<int>(running_.size()) < options_.max_batch && Start(waiting_.front().get())) {
    running_.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
}

// False, and nothing changed, where the pages are missing.
bool EngineImpl::Start(Sequence* sequence) {
  kv::PagePool* pool = models_.pages.get();
  const int64_t tokens = static_cast<int64_t>(sequence->tokens.size());
  sequence->kv = kv::KvSeq(next_owner_);
  sequence->listed_pages = 0;
  if (prefix_ && !sequence->wants_prompt_logprobs()) {
    const int kind = DraftKind(*sequence);
    // The newest token of an answer that goes on with drafts needs the row before it computed, for they come from there.
    const bool drafts_next = sequence->samples_drafts() && sequence->generated() > 0;
    std::vector<int32_t> pages = prefix_->Match(std::span(sequence->tokens).first(sequence->tokens.size() - (drafts_next ? 1 : 0)), kind);
    // The drafter's state belongs to the entries that were swapped out: others may not reach beyond them.
    if (sequence->swapped) pages.resize(std::min(pages.size(), static_cast<size_t>(sequence->swapped_length / pool->page_size())));
    sequence->kv.Adopt(pages, kind != 0, pool);
  }
  const int64_t hit = sequence->kv.length();
  const int64_t needed = TokensToStart(tokens, DraftRows(WantedShape(*sequence)), MostTokens(sequence->request));
  if (!MakeRoom(kv::PagesFor(needed, pool->page_size()) - static_cast<int64_t>(sequence->kv.pages().size()))) {
    sequence->kv.Release(pool);
    return false;
  }
  const bool reserved = sequence->kv.Reserve(tokens, pool);
  HAAST_CHECK(reserved) << tokens << " tokens, " << pool->num_free() << " free pages";
  next_owner_ = (next_owner_ + 1) & 0x7fffffff;
  if (!SwapIn(sequence)) stats_.prefix_hit_tokens += hit;
  if (sequence->started == 0.0) {
    sequence->started = base::NowSeconds();
    sequence->cached_prompt_tokens = hit;
  }
  return true;
}

bool EngineImpl::Grow(Sequence* sequence, int64_t tokens) {
  const int64_t missing = kv::PagesFor(tokens, options_.page_size) - static_cast<int64_t>(sequence->kv.pages().size());
  return missing <= 0 || (MakeRoom(missing) && sequence->kv.Reserve(tokens, models_.pages.get()));
}

// Tokens whose pages the next step must have.
int64_t EngineImpl::TokensToRun(const Sequence& sequence) const {
  const bool drafts = sequence.samples_drafts() && sequence.pending() == 1;
  return static_cast<int64_t>(sequence.tokens.size()) + (drafts ? DraftRows(WantedShape(sequence)) : 0);
}

// Pages that only drafts of earlier rounds needed.
bool EngineImpl::TakeBackSurplus() {
  const int before = models_.pages->num_free();
  for (const auto& sequence : running_) {
    sequence->kv.ReleaseSurplus(TokensToRun(*sequence), models_.pages.get());
  }
  return models_.pages->num_free() > before;
}

// Room for what every running request computes in this step, and then for drafts.
void EngineImpl::ReservePages() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i].get();
    while (i < running_.size() && !Grow(sequence, TokensToRun(*sequence))) {
      if (!TakeBackSurplus()) Preempt();  // in the end of `sequence` itself
    }
  }
  for (const auto& sequence : running_) {
    sequence->shape = {};
    if (sequence->pending() != 1) continue;
    const int64_t tokens = static_cast<int64_t>(sequence->tokens.size());
    const int64_t pages = static_cast<int64_t>(sequence->kv.pages().size()) + models_.pages->num_free() + models_.pages->num_cached();
    const spec::TreeShape shape = FitShape(WantedShape(*sequence), pages * options_.page_size - tokens);
    if (Grow(sequence.get(), tokens + DraftRows(shape))) sequence->shape = shape;
  }
}

// Between steps a request is its tokens: what it emitted, and no more.
void EngineImpl::Preempt() {
  HAAST_CHECK(running_.size() > 1) << "the oldest request lacks pages: " << models_.pages->num_free() << " of "
                                   << models_.pages->num_pages();
  Sequence* sequence = running_.back().get();
  ++stats_.preemptions;
  sequence->tree.Clear();
  if (options_.preemption == Preemption::kSwap && SwapOut(sequence)) ++stats_.swaps;
  sequence->draft = {};
  sequence->kv.Release(models_.pages.get());
  waiting_.push_front(std::move(running_.back()));
  running_.pop_back();
}

// The packed state of a waiting request waits with it; false where there is no room for it.
bool EngineImpl::Keep(std::vector<uint8_t> state, Sequence* sequence) {
  const int64_t length = PackedLength(state, DraftKind(*sequence) != 0);
  auto entry = swap_.Put(std::move(state));
  if (!entry) return false;
  sequence->swapped_length = length;
  sequence->swapped = std::move(*entry);
  return true;
}

// Whether the KV of a running request is worth keeping: there is some, its rows need not run again, and its drafter has followed it
// to the end (one that was turned off has not).
bool EngineImpl::CanPack(const Sequence& sequence) const {
  const spec::Drafter* drafter = DrafterOf(sequence);
  return sequence.kv.length() > 0 && !sequence.wants_prompt_logprobs() &&
         (drafter == nullptr || drafter->AcceptsState(sequence.draft, sequence.kv.length(), sequence.kv.draft_length()));
}

// False where there is nothing to keep or no room for it.
bool EngineImpl::SwapOut(Sequence* sequence) {
  if (!CanPack(*sequence)) return false;
  return Keep(PackKvState(*sequence, CachesOf(*sequence)), sequence);
}

// False where nothing was kept, or it was lost: then all is computed again.
bool EngineImpl::SwapIn(Sequence* sequence) {
  if (!sequence->swapped) return false;
  const auto bytes = sequence->swapped->Read();
  sequence->swapped.reset();
  const int64_t tokens = static_cast<int64_t>(sequence->tokens.size());
  if (!bytes || !CheckKvState(*bytes, tokens, CachesOf(*sequence), DrafterOf(*sequence))) return false;
  UnpackKvState(*bytes, CachesOf(*sequence), sequence);
  return true;
}

void EngineImpl::CachePages(Sequence* sequence) {
  if (!prefix_ || sequence->kv.pages().empty()) return;
  const int kind = DraftKind(*sequence);
  const int64_t full = prefix_->CountFull(static_cast<int64_t>(sequence->tokens.size()), kind, sequence->kv);
  if (full <= sequence->listed_pages) return;
  prefix_->Insert(sequence->tokens, kind, &sequence->kv);
  sequence->listed_pages = full;
}

// Of a running request between steps.
Status EngineImpl::CheckSequence(const Sequence& sequence) const {
  const kv::KvSeq& kv = sequence.kv;
  const int64_t reserved = static_cast<int64_t>(kv.pages().size()) * options_.page_size;
  if (sequence.pending() < 1 || kv.length() > reserved || sequence.swapped) {
    return Err(ErrorCode::kInvalidArgument, "request {}: {} tokens, {} of them with KV in {} slots, {}", sequence.id,
               sequence.tokens.size(), kv.length(), reserved, sequence.swapped ? "running and swapped" : "running");
  }
  const spec::Drafter* drafter = ActiveDrafterOf(sequence);
  if (drafter != nullptr && !drafter->AcceptsState(sequence.draft, kv.length(), kv.draft_length())) {
    return Err(ErrorCode::kInvalidArgument, "request {}: {} has {} draft entries and {} waiting features of {} tokens with KV", sequence.id,
               SpeculativeAlgorithmName(sequence.request.speculation.algorithm), kv.draft_length(), sequence.draft.waiting_ids.size(),
               kv.length());
  }
  return {};
}

Status EngineImpl::CheckInvariants() const {
  HAAST_RETURN_IF_ERROR(models_.pages->CheckAccounting());
  if (prefix_) HAAST_RETURN_IF_ERROR(prefix_->Check());
  std::vector<int> holders(static_cast<size_t>(models_.pages->num_pages()), 0);
  for (const auto& sequence : running_) {
    for (const int32_t page : sequence->kv.pages()) ++holders[page];
    HAAST_RETURN_IF_ERROR(CheckSequence(*sequence));
  }
  for (const auto& sequence : waiting_) {
    if (sequence->kv.pages().empty()) continue;
    return Err(ErrorCode::kInvalidArgument, "request {} waits and holds {} pages", sequence->id, sequence->kv.pages().size());
  }
  for (int32_t page = 0; page < models_.pages->num_pages(); ++page) {
    if (holders[page] == models_.pages->holders(page)) continue;
    return Err(ErrorCode::kInvalidArgument, "page {} has {} holders in the pool, but {} running requests hold it", page,
               models_.pages->holders(page), holders[page]);
  }
  return {};
}

}  // namespace haast::engine
