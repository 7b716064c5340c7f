#include "engine/engine_impl.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/format.h"
#include "engine/scheduler.h"
#include "sampling/accept.h"
#include "sampling/rejection.h"

namespace haast::engine {
EngineImpl::EngineImpl(EngineOptions options, LoadedModels models)
    : options_(std::move(options)),
      models_(std::move(models)),
      drafters_(MakeDrafters(models_, options_.prefix_cache)),
      prefix_(options_.prefix_cache ? std::make_unique<kv::PrefixCache>(models_.pages.get()) : nullptr),
      swap_(options_.swap_directory, options_.swap_bytes),
      sampler_(models_.target->logits_width()) {
  if (options_.step_costs == nullptr) return;
  costs_ = *options_.step_costs;
  PriceLaunches();
}

spec::Drafter* EngineImpl::DrafterOf(const Sequence& sequence) const {
  return drafters_[static_cast<size_t>(sequence.request.speculation.algorithm)].get();
}

spec::Drafter* EngineImpl::ActiveDrafterOf(const Sequence& sequence) const {
  const bool disabled = !drafter_stats_[static_cast<size_t>(sequence.request.speculation.algorithm)].disabled.empty();
  return disabled && !sequence.samples_drafts() ? nullptr : DrafterOf(sequence);
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

// The shape of the sequence's next round: what the request asks for, within the tokens it may still generate and the context.
spec::TreeShape EngineImpl::WantedShape(const Sequence& sequence) const {
  if (ActiveDrafterOf(sequence) == nullptr) return {};
  // Whether the prompt's last token is left alone, for a round to begin with, is up to the chunks.
  if (sequence.samples_drafts() && sequence.generated() == 0) return {};
  spec::TreeShape shape = ShapeOf(sequence.request.speculation);
  if (sequence.request.speculation.automatic) shape = {sequence.planned_depth, sequence.planned_depth, 1};
  const int64_t context_left = options_.max_context - static_cast<int64_t>(sequence.tokens.size());
  shape.depth = CountDrafts(shape.depth, sequence.remaining(), context_left);
  if (shape.top_k == 1) shape.num_tokens = std::min(shape.num_tokens, shape.depth);
  return FitShape(shape, context_left);
}

// Fills the draft tree of every decoding request that speculates, one drafter after the other.
Status EngineImpl::Propose() {
  std::array<std::vector<spec::ProposeItem>, kNumSpeculativeAlgorithms> items;
  for (const auto& sequence : running_) {
    sequence->tree.Clear();
    if (sequence->shape.num_tokens == 0) continue;
    items[static_cast<size_t>(sequence->request.speculation.algorithm)].push_back({&sequence->draft, &sequence->kv, sequence->tokens,
                                                                                   &sequence->request.sampling, sequence->shape,
                                                                                   &sequence->tree, sequence->samples_drafts()});
  }
  for (size_t algorithm = 0; algorithm < items.size(); ++algorithm) {
    if (items[algorithm].empty()) continue;
    const bool head = drafters_[algorithm]->needs_taps();
    HAAST_RETURN_IF_ERROR(RunDrafter(algorithm, head ? &costs_.head_step : &costs_.draft_model,
                                     head ? &learners_.head_step : &learners_.draft_model,
                                     [&] { return drafters_[algorithm]->Propose(items[algorithm]); }));
  }
  return {};
}

// One launch over every running request: prompt chunks, newest tokens and their drafts.
Status EngineImpl::RunTarget() {
  shares_.clear();
  sequence_rows_.clear();
  owners_.clear();
  ids_.clear();
  logit_rows_.clear();
  std::vector<int64_t> pending;
  pending.reserve(running_.size());
  for (const auto& sequence : running_) {
    // Logits on every row: no more than a tree may have.
    const int64_t most = sequence->wants_prompt_logprobs() ? spec::kMaxTreeRows : sequence->pending();
    pending.push_back(std::min(sequence->pending() - (sequence->holds_newest_back() ? 1 : 0), most));
  }
  const std::vector<int64_t> rows = AssignRows(pending, options_.prefill_chunk);
  bool any_prompt = false;
  bool any_drafts = false;
  bool any_taps = false;
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence& sequence = *running_[i];
    if (rows[i] == 0) continue;
    Share share{&sequence, rows[i], static_cast<int64_t>(ids_.size()), -1, -1, {}};
    const auto first = sequence.tokens.begin() + sequence.kv.length();
    ids_.insert(ids_.end(), first, first + rows[i]);
    const std::vector<int32_t>& drafts = sequence.tree.drafts;
    if (sequence.wants_prompt_logprobs() && sequence.pending() > 1) {
      share.prompt_logit = static_cast<int64_t>(logit_rows_.size());
      const int64_t last = rows[i] == sequence.pending() ? rows[i] - 1 : rows[i];  // the prompt's last row is drawn from
      for (int64_t j = 0; j < last; ++j) logit_rows_.push_back(static_cast<int32_t>(share.first_row + j));
    }
    if (rows[i] == sequence.pending()) {
      share.first_logit = static_cast<int64_t>(logit_rows_.size());
      for (size_t j = 0; j <= drafts.size(); ++j) logit_rows_.push_back(static_cast<int32_t>(ids_.size() - 1 + j));
    }
    ids_.insert(ids_.end(), drafts.begin(), drafts.end());
    // Drafts follow a single pending row, the root, so the tree's parents are those of the launch's rows.
    const std::span<const int32_t> parents = sequence.tree.IsChain() ? std::span<const int32_t>() : sequence.tree.parents;
    sequence_rows_.push_back({sequence.kv.pages(), sequence.kv.length(), rows[i] + static_cast<int64_t>(drafts.size()), parents});
    owners_.push_back(sequence.kv.owner());
    shares_.push_back(share);
    any_prompt |= pending[i] > 1;
    any_drafts |= !drafts.empty();
    const spec::Drafter* drafter = DrafterOf(sequence);
    any_taps |= drafter != nullptr && drafter->needs_taps();
  }
  const attention::ForwardMode mode = any_prompt   ? attention::ForwardMode::kExtend
                                      : any_drafts ? attention::ForwardMode::kTargetVerify
                                                   : attention::ForwardMode::kDecode;
  target_mode_ = mode;
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
  sequence->edits.Advance(token);
  if (request.constraint) request.constraint->Advance(token);
  const bool eos = std::find(request.eos_ids.begin(), request.eos_ids.end(), token) != request.eos_ids.end();
  if (eos || (request.constraint && request.constraint->finished())) {
    event->finish = FinishReason::kStop;
  } else if (sequence->remaining() == 0 || static_cast<int64_t>(sequence->tokens.size()) >= options_.max_context) {
    event->finish = FinishReason::kLength;
  }
  return event->finish != FinishReason::kNone;
}

// The accepted rows' KV goes to the entries of their positions, for an accepted branch need not be the tree's first rows.
// (The draft's own entries are written again by draft extend.)
void EngineImpl::CommitRows(const Share& share) {
  kv::KvSeq& kv = share.sequence->kv;
  const int64_t root = kv.length() + share.rows - 1;
  const int page_size = models_.pages->page_size();
  const auto slot = [&](int64_t entry) { return kv.pages()[entry / page_size] * page_size + static_cast<int32_t>(entry % page_size); };
  std::vector<int32_t> from;
  std::vector<int32_t> to;
  for (size_t i = 0; i < share.kept.size(); ++i) {
    if (share.kept[i] == static_cast<int>(i)) continue;
    from.push_back(slot(root + share.kept[i]));
    to.push_back(slot(root + static_cast<int64_t>(i)));
  }
  if (!from.empty()) models_.target_runner->cache().Move(from, to);
  kv.Commit(root + static_cast<int64_t>(share.kept.size()), page_size);
}

void EngineImpl::CountRound(Sequence* sequence, int num_accepted, int64_t emitted) {
  SpeculationStats round;
  round.rounds = 1;
  round.drafted = static_cast<int64_t>(sequence->tree.drafts.size());
  round.accepted = num_accepted;
  round.emitted = emitted;
  const SpeculationParams& params = sequence->request.speculation;
  const size_t algorithm = static_cast<size_t>(params.algorithm);
  const int depth = sequence->tree.depth();
  round.accepted_at.assign(static_cast<size_t>(params.automatic ? depth : ShapeOf(params).depth), 0);
  for (int i = 0; i < num_accepted; ++i) round.accepted_at[i] = 1;
  sequence->acceptance.Observe(depth, num_accepted);
  acceptance_[algorithm].Observe(depth, num_accepted);
  sequence->stats.Add(round);
  stats_.speculation.Add(round);
  DrafterStats& stats = drafter_stats_[algorithm];
  stats.speculation.Add(round);
  // What has no model of its own is cheap, and may well wait long for a text that repeats.
  if (drafters_[algorithm]->runner() == nullptr || !stats.disabled.empty()) return;
  if (auto reason = health_[algorithm].Count(num_accepted > 0, options_.acceptance_floor)) stats.disabled = std::move(*reason);
}

// What the target says of the prompt tokens after the share's rows, which have not been committed yet.
void EngineImpl::ReadPromptLogprobs(const Share& share) {
  Sequence& sequence = *share.sequence;
  const Request& request = sequence.request;
  for (int64_t j = 0; j < share.rows; ++j) {
    const size_t next = static_cast<size_t>(sequence.kv.length() + j) + 1;
    // The last row is drawn from; a prompt that is run again has said the rest before.
    if (next >= request.prompt.size() || next <= sequence.prompt_logprobs.size()) continue;
    TokenOutput output{.token = request.prompt[next]};
    sampling::FillLogprobs(models_.target_runner->logits(share.prompt_logit + j), request.prompt_logprobs, *models_.ops, &output);
    sequence.prompt_logprobs.push_back(std::move(output));
  }
}

// The logits of the next position after all edits and masks; valid until the next call.
std::span<const float> EngineImpl::LogitsToDraw(const Sequence& sequence, int64_t logit) {
  const std::span<const float> logits = models_.target_runner->logits(logit);
  const auto& constraint = sequence.request.constraint;
  const bool masked = constraint && constraint->NeedsMask();
  if (!masked && !sequence.edits.active()) return logits;
  std::copy(logits.begin(), logits.end(), sampler_.logits.begin());
  sequence.edits.Apply(sampler_.logits);
  if (masked) constraint->Mask(sampler_.logits);
  return sampler_.logits;
}

// Keeps what the target agrees with, commits its KV, counts it.
void EngineImpl::Accept(Share* share, Event* event) {
  Sequence& sequence = *share->sequence;
  const Request& request = sequence.request;
  const spec::DraftTree& tree = sequence.tree;
  if (sequence.generated() == 0) {
    sequence.first_token = base::NowSeconds();
    event->prompt = std::move(sequence.prompt_logprobs);
  }
  int newest = 0;  // row whose token was drawn last
  auto draw = [&](int row, int) {
    newest = row;
    const std::span<const float> logits = LogitsToDraw(sequence, share->first_logit + row);
    const int64_t position = static_cast<int64_t>(sequence.tokens.size());
    if (row >= tree.q.size()) return sampling::SampleToken(logits, request.sampling, position, *models_.ops, &sampler_);
    const int32_t draft = tree.drafts[static_cast<size_t>(row)];  // the row's child, in a chain
    return sampling::SampleByRejection(logits, draft, tree.q.Row(row), request.sampling, position, *models_.ops, &sampler_);
  };
  auto emit = [&](int32_t token, bool from_draft) { return Emit(&sequence, share->first_logit + newest, token, from_draft, event); };
  const sampling::AcceptResult kept = sampling::AcceptTree(tree.drafts, tree.parents, draw, emit);
  share->kept = kept.rows;
  CommitRows(*share);
  event->drafts = tree.drafts;
  event->num_accepted = kept.num_accepted.value;
  event->accepted.assign(kept.drafts.begin(), kept.drafts.end());
  if (tree.drafts.empty()) return;
  if (!tree.IsChain()) {
    for (size_t row = 1; row < tree.parents.size(); ++row) event->parents.push_back(tree.parents[row] - 1);
  }
  CountRound(&sequence, kept.num_accepted.value, static_cast<int64_t>(kept.tokens.size()));
}

// The drafters learn the step's committed tokens, with the target's own features (a head's draft extend).
Status EngineImpl::Observe() {
  std::array<std::vector<spec::ObserveItem>, kNumSpeculativeAlgorithms> items;
  std::vector<std::vector<const float*>> taps(shares_.size());
  for (size_t i = 0; i < shares_.size(); ++i) {
    const Share& share = shares_[i];
    Sequence* sequence = share.sequence;
    const spec::Drafter* drafter = sequence == nullptr ? nullptr : ActiveDrafterOf(*sequence);
    if (drafter == nullptr) continue;
    const int64_t count = share.rows + std::max<int64_t>(0, static_cast<int64_t>(share.kept.size()) - 1);
    for (int64_t j = 0; drafter->needs_taps() && j < count; ++j) {
      const int64_t row = j < share.rows ? j : share.rows - 1 + share.kept[static_cast<size_t>(j - share.rows + 1)];
      taps[i].push_back(models_.target_runner->taps(share.first_row + row));
    }
    items[static_cast<size_t>(sequence->request.speculation.algorithm)].push_back(
        {&sequence->draft, &sequence->kv, &sequence->request.sampling, sequence->kv.length() - count, sequence->tokens, count, taps[i],
         sequence->pending() == 1 && (!sequence->request.speculation.automatic || sequence->planned_depth > 0),
         sequence->request.speculation.top_k, sequence->samples_drafts()});
  }
  for (size_t algorithm = 0; algorithm < items.size(); ++algorithm) {
    if (items[algorithm].empty()) continue;
    const bool head = drafters_[algorithm]->needs_taps();
    HAAST_RETURN_IF_ERROR(RunDrafter(algorithm, head ? &costs_.head_extend : &costs_.draft_model,
                                     head ? &learners_.head_extend : &learners_.draft_model,
                                     [&] { return drafters_[algorithm]->Observe(items[algorithm]); }));
  }
  return {};
}

void EngineImpl::Finish(Sequence* sequence, FinishReason reason, Event* event) {
  const double now = base::NowSeconds();
  event->finish = reason;
  event->speculation = sequence->stats;
  event->timings.prompt_tokens = static_cast<int64_t>(sequence->request.prompt.size());
  event->timings.cached_prompt_tokens = sequence->cached_prompt_tokens;
  event->timings.generated_tokens = sequence->generated();
  const double started = sequence->started > 0.0 ? sequence->started : now;
  const double first_token = sequence->first_token > 0.0 ? sequence->first_token : now;
  event->timings.queue_seconds = started - sequence->submitted;
  event->timings.prefill_seconds = first_token - started;
  event->timings.decode_seconds = now - first_token;
  if (spec::Drafter* drafter = DrafterOf(*sequence)) drafter->Finish(&sequence->draft, sequence->tokens);
  if (reason != FinishReason::kError) CachePages(sequence);
  sequence->kv.Release(models_.pages.get());
  sequence->swapped.reset();
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
  const double priced = PricedSeconds();

  Status status = MeasureCosts();
  ReservePages();
  const double t0 = base::NowSeconds();
  if (status) status = Propose();
  const double t1 = base::NowSeconds();
  if (status) status = RunTarget();
  const double t2 = base::NowSeconds();
  if (!status) {
    FailStep(status.error(), &events);
    return events;
  }
  for (Share& share : shares_) {
    if (share.prompt_logit >= 0) ReadPromptLogprobs(share);
    if (share.first_logit < 0) {
      share.sequence->kv.Commit(share.sequence->kv.length() + share.rows, models_.pages->page_size());
      continue;
    }
    events.push_back({.request = share.sequence->id});
    Accept(&share, &events.back());
    if (events.back().finish == FinishReason::kNone) continue;
    Finish(share.sequence, events.back().finish, &events.back());
    share.sequence = nullptr;
  }
  if (learns_costs() && target_mode_ != attention::ForwardMode::kExtend) {
    learners_.target.Learn(models_.target_runner->launch_size(), t2 - t1, &costs_.target);
  }
  PlanDepths();
  const double t3 = base::NowSeconds();
  status = Observe();
  if (!status) FailStep(status.error(), &events);
  RemoveFinished();
  for (const auto& sequence : running_) CachePages(sequence.get());
  const double t4 = base::NowSeconds();
  if (options_.step_costs != nullptr && target_mode_ == attention::ForwardMode::kExtend)
    stats_.priced_prompt_seconds += PricedSeconds() - priced;
  stats_.draft_seconds += (t1 - t0) + (t4 - t3);
  stats_.target_seconds += t2 - t1;
  stats_.sample_seconds += t3 - t2;
  return events;
}

double EngineImpl::PricedSeconds() const {
  double seconds = 0.0;
  for (const auto* runner : {&models_.target_runner, &models_.draft_runner, &models_.draft_model_runner}) {
    if (*runner) seconds += (*runner)->priced_seconds();
  }
  return seconds;
}

EngineStats EngineImpl::stats() const {
  EngineStats stats = stats_;
  for (size_t algorithm = 0; algorithm < drafters_.size(); ++algorithm) {
    if (drafters_[algorithm] == nullptr) continue;
    DrafterStats& drafter = stats.drafters.emplace_back(drafter_stats_[algorithm]);
    drafter.name = SpeculativeAlgorithmName(static_cast<SpeculativeAlgorithm>(algorithm));
    const auto [drafted, accepted] = std::pair(drafter.speculation.drafted, drafter.speculation.accepted);
    if (drafted > 0) drafter.wasted_seconds = drafter.seconds * static_cast<double>(drafted - accepted) / static_cast<double>(drafted);
  }
  if (options_.step_costs != nullptr) stats.priced_seconds = PricedSeconds();
  stats.running = static_cast<int64_t>(running_.size());
  stats.waiting = static_cast<int64_t>(waiting_.size());
  stats.free_pages = models_.pages->num_free();
  stats.cached_pages = models_.pages->num_cached();
  stats.total_pages = models_.pages->num_pages() - 1;
  stats.prefix_evictions = prefix_ ? prefix_->num_evictions() : 0;
  if (models_.trace != nullptr) {
    stats.traced_launches = models_.trace->launches();
    if (!models_.trace->status()) stats.trace_error = models_.trace->status().error().message;
  }
  return stats;
}

}  // namespace haast::engine
