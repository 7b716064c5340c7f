// Chain drafting with an EAGLE-3 head.
//
// Draft KV entry p holds the pair (feature of token p, id of token p + 1). Draft extend writes the entries of committed
// tokens from the target's own features and so overwrites what the head guessed for them in the round before; its last row
// gives the first draft. D drafts take D - 1 draft decode launches.
#pragma once

#include <vector>

#include "exec/runner.h"
#include "model/eagle3.h"
#include "spec/drafter.h"

namespace haast::spec {

class Eagle3Drafter final : public Drafter {
 public:
  // All outlive the drafter. `runner` runs `head`.
  Eagle3Drafter(const model::Eagle3Head& head, exec::Runner& runner, const kernels::Ops& ops) : head_(head), runner_(runner), ops_(ops) {}

  const char* name() const override { return "eagle3"; }
  Status Propose(std::span<const ProposeItem> items) override;
  Status Observe(std::span<const ObserveItem> items) override;

 private:
  int32_t DraftOf(int64_t logit_row) const;
  void BeginLaunch();

  const model::Eagle3Head& head_;
  exec::Runner& runner_;
  const kernels::Ops& ops_;
  // Arrays of one launch, kept between launches for their memory.
  std::vector<attention::SequenceRows> sequences_;
  std::vector<int32_t> owners_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> logit_rows_;
  std::vector<float> features_;
};

}  // namespace haast::spec
