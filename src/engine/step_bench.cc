#include "engine/step_bench.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"

namespace haast::engine {
namespace {

constexpr int32_t kOwner = INT32_MAX;  // of this object's pages: the engine counts up from 0
constexpr int64_t kComputed = 8;       // tokens that Prepare runs

Result<double> Time(exec::Runner& runner, const exec::Batch& batch) {
  const double start = base::NowSeconds();
  HAAST_RETURN_IF_ERROR(runner.Run(batch));
  return base::NowSeconds() - start;
}

}  // namespace

StepBench::StepBench(const StepModels& models, int64_t tokens, int64_t rows)
    : target_(models.target), draft_(models.draft), pages_(models.pages), kv_(kOwner), tokens_(tokens) {
  const bool reserved = kv_.Reserve(tokens, pages_);
  HAAST_CHECK(reserved) << tokens << " tokens, " << pages_->num_free() << " free pages";
  const model::Model& target = target_->model();
  const int64_t vocab = target.config().vocab_size;
  ids_.resize(static_cast<size_t>(std::max(rows, kComputed)));
  for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<int32_t>((static_cast<int64_t>(i) * 7919 + 17) % vocab);
  const int64_t width = std::max<int64_t>(target.tap_width(), target.config().hidden_size);
  features_.assign(ids_.size() * static_cast<size_t>(width), 0.25f);
  logit_rows_.resize(ids_.size());
  std::iota(logit_rows_.begin(), logit_rows_.end(), 0);
}

exec::Batch StepBench::MakeBatch(attention::ForwardMode mode, const StepSize& size) {
  sequence_ = {kv_.pages(), size.context, size.rows, {}};
  const auto rows = static_cast<size_t>(size.rows);
  exec::Batch batch;
  batch.mode = mode;
  batch.sequences = std::span(&sequence_, 1);
  batch.owners = std::span(&kOwner, 1);
  batch.ids = std::span(ids_).first(rows);
  batch.logit_rows = std::span(logit_rows_).first(rows);
  if (size.logits != LogitRows::kAll) batch.logit_rows = batch.logit_rows.last(size.logits == LogitRows::kLast ? 1 : 0);
  return batch;
}

void StepBench::CopyEntries(exec::Runner* runner, int64_t computed) const {
  const int64_t page_size = pages_->page_size();
  std::vector<int32_t> from;
  std::vector<int32_t> to;
  for (int64_t entry = computed; entry < tokens_; ++entry) {
    const auto slot = [&](int64_t i) { return static_cast<int32_t>(kv_.pages()[i / page_size] * page_size + i % page_size); };
    from.push_back(slot(entry % computed));
    to.push_back(slot(entry));
  }
  runner->cache().Move(from, to);
}

Status StepBench::Prepare() {
  const int64_t computed = std::min(tokens_, kComputed);
  HAAST_RETURN_IF_ERROR(Verify({computed, 0, LogitRows::kLast}).map([](double) {}));
  CopyEntries(target_, computed);
  if (draft_ == nullptr) return {};
  HAAST_RETURN_IF_ERROR(DraftExtend({computed, 0, LogitRows::kLast}).map([](double) {}));
  CopyEntries(draft_, computed);
  return {};
}

Result<double> StepBench::Verify(const StepSize& size) {
  exec::Batch batch = MakeBatch(size.rows == 1 ? attention::ForwardMode::kDecode : attention::ForwardMode::kTargetVerify, size);
  batch.want_taps = target_->model().tap_width() > 0;
  return Time(*target_, batch);
}

Result<double> StepBench::DraftStep(const StepSize& size) {
  exec::Batch batch = MakeBatch(attention::ForwardMode::kDraftDecode, size);
  batch.features = features_.data();
  return Time(*draft_, batch);
}

Result<double> StepBench::DraftExtend(const StepSize& size) {
  exec::Batch batch = MakeBatch(attention::ForwardMode::kDraftExtend, size);
  batch.features = features_.data();
  batch.features_are_taps = true;
  return Time(*draft_, batch);
}

}  // namespace haast::engine
