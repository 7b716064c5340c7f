#include "spec/eagle3_drafter.h"

#include <algorithm>

namespace haast::spec {

void Eagle3Drafter::BeginLaunch() {
  sequences_.clear();
  owners_.clear();
  ids_.clear();
  logit_rows_.clear();
  features_.clear();
}

int32_t Eagle3Drafter::DraftOf(int64_t logit_row) const {
  const std::span<const float> logits = runner_.logits(logit_row);
  return head_.ToTargetId(ops_.argmax(logits.data(), static_cast<int64_t>(logits.size())));
}

Status Eagle3Drafter::Propose(std::span<const ProposeItem> items) {
  int depth = 0;
  for (const ProposeItem& item : items) {
    item.tree->Clear();
    if (item.state->next_draft < 0) continue;
    item.tree->AppendToChain(item.state->next_draft);
    depth = std::max(depth, item.num_drafts);
  }
  const int64_t hidden = head_.config().hidden_size;
  std::vector<std::vector<float>> carried(items.size());
  for (size_t i = 0; i < items.size(); ++i) carried[i] = items[i].state->carried;

  for (int step = 1; step < depth; ++step) {
    BeginLaunch();
    std::vector<size_t> members;
    for (size_t i = 0; i < items.size(); ++i) {
      const ProposeItem& item = items[i];
      if (item.tree->drafts.empty() || item.num_drafts <= step) continue;
      members.push_back(i);
      // Entries below kv length come from target features; the step - 1 after them are this round's own guesses.
      sequences_.push_back({item.kv->pages(), item.kv->length() + step - 1, 1, {}});
      owners_.push_back(item.kv->owner());
      ids_.push_back(item.tree->drafts.back());
      logit_rows_.push_back(static_cast<int32_t>(logit_rows_.size()));
      features_.insert(features_.end(), carried[i].begin(), carried[i].end());
    }
    exec::Batch batch{attention::ForwardMode::kDraftDecode, sequences_, owners_, ids_, features_.data(), false, logit_rows_, false};
    HAAST_RETURN_IF_ERROR(runner_.Run(batch));
    for (size_t row = 0; row < members.size(); ++row) {
      items[members[row]].tree->AppendToChain(DraftOf(static_cast<int64_t>(row)));
      const float* value = runner_.carried(static_cast<int64_t>(row));
      carried[members[row]].assign(value, value + hidden);
    }
  }
  return {};
}

Status Eagle3Drafter::Observe(std::span<const ObserveItem> items) {
  BeginLaunch();
  const int64_t width = head_.feature_width();
  for (const ObserveItem& item : items) {
    const int64_t rows = static_cast<int64_t>(item.next_ids.size());
    sequences_.push_back({item.kv->pages(), item.first_position, rows, {}});
    owners_.push_back(item.kv->owner());
    ids_.insert(ids_.end(), item.next_ids.begin(), item.next_ids.end());
    for (const float* taps : item.taps) features_.insert(features_.end(), taps, taps + width);
    if (item.will_draft) logit_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
  }
  exec::Batch batch{attention::ForwardMode::kDraftExtend, sequences_, owners_, ids_, features_.data(), true, logit_rows_, false};
  HAAST_RETURN_IF_ERROR(runner_.Run(batch));
  const int64_t hidden = head_.config().hidden_size;
  int64_t row = -1;
  int64_t logit_row = 0;
  for (const ObserveItem& item : items) {
    const int64_t rows = static_cast<int64_t>(item.next_ids.size());
    row += rows;
    item.kv->CommitDraft(item.first_position + rows, runner_.metadata().page_size);
    item.state->next_draft = -1;
    if (!item.will_draft) continue;
    item.state->next_draft = DraftOf(logit_row++);
    const float* value = runner_.carried(row);
    item.state->carried.assign(value, value + hidden);
  }
  return {};
}

}  // namespace haast::spec
