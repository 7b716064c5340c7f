#include "model/llama.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"

namespace haast::model {

void EmbedRows(const TensorView& table, const int32_t* ids, int64_t rows, float* out) {
  for (int64_t r = 0; r < rows; ++r) kernels::DequantiseRow(table, ids[r], out + r * table.cols());
}

Result<std::unique_ptr<Llama>> Llama::Load(const io::ModelFile& file, const LlamaOptions& options, const LoadContext& load) {
  const io::ModelConfig& config = file.config();
  if (config.eagle3 || config.architecture == "eagle") {
    return Err(ErrorCode::kUnsupported, "{}: expected a whole model, got a draft head ('{}'), which goes to options.draft", file.path(),
               config.architecture);
  }
  if (config.architecture != "llama") {
    return Err(ErrorCode::kUnsupported, "{}: expected a llama model, got architecture '{}'", file.path(), config.architecture);
  }
  for (int tap : options.tap_layers) {
    if (tap < 0 || tap > config.num_layers + 1) {
      return Err(ErrorCode::kUnsupported, "{}: the draft head taps layer {}, but the model has layers 0 to {}", file.path(), tap,
                 config.num_layers);
    }
  }
  auto model = std::make_unique<Llama>();
  model->config_ = config;
  model->tap_layers_ = options.tap_layers;
  model->taps_output_ = !options.tap_layers.empty() && options.tap_layers.back() > config.num_layers;
  WeightBinder binder(file);
  HAAST_ASSIGN_OR_RETURN(model->embedding_, binder.Table({"model.embed_tokens.weight"}, config.vocab_size, config.hidden_size));
  for (int i = 0; i < config.num_layers; ++i) {
    HAAST_ASSIGN_OR_RETURN(DecoderLayer layer,
                           LoadDecoderLayer(&binder, fmt::format("model.layers.{}.", i), config, config.hidden_size, true, load));
    model->layers_.push_back(std::move(layer));
  }
  HAAST_ASSIGN_OR_RETURN(model->final_norm_, binder.Vector("model.norm.weight", config.hidden_size));
  TensorView head = model->embedding_;
  if (binder.Has("lm_head.weight") || !config.tied_embeddings) {
    HAAST_ASSIGN_OR_RETURN(head, binder.Table({"lm_head.weight"}, config.vocab_size, config.hidden_size));
  }
  HAAST_ASSIGN_OR_RETURN(kernels::PackedWeight packed_head, PackMatrix(head, "lm_head", file, load));
  model->lm_head_ = std::make_shared<const kernels::PackedWeight>(std::move(packed_head));
  HAAST_ASSIGN_OR_RETURN(std::vector<float> factors, binder.OptionalVector("rope_freqs.weight", config.head_dim / 2));
  HAAST_RETURN_IF_ERROR(binder.CheckAllUsed());
  HAAST_ASSIGN_OR_RETURN(model->rope_, MakeRopeTable(config, factors, options.max_context));
  return model;
}

int64_t Llama::max_input() const {
  return std::max({config_.hidden_size, config_.intermediate_size, static_cast<int64_t>(config_.num_heads) * config_.head_dim});
}

int64_t Llama::arena_floats(int64_t rows) const {
  return rows * (taps_output_ ? 2 : 1) * config_.hidden_size + DecoderLayerArenaFloats(config_, rows) + 2 * 16;
}

int64_t Llama::bytes_per_pass() const {
  int64_t bytes = lm_head_->bytes_per_pass;
  for (const DecoderLayer& layer : layers_) bytes += layer.bytes_per_pass();
  return bytes;
}

void Llama::Tap(int layer, const ForwardArgs& args, const float* x) const {
  if (args.taps == nullptr) return;
  const int64_t hidden = config_.hidden_size;
  for (size_t t = 0; t < tap_layers_.size(); ++t) {
    if (tap_layers_[t] != layer) continue;
    for (int64_t r = 0; r < args.rows; ++r) {
      std::memcpy(args.taps + r * tap_width() + static_cast<int64_t>(t) * hidden, x + r * hidden,
                  static_cast<size_t>(hidden) * sizeof(float));
    }
  }
}

// x: [R, H] after the last layer.
void Llama::TapOutput(const ForwardArgs& args, const float* x, ForwardContext& context) const {
  Tap(config_.num_layers, args, x);
  if (!taps_output_) return;
  const int64_t hidden = config_.hidden_size;
  float* normed = context.arena.Take<float>(args.rows * hidden);
  context.ops.rms_norm(x, hidden, final_norm_.data(), config_.rms_norm_eps, args.rows, hidden, normed, hidden, context.pool);
  Tap(config_.num_layers + 1, args, normed);
}

void Llama::Forward(const ForwardArgs& args, ForwardContext& context) {
  const int64_t hidden = config_.hidden_size;
  float* x = context.arena.Take<float>(args.rows * hidden);
  EmbedRows(embedding_, args.ids, args.rows, x);
  const auto layer = [&](int i) { return PlacedLayer{layers_[i], config_, rope_, context.caches[i]}; };
  const LayerInput input{x, hidden, true};
  const int last = config_.num_layers - 1;
  for (int i = 0; i < last; ++i) {
    Tap(i, args, x);
    RunDecoderLayer(layer(i), input, args.rows, x, context);
  }
  Tap(last, args, x);
  if (args.taps != nullptr && !tap_layers_.empty() && tap_layers_.back() > last) {
    RunDecoderLayer(layer(last), input, args.rows, x, context);
    TapOutput(args, x, context);
    KeepRows(args.logit_rows, hidden, x);
  } else {
    RunLastDecoderLayer(layer(last), input, args.rows, args.logit_rows, x, context);
  }
  if (args.logit_rows.empty()) return;
  const int64_t count = static_cast<int64_t>(args.logit_rows.size());
  const kernels::LinearTask task[] = {{lm_head_.get(), args.logits, config_.vocab_size}};
  context.ops.linear({x, hidden, count, kernels::Prologue::kRmsNorm, final_norm_.data(), config_.rms_norm_eps}, std::span(task),
                     context.workspace, context.pool);
}

}  // namespace haast::model
