#include "exec/runner.h"

#include "base/format.h"
#include "model/decoder_layer.h"

namespace haast::exec {

namespace {

Status CheckBuckets(const RunnerOptions& options) {
  for (const attention::Bucket& bucket : options.buckets) {
    if (bucket.batch >= 1 && bucket.rows >= 1 && bucket.rows <= options.max_rows && bucket.max_kv_len <= options.max_context) continue;
    return Err(ErrorCode::kInvalidArgument, "a bucket of {} sequences, {} rows and {} KV entries; the runner has room for {} rows and {}",
               bucket.batch, bucket.rows, bucket.max_kv_len, options.max_rows, options.max_context);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Runner>> Runner::Create(model::Model& model, const kernels::Ops& ops, base::ThreadPool& pool,
                                               const kv::PagePool& pages, const RunnerOptions& options) {
  HAAST_RETURN_IF_ERROR(CheckBuckets(options));
  std::unique_ptr<Runner> runner(new Runner(model, ops, pool, pages, options));
  runner->bucket_metadata_.resize(options.buckets.size());
  const io::ModelConfig& config = model.config();
  HAAST_ASSIGN_OR_RETURN(
      runner->cache_, kv::KvCache::Create(model.num_layers(), pages.num_slots(), config.num_kv_heads, config.head_dim, options.kv_dtype));
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    runner->layer_caches_.push_back({runner->cache_.k(layer), runner->cache_.v(layer)});
  }
  HAAST_ASSIGN_OR_RETURN(runner->attention_, attention::MakeHostBackend(ops, pool, model::HeadShapeOf(config, options.kv_dtype),
                                                                        options.max_rows, options.max_context));
  HAAST_ASSIGN_OR_RETURN(runner->workspace_, kernels::Workspace::Create(options.max_rows, model.max_input()));
  const int64_t arena_floats = model.arena_floats(options.max_rows);
  HAAST_ASSIGN_OR_RETURN(Buffer arena,
                         Buffer::Allocate(static_cast<size_t>(arena_floats) * sizeof(float), "activations", BufferUse::kSparse));
  runner->arena_ = Arena(std::move(arena));
  auto floats = [](int64_t rows, int64_t width) { return static_cast<size_t>(rows) * static_cast<size_t>(width) * sizeof(float); };
  HAAST_ASSIGN_OR_RETURN(runner->logits_,
                         Buffer::Allocate(floats(options.max_logit_rows, model.logits_width()), "logits", BufferUse::kSparse));
  HAAST_ASSIGN_OR_RETURN(runner->taps_,
                         Buffer::Allocate(floats(options.max_rows, model.tap_width()), "tapped features", BufferUse::kSparse));
  if (model.carries()) {
    HAAST_ASSIGN_OR_RETURN(runner->carried_,
                           Buffer::Allocate(floats(options.max_logit_rows, config.hidden_size), "carried features", BufferUse::kSparse));
  }
  return runner;
}

Status Runner::CheckSizes(const Batch& batch) const {
  const char* mode = attention::ForwardModeName(batch.mode);
  const int64_t rows = static_cast<int64_t>(batch.ids.size());
  if (rows > options_.max_rows)
    return Err(ErrorCode::kInvalidArgument, "{}: {} rows in one launch, at most {}", mode, rows, options_.max_rows);
  const int64_t logit_rows = static_cast<int64_t>(batch.logit_rows.size());
  if (logit_rows > options_.max_logit_rows) {
    return Err(ErrorCode::kInvalidArgument, "{}: {} rows need logits, at most {}", mode, logit_rows, options_.max_logit_rows);
  }
  int32_t above = -1;
  for (int32_t row : batch.logit_rows) {
    if (row >= rows) return Err(ErrorCode::kInvalidArgument, "{}: logits of row {} of {}", mode, row, rows);
    if (row <= above) return Err(ErrorCode::kInvalidArgument, "{}: logits of row {}, expected one above {}", mode, row, above);
    above = row;
  }
  return {};
}

// The metadata of the launch, padded where there are buckets. Ids and features of padding rows are 0.
Status Runner::BuildLaunch(const Batch& batch) {
  const attention::Bucket* bucket = batch.sequences.empty() ? nullptr : attention::ChooseBucket(options_.buckets, batch.sequences);
  launch_ = bucket == nullptr ? &metadata_ : &bucket_metadata_[static_cast<size_t>(bucket - options_.buckets.data())];
  HAAST_RETURN_IF_ERROR(attention::BuildMetadata(batch.mode, pages_.page_size(), batch.sequences, launch_, bucket));
  if (bucket == nullptr) return {};
#ifdef HAAST_CHECKED
  HAAST_RETURN_IF_ERROR(attention::BuildMetadata(batch.mode, pages_.page_size(), batch.sequences, &metadata_));
  HAAST_RETURN_IF_ERROR(attention::CompareMetadata(metadata_, attention::WithoutPadding(*launch_)));
#endif
  padded_ids_.assign(batch.ids.begin(), batch.ids.end());
  padded_ids_.resize(static_cast<size_t>(bucket->rows), 0);
  if (batch.features == nullptr) return {};
  const int64_t width = batch.features_are_taps ? model_.feature_width() : model_.config().hidden_size;
  padded_features_.assign(batch.features, batch.features + static_cast<int64_t>(batch.ids.size()) * width);
  padded_features_.resize(static_cast<size_t>(bucket->rows * width), 0.0f);
  return {};
}

void Runner::PriceLaunch(const Batch& batch) {
  launch_size_ = {.logit_rows = static_cast<int64_t>(batch.logit_rows.size())};
  for (const attention::SequenceRows& sequence : batch.sequences) {
    launch_size_.Add(sequence.num_rows, sequence.kv_before + sequence.tree_cached + sequence.num_rows);
  }
  const LaunchCosts* costs = batch.features_are_taps ? extend_costs_ : costs_;
  if (costs != nullptr) priced_seconds_ += costs->Seconds(launch_size_);
}

Status Runner::Run(const Batch& batch) {
  HAAST_RETURN_IF_ERROR(CheckSizes(batch));
  HAAST_RETURN_IF_ERROR(BuildLaunch(batch));
  const bool padded = launch_->padded_sequences > 0;
  const int64_t rows = padded ? launch_->rows() : static_cast<int64_t>(batch.ids.size());
  attention::LaunchShape shape;
  shape.q_rows = shape.kv_rows = shape.out_rows = rows;
  shape.real_rows = static_cast<int64_t>(batch.ids.size());
  shape.pool_slots = cache_.slots();
  shape.page_owner = pages_.owners();
  shape.sequence_owner = batch.owners;
  if (options_.trace != nullptr && rows > 0) options_.trace->Write(options_.trace_name, *launch_, shape);
#ifdef HAAST_CHECKED
  logits_.Poison();
  taps_.Poison();
  if (carried_.size() > 0) carried_.Poison();
#endif
  HAAST_RETURN_IF_ERROR(attention_->Plan(*launch_, shape, model::HeadShapeOf(model_.config(), options_.kv_dtype)));
  if (rows == 0) return {};
  arena_.Reset();
  model::ForwardContext context{ops_, pool_, workspace_, arena_, *attention_, layer_caches_};
  model::ForwardArgs args;
  args.rows = rows;
  args.ids = padded ? padded_ids_.data() : batch.ids.data();
  args.features = padded && batch.features != nullptr ? padded_features_.data() : batch.features;
  args.features_are_taps = batch.features_are_taps;
  args.logit_rows = batch.logit_rows;
  args.logits = logits_.as<float>();
  args.taps = batch.want_taps ? taps_.as<float>() : nullptr;
  args.carried = carried_.size() > 0 ? carried_.as<float>() : nullptr;
  model_.Forward(args, context);
  PriceLaunch(batch);
  return {};
}

}  // namespace haast::exec
