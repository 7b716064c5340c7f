#include "engine/engine_impl.h"

#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "engine/scheduler.h"
#include "sampling/accept.h"
#include "spec/eagle3_drafter.h"

namespace haast::engine {

EngineImpl::EngineImpl(EngineOptions options, LoadedModels models)
    : options_(std::move(options)), models_(std::move(models)), sampler_(models_.target->logits_width()) {
  if (models_.draft) drafter_ = std::make_unique<spec::Eagle3Drafter>(*models_.draft, *models_.draft_runner, *models_.ops);
}

void EngineImpl::TakeInbox(std::vector<Event>* events) {
  std::vector<RequestId> cancelled;
  {
    std::lock_guard lock(inbox_mutex_);
    for (auto& sequence : inbox_) waiting_.push_back(std::move(sequence));
    inbox_.clear();
    cancelled.swap(cancelled_);
  }
  for (RequestId id : cancelled) {
    auto is_it = [&](const auto& sequence) { return sequence != nullptr && sequence->id == id; };
    if (auto it = std::find_if(running_.begin(), running_.end(), is_it); it != running_.end()) {
      events->push_back({.request = id});
      Finish(it->get(), FinishReason::kCancelled, &events->back());
    } else if (auto queued = std::find_if(waiting_.begin(), waiting_.end(), is_it); queued != waiting_.end()) {
      events->push_back({.request = id});
      Finish(queued->get(), FinishReason::kCancelled, &events->back());
      waiting_.erase(queued);
    }
  }
  RemoveFinished();
}

void EngineImpl::Admit() {
  std::vector<int64_t> pages;
  for (const auto& sequence : waiting_) pages.push_back(PagesNeeded(sequence->request));
  const int count = CountAdmissions(pages, static_cast<int>(running_.size()), options_.max_batch, models_.pages->num_free());
  for (int i = 0; i < count; ++i) {
    std::unique_ptr<Sequence> sequence = std::move(waiting_.front());
    waiting_.pop_front();
    sequence->kv = kv::KvSeq(next_owner_);
    next_owner_ = (next_owner_ + 1) & 0x7fffffff;
    const bool reserved = sequence->kv.Reserve(pages[i] * models_.pages->page_size(), models_.pages.get());
    HAAST_CHECK(reserved) << pages[i] << " pages, " << models_.pages->num_free() << " free";
    sequence->started = base::NowSeconds();
    running_.push_back(std::move(sequence));
  }
}

// Fills the draft tree of every decoding request that speculates.
Status EngineImpl::Propose() {
  std::vector<spec::ProposeItem> items;
  for (const auto& sequence : running_) {
    sequence->tree.Clear();
    if (!drafter_ || !sequence->speculates() || sequence->pending() != 1 || sequence->draft.next_draft < 0) continue;
    const int drafts = CountDrafts(sequence->request.speculation.num_draft_tokens, sequence->remaining(),
                                   options_.max_context - static_cast<int64_t>(sequence->tokens.size()));
    if (drafts > 0) items.push_back({&sequence->draft, &sequence->kv, drafts, &sequence->tree});
  }
  return items.empty() ? Status() : drafter_->Propose(items);
}

// One launch over every running request: prompt chunks, newest tokens and their drafts.
Status EngineImpl::RunTarget() {
  shares_.clear();
  sequence_rows_.clear();
  owners_.clear();
  ids_.clear();
  logit_rows_.clear();
  std::vector<int64_t> pending;
  for (const auto& sequence : running_) pending.push_back(sequence->pending());
  const std::vector<int64_t> rows = AssignRows(pending, options_.prefill_chunk);
  bool any_prompt = false;
  bool any_drafts = false;
  bool any_taps = false;
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (rows[i] == 0) continue;
    Share share{&sequence, rows[i], static_cast<int64_t>(ids_.size()), -1};
    const auto first = sequence.tokens.begin() + sequence.kv.length();
    ids_.insert(ids_.end(), first, first + rows[i]);
    const std::vector<int32_t>& drafts = sequence.tree.drafts;
    if (rows[i] == pending[i]) {
      share.first_logit = static_cast<int64_t>(logit_rows_.size());
      for (size_t j = 0; j <= drafts.size(); ++j) logit_rows_.push_back(static_cast<int32_t>(ids_.size() - 1 + j));
    }
    ids_.insert(ids_.end(), drafts.begin(), drafts.end());
    sequence_rows_.push_back({sequence.kv.pages(), sequence.kv.length(), rows[i] + static_cast<int64_t>(drafts.size()), {}});
    owners_.push_back(sequence.kv.owner());
    shares_.push_back(share);
    any_prompt |= pending[i] > 1;
    any_drafts |= !drafts.empty();
    any_taps |= drafter_ != nullptr && sequence.speculates();
  }
  const attention::ForwardMode mode = any_prompt   ? attention::ForwardMode::kExtend
                                      : any_drafts ? attention::ForwardMode::kTargetVerify
                                                   : attention::ForwardMode::kDecode;
  exec::Batch batch{mode, sequence_rows_, owners_, ids_, nullptr, false, logit_rows_, any_taps};
  return models_.target_runner->Run(batch);
}

// Takes one token of the target; true where the answer ends with it.
bool EngineImpl::Emit(Sequence* sequence, int64_t logit, int32_t token, bool from_draft, Event* event) {
  const Request& request = sequence->request;
  TokenOutput output{.token = token, .from_draft = from_draft};
  if (request.logprobs >= 0) sampling::FillLogprobs(models_.target_runner->logits(logit), request.logprobs, *models_.ops, &output);
  event->tokens.push_back(std::move(output));
  sequence->tokens.push_back(token);
  if (request.constraint) request.constraint->Advance(token);
  const bool eos = std::find(request.eos_ids.begin(), request.eos_ids.end(), token) != request.eos_ids.end();
  if (eos || (request.constraint && request.constraint->finished())) {
    event->finish = FinishReason::kStop;
  } else if (sequence->remaining() == 0 || static_cast<int64_t>(sequence->tokens.size()) >= options_.max_context) {
    event->finish = FinishReason::kLength;
  }
  return event->finish != FinishReason::kNone;
}

// Keeps what the target agrees with, commits its KV, counts it.
void EngineImpl::Accept(const Share& share, Event* event) {
  Sequence& sequence = *share.sequence;
  const Request& request = sequence.request;
  const spec::DraftTree& tree = sequence.tree;
  if (sequence.generated() == 0) sequence.first_token = base::NowSeconds();
  auto draw = [&](int row, int) {
    std::span<const float> logits = models_.target_runner->logits(share.first_logit + row);
    if (request.constraint && request.constraint->NeedsMask()) {
      std::copy(logits.begin(), logits.end(), sampler_.logits.begin());
      request.constraint->Mask(sampler_.logits);
      logits = sampler_.logits;
    }
    return sampling::SampleToken(logits, request.sampling, static_cast<int64_t>(sequence.tokens.size()), *models_.ops, &sampler_);
  };
  int row = 0;
  auto emit = [&](int32_t token, bool from_draft) { return Emit(&sequence, share.first_logit + row++, token, from_draft, event); };
  const sampling::AcceptResult kept = sampling::AcceptTree(tree.drafts, tree.parents, draw, emit);
  sequence.kv.Commit(sequence.kv.length() + share.rows + static_cast<int64_t>(kept.rows.size()) - 1, models_.pages->page_size());
  event->drafts = tree.drafts;
  event->num_accepted = kept.num_accepted.value;
  if (tree.drafts.empty()) return;
  SpeculationStats round;
  round.rounds = 1;
  round.drafted = static_cast<int64_t>(tree.drafts.size());
  round.accepted = kept.num_accepted.value;
  round.emitted = static_cast<int64_t>(kept.tokens.size());
  round.accepted_at.assign(static_cast<size_t>(request.speculation.num_draft_tokens), 0);
  for (int i = 0; i < kept.num_accepted.value; ++i) round.accepted_at[i] = 1;
  sequence.stats.Add(round);
  stats_.speculation.Add(round);
}

// Draft extend: the head sees the step's committed tokens with the target's own features.
Status EngineImpl::Observe() {
  std::vector<spec::ObserveItem> items;
  std::vector<std::vector<const float*>> taps(shares_.size());
  for (size_t i = 0; i < shares_.size(); ++i) {
    Sequence* sequence = shares_[i].sequence;
    if (sequence == nullptr || !drafter_ || !sequence->speculates()) continue;
    const int64_t first = sequence->kv.draft_length();
    const int64_t count = sequence->kv.length() - first;
    for (int64_t j = 0; j < count; ++j) taps[i].push_back(models_.target_runner->taps(shares_[i].first_row + j));
    const std::span<const int32_t> tokens(sequence->tokens);
    items.push_back({&sequence->draft, &sequence->kv, first, tokens.subspan(static_cast<size_t>(first) + 1, static_cast<size_t>(count)),
                     taps[i], sequence->pending() == 1});
  }
  return items.empty() ? Status() : drafter_->Observe(items);
}

void EngineImpl::Finish(Sequence* sequence, FinishReason reason, Event* event) {
  const double now = base::NowSeconds();
  event->finish = reason;
  event->speculation = sequence->stats;
  event->timings.prompt_tokens = static_cast<int64_t>(sequence->request.prompt.size());
  event->timings.generated_tokens = sequence->generated();
  const double started = sequence->started > 0.0 ? sequence->started : now;
  const double first_token = sequence->first_token > 0.0 ? sequence->first_token : now;
  event->timings.queue_seconds = started - sequence->submitted;
  event->timings.prefill_seconds = first_token - started;
  event->timings.decode_seconds = now - first_token;
  sequence->kv.Release(models_.pages.get());
  sequence->id = 0;  // RemoveFinished drops it
  unfinished_.fetch_sub(1);
}

void EngineImpl::RemoveFinished() {
  running_.erase(std::remove_if(running_.begin(), running_.end(), [](const auto& sequence) { return sequence->id == 0; }), running_.end());
}

// A launch that was refused is a bug of this program; the requests in it end with its message, the others go on.
void EngineImpl::FailStep(const Error& error, std::vector<Event>* events) {
  for (const auto& sequence : running_) {
    if (sequence->id == 0) continue;
    auto same = [&](const Event& event) { return event.request == sequence->id; };
    auto it = std::find_if(events->begin(), events->end(), same);
    if (it == events->end()) it = events->insert(events->end(), Event{.request = sequence->id});
    it->error = error.message;
    Finish(sequence.get(), FinishReason::kError, &*it);
  }
  RemoveFinished();
}

std::vector<Event> EngineImpl::Step() {
  std::vector<Event> events;
  TakeInbox(&events);
  Admit();
  if (running_.empty()) return events;
  ++stats_.steps;

  const double t0 = base::NowSeconds();
  Status status = Propose();
  const double t1 = base::NowSeconds();
  if (status) status = RunTarget();
  const double t2 = base::NowSeconds();
  if (!status) {
    FailStep(status.error(), &events);
    return events;
  }
  for (Share& share : shares_) {
    if (share.first_logit < 0) {
      share.sequence->kv.Commit(share.sequence->kv.length() + share.rows, models_.pages->page_size());
      continue;
    }
    events.push_back({.request = share.sequence->id});
    Accept(share, &events.back());
    if (events.back().finish == FinishReason::kNone) continue;
    Finish(share.sequence, events.back().finish, &events.back());
    share.sequence = nullptr;
  }
  const double t3 = base::NowSeconds();
  status = Observe();
  if (!status) FailStep(status.error(), &events);
  RemoveFinished();
  const double t4 = base::NowSeconds();
  stats_.draft_seconds += (t1 - t0) + (t4 - t3);
  stats_.target_seconds += t2 - t1;
  stats_.sample_seconds += t3 - t2;
  return events;
}

EngineStats EngineImpl::stats() const {
  EngineStats stats = stats_;
  stats.running = static_cast<int64_t>(running_.size());
  stats.waiting = static_cast<int64_t>(waiting_.size());
  stats.free_pages = models_.pages->num_free();
  stats.total_pages = models_.pages->num_pages() - 1;
  return stats;
}

Status EngineImpl::CheckInvariants() const {
  HAAST_RETURN_IF_ERROR(models_.pages->CheckAccounting());
  if (running_.empty() && models_.pages->num_free() != models_.pages->num_pages() - 1) {
    return Err(ErrorCode::kOutOfMemory, "nothing runs, but {} of {} pages are free", models_.pages->num_free(),
               models_.pages->num_pages() - 1);
  }
  return {};
}

}  // namespace haast::engine
