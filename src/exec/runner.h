// Runs one model over one batch: builds the launch's metadata, has it checked and planned, launches, keeps the outputs.
// Target and draft head each have a runner; neither knows which it is.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "attention/backend.h"
#include "attention/launch_trace.h"
#include "attention/metadata_builder.h"
#include "core/arena.h"
#include "haast/step_costs.h"
#include "kv/kv_cache.h"
#include "kv/page_pool.h"
#include "model/model.h"

namespace haast::exec {

struct RunnerOptions {
  int64_t max_rows = 0;        // rows of one launch
  int64_t max_logit_rows = 0;  // of those, rows that need logits
  int64_t max_context = 0;     // tokens of one sequence
  DType kv_dtype = DType::kF16;
  // Fixed shapes, smallest first: a launch is padded to the first one with room for it. For backends that replay captured
  // launches; on the host for tests, with one thread (attention/metadata_builder.h).
  std::vector<attention::Bucket> buckets;
  // Gets every launch before it is checked, under this name; null: none. Outlives the runner.
  attention::LaunchTrace* trace = nullptr;
  const char* trace_name = "";
};

// One launch. Rows are ordered by sequence.
struct Batch {
  attention::ForwardMode mode = attention::ForwardMode::kIdle;
  std::span<const attention::SequenceRows> sequences;
  std::span<const int32_t> owners;  // [B] page owner of each sequence
  std::span<const int32_t> ids;     // [R]
  const float* features = nullptr;  // draft heads: [R, width]
  bool features_are_taps = false;
  std::span<const int32_t> logit_rows;  // each above the one before; of other rows only K, V and taps are made
  bool want_taps = false;               // targets
};

class Runner {
 public:
  // `model`, `ops`, `pool` and `pages` outlive the runner, which owns the KV cache of its model: pages.num_slots() slots.
  static Result<std::unique_ptr<Runner>> Create(model::Model& model, const kernels::Ops& ops, base::ThreadPool& pool,
                                                const kv::PagePool& pages, const RunnerOptions& options);

  // Outputs are valid until the next Run. A refused launch changes nothing but the outputs. An empty batch is Idle: it
  // launches nothing.
  Status Run(const Batch& batch);

  // From now on launches are priced: `extends` holds for those that read tapped features, `others` for the rest. Both outlive
  // the runner.
  void SetCosts(const LaunchCosts* others, const LaunchCosts* extends) {
    costs_ = others;
    extend_costs_ = extends;
  }
  double priced_seconds() const { return priced_seconds_; }       // of all launches since SetCosts
  const LaunchSize& launch_size() const { return launch_size_; }  // of the last launch, without padding

  // The i-th of batch.logit_rows; [model.logits_width()], and [H] of a draft head.
  std::span<const float> logits(int64_t i) const {
    return {logits_.as<float>() + i * model_.logits_width(), static_cast<size_t>(model_.logits_width())};
  }
  const float* carried(int64_t i) const { return carried_.as<float>() + i * model_.config().hidden_size; }
  const float* taps(int64_t row) const { return taps_.as<float>() + row * model_.tap_width(); }

  const model::Model& model() const { return model_; }
  const attention::ForwardMetadata& metadata() const { return *launch_; }
  int page_size() const { return pages_.page_size(); }
  kv::KvCache& cache() { return cache_; }
  const RunnerOptions& options() const { return options_; }

 private:
  Runner(model::Model& model, const kernels::Ops& ops, base::ThreadPool& pool, const kv::PagePool& pages, const RunnerOptions& options)
      : model_(model), ops_(ops), pool_(pool), pages_(pages), options_(options) {}
  Status CheckSizes(const Batch& batch) const;
  Status BuildLaunch(const Batch& batch);
  void PriceLaunch(const Batch& batch);

  model::Model& model_;
  const kernels::Ops& ops_;
  base::ThreadPool& pool_;
  const kv::PagePool& pages_;
  RunnerOptions options_;
  kv::KvCache cache_;
  std::vector<attention::LayerCache> layer_caches_;
  std::unique_ptr<attention::Backend> attention_;
  attention::ForwardMetadata metadata_;                      // of launches with their own shape
  std::vector<attention::ForwardMetadata> bucket_metadata_;  // [buckets]: one set of addresses each
  attention::ForwardMetadata* launch_ = &metadata_;          // the one that the last launch used
  std::vector<int32_t> padded_ids_;
  std::vector<float> padded_features_;
  kernels::Workspace workspace_;
  Arena arena_;
  Buffer logits_;   // [max_logit_rows, V]
  Buffer taps_;     // [max_rows, tap_width]
  Buffer carried_;  // [max_logit_rows, H], draft heads
  const LaunchCosts* costs_ = nullptr;
  const LaunchCosts* extend_costs_ = nullptr;
  LaunchSize launch_size_;
  double priced_seconds_ = 0.0;
};

}  // namespace haast::exec
