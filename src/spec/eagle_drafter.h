// Drafting with an EAGLE head: chains, and the dynamic trees of EAGLE-2.
//
// Draft KV entry p holds the pair (feature of token p, id of token p + 1). Draft extend writes the entries of committed
// tokens from the target's own features and so overwrites what the head guessed for them in the round before; its last row
// gives the first drafts. A round of depth d takes d - 1 draft decode launches, one a level of the tree.
#pragma once

#include <vector>

#include "model/draft_head.h"
#include "spec/drafter.h"

namespace haast::spec {

class EagleDrafter final : public Drafter {
 public:
  // All outlive the drafter. `runner` runs `head`, for which the target taps feature_width() floats a token. With `follow` the
  // head soon makes its entries of tokens that no draft needs yet, for other requests may share them; without, late or never.
  EagleDrafter(const model::DraftHead& head, exec::Runner& runner, const kernels::Ops& ops, bool follow)
      : head_(head), runner_(runner), sampler_(head.draft_to_target(), ops), follow_(follow) {}

  exec::Runner* runner() override { return &runner_; }
  bool needs_taps() const override { return true; }
  Status Propose(std::span<const ProposeItem> items) override;
  Status Observe(std::span<const ObserveItem> items) override;
  bool AcceptsState(const DraftState& state, int64_t length, int64_t draft_length) const override;

 private:
  // The tree of one item while it grows.
  struct Growth {
    CandidatePool pool;
    std::vector<int> rows;                    // nodes that the head has run, in the order of their rows in the draft KV
    std::vector<int32_t> row_parents;         // [rows] row of the parent, -1: the newest token
    std::vector<int> level;                   // nodes of the next launch
    sampling::DraftDistributions q;           // [pool] where the drafts are drawn
    std::vector<std::vector<float>> carried;  // [pool] what a node's children read: the parent's value; empty until it ran
  };

  void BeginLaunch();
  Status RunLevel(std::span<const ProposeItem> items, int depth);
  void Expand(const ProposeItem& item, Growth* growth, int64_t first_row, int depth);
  void ChooseFirst(int64_t logit_row, const ObserveItem& item);
  void Remember(const ObserveItem& item);
  bool MustRun(const ObserveItem& item) const;
  int64_t MostWaiting() const;
  Status Extend(std::vector<const ObserveItem*>* behind);

  const model::DraftHead& head_;
  exec::Runner& runner_;
  sampling::DraftSampler sampler_;
  const bool follow_;
  // Arrays of one round, kept between rounds for their memory.
  std::vector<Growth> growth_;  // [items]
  std::vector<attention::SequenceRows> sequences_;
  std::vector<int32_t> owners_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> logit_rows_;
  std::vector<float> features_;
};

}  // namespace haast::spec
