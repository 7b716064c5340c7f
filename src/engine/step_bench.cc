#include "engine/step_bench.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"

namespace haast::engine {
namespace {

constexpr int32_t kOwner = INT32_MAX;  // of this object's pages: the engine counts up from 0

Result<double> Time(exec::Runner& runner, const exec::Batch& batch) {
  const double start = base::NowSeconds();
  HAAST_RETURN_IF_ERROR(runner.Run(batch));
  return base::NowSeconds() - start;
}

}  // namespace

StepBench::StepBench(const StepModels& models, int64_t depth, int64_t rows)
    : target_(models.target), draft_(models.draft), pages_(models.pages), kv_(kOwner), depth_(depth) {
  const bool reserved = kv_.Reserve(depth + rows, pages_);
  HAAST_CHECK(reserved) << depth + rows << " tokens, " << pages_->num_free() << " free pages";
  const model::Model& target = target_->model();
  const int64_t vocab = target.config().vocab_size;
  ids_.resize(static_cast<size_t>(std::max(depth, rows)));
  for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<int32_t>((static_cast<int64_t>(i) * 7919 + 17) % vocab);
  const int64_t width = std::max<int64_t>(target.tap_width(), target.config().hidden_size);
  features_.assign(static_cast<size_t>(rows * width), 0.25f);
  logit_rows_.resize(static_cast<size_t>(rows));
  std::iota(logit_rows_.begin(), logit_rows_.end(), 0);
}

exec::Batch StepBench::MakeBatch(attention::ForwardMode mode, int64_t kv_before, int64_t rows) {
  sequence_ = {kv_.pages(), kv_before, rows, {}};
  exec::Batch batch;
  batch.mode = mode;
  batch.sequences = std::span(&sequence_, 1);
  batch.owners = std::span(&kOwner, 1);
  batch.ids = std::span(ids_).first(static_cast<size_t>(rows));
  return batch;
}

Status StepBench::Prepare(int64_t chunk) {
  for (int64_t done = 0; done < depth_; done += chunk) {
    const int64_t rows = std::min(chunk, depth_ - done);
    exec::Batch batch = MakeBatch(attention::ForwardMode::kExtend, done, rows);
    batch.want_taps = target_->model().tap_width() > 0;
    HAAST_RETURN_IF_ERROR(target_->Run(batch));
    if (draft_ == nullptr) continue;
    exec::Batch extend = MakeBatch(attention::ForwardMode::kDraftExtend, done, rows);
    extend.features = target_->taps(0);
    extend.features_are_taps = true;
    HAAST_RETURN_IF_ERROR(draft_->Run(extend));
  }
  return {};
}

Result<double> StepBench::Verify(int64_t rows) {
  exec::Batch batch = MakeBatch(rows == 1 ? attention::ForwardMode::kDecode : attention::ForwardMode::kTargetVerify, depth_, rows);
  batch.logit_rows = std::span(logit_rows_).first(static_cast<size_t>(rows));
  batch.want_taps = target_->model().tap_width() > 0;
  return Time(*target_, batch);
}

Result<double> StepBench::DraftStep(int64_t rows) {
  exec::Batch batch = MakeBatch(attention::ForwardMode::kDraftDecode, depth_, rows);
  batch.features = features_.data();
  batch.logit_rows = std::span(logit_rows_).first(static_cast<size_t>(rows));
  return Time(*draft_, batch);
}

Result<double> StepBench::DraftExtend(int64_t rows) {
  exec::Batch batch = MakeBatch(attention::ForwardMode::kDraftExtend, depth_, rows);
  batch.features = features_.data();
  batch.features_are_taps = true;
  last_row_ = static_cast<int32_t>(rows) - 1;
  batch.logit_rows = std::span(&last_row_, 1);
  return Time(*draft_, batch);
}

}  // namespace haast::engine
