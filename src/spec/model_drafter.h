// Drafting with a second, smaller model of the same vocabulary (Leviathan et al., 2023): chains.
//
// Its KV entry p is that of token p; entries stay valid for the drafts that were accepted. What it has not seen yet, a prompt
// above all, it catches up with when it next drafts.
#pragma once

#include <vector>

#include "spec/drafter.h"

namespace haast::spec {

class ModelDrafter final : public Drafter {
 public:
  // `runner` runs the draft model; it and `ops` outlive the drafter.
  ModelDrafter(exec::Runner& runner, const kernels::Ops& ops) : runner_(runner), sampler_({}, ops) {}

  exec::Runner* runner() override { return &runner_; }
  Status Propose(std::span<const ProposeItem> items) override;
  Status Observe(std::span<const ObserveItem> items) override;

 private:
  void BeginLaunch();
  // Runs tokens [kv.draft_length(), s] of every item, in as many launches as they need; `next` receives the drafts.
  Status CatchUp(std::span<const ProposeItem> items);
  Status RunLevel(std::span<const ProposeItem> items, int depth);
  void Draft(int64_t logit_row, const ProposeItem& item, int depth);

  exec::Runner& runner_;
  sampling::DraftSampler sampler_;
  // Arrays of one round, kept between rounds for their memory.
  std::vector<attention::SequenceRows> sequences_;
  std::vector<int32_t> owners_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> logit_rows_;
};

}  // namespace haast::spec
