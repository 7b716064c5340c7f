#include "spec/model_drafter.h"

#include <algorithm>

namespace haast::spec {

void ModelDrafter::BeginLaunch() {
  sequences_.clear();
  owners_.clear();
  ids_.clear();
  logit_rows_.clear();
}

// Adds the draft at `depth` below the root, from a row of the last launch.
void ModelDrafter::Draft(int64_t logit_row, const ProposeItem& item, int depth) {
  const int64_t position = item.kv->length() + depth;
  if (!item.sample_drafts) {
    item.tree->AppendToChain(sampler_.Choose(runner_.logits(logit_row), *item.sampling, position, 1)[0].token);
    return;
  }
  const sampling::DraftSampler::Drawn drawn = sampler_.Draw(runner_.logits(logit_row), *item.sampling, position);
  item.tree->AppendToChain(drawn.token);
  item.tree->q.Append(drawn.q);
}

Status ModelDrafter::CatchUp(std::span<const ProposeItem> items) {
  std::vector<size_t> last;  // items whose last missing token runs in this launch
  for (bool missing = true; missing;) {
    BeginLaunch();
    last.clear();
    missing = false;
    int64_t room = runner_.options().max_rows;
    for (size_t i = 0; i < items.size(); ++i) {
      const ProposeItem& item = items[i];
      const int64_t seen = item.kv->draft_length();
      const int64_t behind = static_cast<int64_t>(item.tokens.size()) - seen;
      const int64_t rows = std::min(behind, room);
      missing |= rows < behind;
      if (rows <= 0) continue;
      room -= rows;
      sequences_.push_back({item.kv->pages(), seen, rows, {}});
      owners_.push_back(item.kv->owner());
      const auto first = item.tokens.begin() + seen;
      ids_.insert(ids_.end(), first, first + rows);
      item.kv->CommitDraft(seen + rows, runner_.page_size());
      if (rows < behind) continue;
      last.push_back(i);
      logit_rows_.push_back(static_cast<int32_t>(ids_.size()) - 1);
    }
    exec::Batch batch{attention::ForwardMode::kExtend, sequences_, owners_, ids_, nullptr, false, logit_rows_, false};
    HAAST_RETURN_IF_ERROR(runner_.Run(batch));
    for (size_t row = 0; row < last.size(); ++row) {
      const ProposeItem& item = items[last[row]];
      Draft(static_cast<int64_t>(row), item, 1);
    }
  }
  return {};
}

// Runs the newest draft of every item that wants one at `depth` + 1.
Status ModelDrafter::RunLevel(std::span<const ProposeItem> items, int depth) {
  BeginLaunch();
  std::vector<size_t> members;
  for (size_t i = 0; i < items.size(); ++i) {
    const ProposeItem& item = items[i];
    if (std::min(item.shape.depth, item.shape.num_tokens) <= depth) continue;
    members.push_back(i);
    sequences_.push_back({item.kv->pages(), item.kv->length() + depth, 1, {}});
    owners_.push_back(item.kv->owner());
    ids_.push_back(item.tree->drafts.back());
    logit_rows_.push_back(static_cast<int32_t>(logit_rows_.size()));
  }
  exec::Batch batch{attention::ForwardMode::kDraftDecode, sequences_, owners_, ids_, nullptr, false, logit_rows_, false};
  HAAST_RETURN_IF_ERROR(runner_.Run(batch));
  for (size_t row = 0; row < members.size(); ++row) {
    const ProposeItem& item = items[members[row]];
    item.kv->CommitDraft(item.kv->length() + depth + 1, runner_.page_size());
    Draft(static_cast<int64_t>(row), item, depth + 1);
  }
  return {};
}

Status ModelDrafter::Propose(std::span<const ProposeItem> items) {
  int deepest = 0;
  for (const ProposeItem& item : items) {
    item.tree->Clear();
    deepest = std::max(deepest, std::min(item.shape.depth, item.shape.num_tokens));
  }
  HAAST_RETURN_IF_ERROR(CatchUp(items));
  for (int depth = 1; depth < deepest; ++depth) HAAST_RETURN_IF_ERROR(RunLevel(items, depth));
  return {};
}

// Entries of drafts that were not accepted go.
Status ModelDrafter::Observe(std::span<const ObserveItem> items) {
  for (const ObserveItem& item : items) {
    item.kv->CommitDraft(std::min(item.kv->draft_length(), item.first_position + item.count), runner_.page_size());
  }
  return {};
}

std::unique_ptr<Drafter> MakeDraftModelDrafter(const DraftParts& parts) {
  return std::make_unique<ModelDrafter>(*parts.draft_model, *parts.ops);
}

}  // namespace haast::spec
