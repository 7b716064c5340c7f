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

enum class LogitRows { kAll, kLast, kNone };

struct StepSize {
  int64_t rows = 1;
  int64_t context = 0;  // KV entries before them
  LogitRows logits = LogitRows::kAll;
};

// Nothing is committed: every launch writes the entries after its context and a later one overwrites them.
class StepBench {
 public:
  // Takes pages for `tokens`, which the pool must have, and gives them back at its end. Launches have at most `rows` rows, and
  // end within `tokens`. The models outlive this object.
  StepBench(const StepModels& models, int64_t tokens, int64_t rows);
  ~StepBench() { kv_.Release(pages_); }
  StepBench(const StepBench&) = delete;
  StepBench& operator=(const StepBench&) = delete;

  // Fills target and draft entries of all tokens: the first ones computed, the others copies of them, for values do not matter
  // to the time that reading them takes.
  Status Prepare();
  // Seconds of one target pass.
  Result<double> Verify(const StepSize& size);
  Result<double> DraftStep(const StepSize& size);
  Result<double> DraftExtend(const StepSize& size);

 private:
  exec::Batch MakeBatch(attention::ForwardMode mode, const StepSize& size);
  void CopyEntries(exec::Runner* runner, int64_t computed) const;

  exec::Runner* target_;
  exec::Runner* draft_;
  kv::PagePool* pages_;
  kv::KvSeq kv_;
  const int64_t tokens_;
  std::vector<int32_t> ids_;         // [rows] any tokens of the vocabulary
  std::vector<float> features_;      // [rows, width]
  std::vector<int32_t> logit_rows_;  // [rows] 0, 1, ...
  attention::SequenceRows sequence_;
};

}  // namespace haast::engine
