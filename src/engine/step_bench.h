// Single launches of a model and a drafter's model on a sequence of its own, for their time.
#pragma once

#include <vector>

#include "exec/runner.h"
#include "kv/kv_seq.h"

namespace haast::engine {

// What single launches need of the models; valid as long as they are, whoever owns them.
struct StepModels {
  exec::Runner* target;
  exec::Runner* draft;  // of a head or a draft model; null: none
  kv::PagePool* pages;
};

// Nothing is committed: every launch writes the entries after the depth and the next one overwrites them.
class StepBench {
 public:
  // Takes pages for `depth` tokens and `rows` more, which the pool must have, and gives them back at its end. The models
  // outlive this object.
  StepBench(const StepModels& models, int64_t depth, int64_t rows);
  ~StepBench() { kv_.Release(pages_); }
  StepBench(const StepBench&) = delete;
  StepBench& operator=(const StepBench&) = delete;

  // Fills target and draft entries of the first `depth` tokens.
  Status Prepare(int64_t chunk);
  // Seconds of one target pass of `rows` tokens, with logits on all of them.
  Result<double> Verify(int64_t rows);
  // Seconds of a draft step over `rows` rows.
  Result<double> DraftStep(int64_t rows);
  // Seconds of a draft extend of `rows` rows, logits on the last.
  Result<double> DraftExtend(int64_t rows);

 private:
  exec::Batch MakeBatch(attention::ForwardMode mode, int64_t kv_before, int64_t rows);

  exec::Runner* target_;
  exec::Runner* draft_;
  kv::PagePool* pages_;
  kv::KvSeq kv_;
  const int64_t depth_;
  std::vector<int32_t> ids_;         // [max(depth, rows)] any tokens of the vocabulary
  std::vector<float> features_;      // for draft launches: their values do not matter to their time
  std::vector<int32_t> logit_rows_;  // 0, 1, ...
  int32_t last_row_ = 0;
  attention::SequenceRows sequence_;
};

}  // namespace haast::engine
