#include "spec/eagle_drafter.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace haast::spec {
namespace {

// Features of tokens that no draft needs yet are kept until there are this many: one launch for all of them costs little
// more than a launch for one.
constexpr int64_t kWaitingRows = 32;
// Where the head need not follow, up to about this much memory of a request: one that never drafts has no use for it.
constexpr int64_t kWaitingBytes = int64_t{4} << 20;

// Whether the distribution of the first draft is one, from which it can have been drawn; or there is none.
bool HasFirstDistribution(const DraftState& state, int64_t vocab) {
  const auto& tokens = state.first_q_tokens;
  const auto& weights = state.first_q_weights;
  if (tokens.size() != weights.size()) return false;
  if (tokens.empty()) return true;
  bool drawable = false;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= vocab || !std::isfinite(weights[i]) || weights[i] < 0.0f) return false;
    drawable |= state.first.size() == 1 && tokens[i] == state.first[0].token && weights[i] > 0.0f;
  }
  return drawable;
}

}  // namespace

void EagleDrafter::BeginLaunch() {
  sequences_.clear();
  owners_.clear();
  ids_.clear();
  logit_rows_.clear();
  features_.clear();
}

Status EagleDrafter::Propose(std::span<const ProposeItem> items) {
  growth_.resize(std::max(growth_.size(), items.size()));
  int deepest = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const ProposeItem& item = items[i];
    Growth& growth = growth_[i];
    item.tree->Clear();
    growth.pool.Clear();
    growth.rows.clear();
    growth.row_parents.clear();
    growth.carried.clear();
    growth.q.Clear();
    const DraftState& state = *item.state;
    int width = std::min({item.shape.top_k, item.shape.num_tokens, static_cast<int>(state.first.size())});
    if (item.sample_drafts && state.first_q_tokens.empty()) width = 0;
    for (int c = 0; c < width; ++c) growth.pool.Add(-1, state.first[c]);
    if (item.sample_drafts && width > 0) growth.q.Append({state.first_q_tokens, state.first_q_weights});
    growth.level = growth.pool.Best(0, width);
    if (width > 0) deepest = std::max(deepest, item.shape.depth);
  }
  for (int depth = 1; depth < deepest; ++depth) HAAST_RETURN_IF_ERROR(RunLevel(items, depth));
  for (size_t i = 0; i < items.size(); ++i) {
    growth_[i].pool.Fill(items[i].shape.num_tokens, items[i].tree);
    std::swap(growth_[i].q, items[i].tree->q);  // of a chain: its nodes are the pool's, in order
  }
  return {};
}

// Runs the head on the level's nodes, at `depth` below the root, and adds their children.
Status EagleDrafter::RunLevel(std::span<const ProposeItem> items, int depth) {
  BeginLaunch();
  std::vector<size_t> members;
  for (size_t i = 0; i < items.size(); ++i) {
    const ProposeItem& item = items[i];
    Growth& growth = growth_[i];
    if (growth.level.empty() || item.shape.depth <= depth) continue;
    members.push_back(i);
    const int64_t cached = static_cast<int64_t>(growth.rows.size());
    for (const int node : growth.level) {
      const int parent = growth.pool.node(node).parent;
      const auto parent_row = std::find(growth.rows.begin(), growth.rows.end(), parent);
      growth.row_parents.push_back(parent < 0 ? -1 : static_cast<int32_t>(parent_row - growth.rows.begin()));
      const std::vector<float>& carried = parent < 0 ? item.state->carried : growth.carried[static_cast<size_t>(parent)];
      features_.insert(features_.end(), carried.begin(), carried.end());
      ids_.push_back(growth.pool.node(node).token);
      logit_rows_.push_back(static_cast<int32_t>(logit_rows_.size()));
    }
    growth.rows.insert(growth.rows.end(), growth.level.begin(), growth.level.end());
    // Entries below the committed length come from target features; the tree's rows after them are this round's own guesses.
    sequences_.push_back({item.kv->pages(), item.kv->length(), static_cast<int64_t>(growth.level.size()), growth.row_parents, cached});
    owners_.push_back(item.kv->owner());
  }
  if (members.empty()) return {};
  exec::Batch batch{attention::ForwardMode::kDraftDecode, sequences_, owners_, ids_, features_.data(), false, logit_rows_, false};
  HAAST_RETURN_IF_ERROR(runner_.Run(batch));
  int64_t row = 0;
  for (const size_t i : members) {
    const int64_t count = static_cast<int64_t>(growth_[i].level.size());
    Expand(items[i], &growth_[i], row, depth);
    row += count;
  }
  return {};
}

// Adds the children of the level's nodes, whose outputs begin at `first_row`, and chooses the next level among them.
void EagleDrafter::Expand(const ProposeItem& item, Growth* growth, int64_t first_row, int depth) {
  const int64_t hidden = head_.config().hidden_size;
  const int first_child = growth->pool.size();
  growth->carried.resize(static_cast<size_t>(first_child));
  int64_t row = first_row;
  for (const int node : growth->level) {
    const float* value = runner_.carried(row);
    growth->carried[static_cast<size_t>(node)].assign(value, value + hidden);
    const int64_t position = item.kv->length() + 1 + depth;
    const std::span<const float> logits = runner_.logits(row++);
    if (item.sample_drafts) {
      const sampling::DraftSampler::Drawn drawn = sampler_.Draw(logits, *item.sampling, position);
      growth->pool.Add(node, {drawn.token, 0.0f});
      growth->q.Append(drawn.q);
      continue;
    }
    for (const Candidate& candidate : sampler_.Choose(logits, *item.sampling, position, item.shape.top_k)) {
      growth->pool.Add(node, candidate);
    }
  }
  growth->level = growth->pool.Best(first_child, item.shape.top_k);
}

// Keeps the features of the item's tokens.
void EagleDrafter::Remember(const ObserveItem& item) {
  DraftState& state = *item.state;
  const std::span<const int32_t> next = item.tokens.subspan(static_cast<size_t>(item.first_position) + 1, static_cast<size_t>(item.count));
  state.waiting_ids.insert(state.waiting_ids.end(), next.begin(), next.end());
  for (const float* taps : item.taps) state.waiting_taps.insert(state.waiting_taps.end(), taps, taps + head_.feature_width());
  state.first.clear();
  state.first_q_tokens.clear();
  state.first_q_weights.clear();
}

// The first drafts of the next round, from the last row of the item's draft extend. That row stands at the position before the newest
// token's: its logits are for the one after that.
void EagleDrafter::ChooseFirst(int64_t logit_row, const ObserveItem& item) {
  DraftState& state = *item.state;
  const int64_t position = item.kv->draft_length() + 1;
  if (!item.sample_drafts) {
    const auto first = sampler_.Choose(runner_.logits(logit_row), *item.sampling, position, item.top_k);
    state.first.assign(first.begin(), first.end());
    return;
  }
  const sampling::DraftSampler::Drawn drawn = sampler_.Draw(runner_.logits(logit_row), *item.sampling, position);
  state.first.assign(1, {drawn.token, 0.0f});
  state.first_q_tokens.assign(drawn.q.tokens.begin(), drawn.q.tokens.end());
  state.first_q_weights.assign(drawn.q.weights.begin(), drawn.q.weights.end());
}

int64_t EagleDrafter::MostWaiting() const {
  if (follow_) return kWaitingRows;
  return std::max(kWaitingRows, kWaitingBytes / static_cast<int64_t>(head_.feature_width() * sizeof(float)));
}

bool EagleDrafter::MustRun(const ObserveItem& item) const {
  const int64_t waiting = static_cast<int64_t>(item.state->waiting_ids.size());
  return waiting > 0 && (item.will_draft || waiting >= MostWaiting());
}

bool EagleDrafter::AcceptsState(const DraftState& state, int64_t length, int64_t draft_length) const {
  const int64_t waiting = static_cast<int64_t>(state.waiting_ids.size());
  const auto in_vocabulary = [&](int32_t token) { return token >= 0 && token < head_.config().vocab_size; };
  const bool tokens = HasFirstDistribution(state, head_.config().vocab_size) &&
                      std::all_of(state.waiting_ids.begin(), state.waiting_ids.end(), in_vocabulary) &&
                      std::all_of(state.first.begin(), state.first.end(), [&](const Candidate& c) { return in_vocabulary(c.token); });
  const bool carried =
      static_cast<int64_t>(state.carried.size()) == head_.config().hidden_size || (state.carried.empty() && state.first.empty());
  return tokens && carried && waiting < MostWaiting() && draft_length + waiting == length &&
         static_cast<int64_t>(state.waiting_taps.size()) == waiting * head_.feature_width();
}

Status EagleDrafter::Observe(std::span<const ObserveItem> items) {
  std::vector<const ObserveItem*> behind;
  for (const ObserveItem& item : items) {
    Remember(item);
    if (MustRun(item)) behind.push_back(&item);
  }
  while (!behind.empty()) HAAST_RETURN_IF_ERROR(Extend(&behind));
  return {};
}

// Runs the head on what items wait for, in their order, as far as one launch has room; keeps those that have more in `behind`.
Status EagleDrafter::Extend(std::vector<const ObserveItem*>* behind) {
  BeginLaunch();
  std::vector<int64_t> rows;
  int64_t room = runner_.options().max_rows;
  for (const ObserveItem* item : *behind) {
    const DraftState& state = *item->state;
    const int64_t waiting = static_cast<int64_t>(state.waiting_ids.size());
    const int64_t count = std::min(waiting, room);
    if (count == 0) break;
    room -= count;
    rows.push_back(count);
    sequences_.push_back({item->kv->pages(), item->kv->draft_length(), count, {}});
    owners_.push_back(item->kv->owner());
    ids_.insert(ids_.end(), state.waiting_ids.begin(), state.waiting_ids.begin() + count);
    features_.insert(features_.end(), state.waiting_taps.begin(), state.waiting_taps.begin() + count * head_.feature_width());
    if (item->will_draft && count == waiting) logit_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
  }
  exec::Batch batch{attention::ForwardMode::kDraftExtend, sequences_, owners_, ids_, features_.data(), true, logit_rows_, false};
  HAAST_RETURN_IF_ERROR(runner_.Run(batch));
  int64_t logit_row = 0;
  std::vector<const ObserveItem*> rest;
  for (size_t i = 0; i < behind->size(); ++i) {
    const ObserveItem& item = *(*behind)[i];
    DraftState& state = *item.state;
    const int64_t count = i < rows.size() ? rows[i] : 0;
    item.kv->CommitDraft(item.kv->draft_length() + count, runner_.page_size());
    state.waiting_ids.erase(state.waiting_ids.begin(), state.waiting_ids.begin() + count);
    state.waiting_taps.erase(state.waiting_taps.begin(), state.waiting_taps.begin() + count * head_.feature_width());
    if (!state.waiting_ids.empty()) rest.push_back(&item);
    if (!state.waiting_ids.empty() || !item.will_draft) continue;
    const float* value = runner_.carried(logit_row);
    state.carried.assign(value, value + head_.config().hidden_size);
    ChooseFirst(logit_row++, item);
  }
  *behind = std::move(rest);
  return {};
}

std::unique_ptr<Drafter> MakeEagle3Drafter(const DraftParts& parts) {
  return std::make_unique<EagleDrafter>(*parts.head, *parts.head_runner, *parts.ops, parts.share);
}

std::unique_ptr<Drafter> MakeEagleDrafter(const DraftParts& parts) { return MakeEagle3Drafter(parts); }

}  // namespace haast::spec
