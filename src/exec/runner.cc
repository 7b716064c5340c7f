#include "exec/runner.h"

#include "base/format.h"
#include "model/decoder_layer.h"

namespace haast::exec {

Result<std::unique_ptr<Runner>> Runner::Create(model::Model& model, const kernels::Ops& ops, base::ThreadPool& pool,
                                               const kv::PagePool& pages, const RunnerOptions& options) {
  std::unique_ptr<Runner> runner(new Runner(model, ops, pool, pages, options));
  const io::ModelConfig& config = model.config();
  HAAST_ASSIGN_OR_RETURN(
      runner->cache_, kv::KvCache::Create(model.num_layers(), pages.num_slots(), config.num_kv_heads, config.head_dim, options.kv_dtype));
  for (int layer = 0; layer < model.num_layers(); ++layer) {
    runner->layer_caches_.push_back({runner->cache_.k(layer), runner->cache_.v(layer)});
  }
  HAAST_ASSIGN_OR_RETURN(runner->attention_, attention::MakeHostBackend(ops, pool, model::HeadShapeOf(config, options.kv_dtype),
                                                                        options.max_rows, options.max_context));
  HAAST_ASSIGN_OR_RETURN(runner->workspace_, kernels::Workspace::Create(options.max_rows, model.max_input()));
  const int64_t arena_floats = model.arena_floats(options.max_rows, options.max_logit_rows);
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
                           Buffer::Allocate(floats(options.max_rows, config.hidden_size), "carried features", BufferUse::kSparse));
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
  for (int32_t row : batch.logit_rows) {
    if (row < 0 || row >= rows) return Err(ErrorCode::kInvalidArgument, "{}: logits of row {} of {}", mode, row, rows);
  }
  return {};
}

Status Runner::Run(const Batch& batch) {
  HAAST_RETURN_IF_ERROR(attention::BuildMetadata(batch.mode, pages_.page_size(), batch.sequences, &metadata_));
  HAAST_RETURN_IF_ERROR(CheckSizes(batch));
  const int64_t rows = static_cast<int64_t>(batch.ids.size());
  attention::LaunchShape shape;
  shape.q_rows = shape.kv_rows = shape.out_rows = rows;
  shape.pool_slots = cache_.slots();
#ifdef HAAST_CHECKED
  shape.page_owner = pages_.owners();
  shape.sequence_owner = batch.owners;
  logits_.Poison();
  taps_.Poison();
#endif
  HAAST_RETURN_IF_ERROR(attention_->Plan(metadata_, shape, model::HeadShapeOf(model_.config(), options_.kv_dtype)));
  if (rows == 0) return {};
  arena_.Reset();
  model::ForwardContext context{ops_, pool_, workspace_, arena_, *attention_, layer_caches_};
  model::ForwardArgs args;
  args.rows = rows;
  args.ids = batch.ids.data();
  args.features = batch.features;
  args.features_are_taps = batch.features_are_taps;
  args.logit_rows = batch.logit_rows;
  args.logits = logits_.as<float>();
  args.taps = batch.want_taps ? taps_.as<float>() : nullptr;
  args.carried = carried_.size() > 0 ? carried_.as<float>() : nullptr;
  model_.Forward(args, context);
  return {};
}

}  // namespace haast::exec
