#include "model/eagle1.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"

namespace haast::model {
namespace {

Status CheckSizes(const io::ModelFile& head, const io::ModelConfig& target) {
  const io::ModelConfig& config = head.config();
  if (config.architecture != "eagle") {
    return Err(ErrorCode::kUnsupported, "{}: expected an EAGLE head, got architecture '{}'", head.path(), config.architecture);
  }
  auto mismatch = [&](const char* what, int64_t expected, int64_t got) {
    return Err(ErrorCode::kUnsupported, "{}: the head does not fit the model: {}: the model has {}, the head expects {}", head.path(), what,
               expected, got);
  };
  // The head reads the target's features and feeds the target's lm_head: one width for both.
  if (config.hidden_size != target.hidden_size) return mismatch("hidden size", target.hidden_size, config.hidden_size);
  if (config.vocab_size != target.vocab_size) return mismatch("vocabulary size", target.vocab_size, config.vocab_size);
  return {};
}

}  // namespace

Status Eagle1Head::CheckFits(const io::ModelFile& file, const io::ModelConfig& target) {
  HAAST_RETURN_IF_ERROR(CheckSizes(file, target));
  return Eagle1Head().Bind(file, CheckOnly());
}

Result<std::unique_ptr<Eagle1Head>> Eagle1Head::Load(const io::ModelFile& file, const Llama& target, int64_t max_context,
                                                     const LoadContext& load) {
  HAAST_RETURN_IF_ERROR(CheckSizes(file, target.config()));
  auto head = std::make_unique<Eagle1Head>();
  head->embedding_ = target.embedding();
  head->lm_head_ = target.lm_head();
  HAAST_RETURN_IF_ERROR(head->Bind(file, load));
  HAAST_ASSIGN_OR_RETURN(head->rope_, MakeRopeTable(head->config_, {}, max_context));
  return head;
}

// What the file has takes the place of the target's.
Status Eagle1Head::Bind(const io::ModelFile& file, const LoadContext& load) {
  config_ = file.config();
  WeightBinder binder(file);
  const int64_t hidden = config_.hidden_size;
  if (binder.Has("embed_tokens.weight")) {
    HAAST_ASSIGN_OR_RETURN(embedding_, binder.Table({"embed_tokens.weight"}, config_.vocab_size, hidden));
  }
  HAAST_ASSIGN_OR_RETURN(fc_, binder.Matrix("fc.weight", hidden, 2 * hidden, load));
  HAAST_ASSIGN_OR_RETURN(fc_bias_, binder.OptionalVector("fc.bias", hidden));
  for (int i = 0; i < config_.num_layers; ++i) {
    HAAST_ASSIGN_OR_RETURN(DecoderLayer layer, LoadDecoderLayer(&binder, fmt::format("layers.{}.", i), config_, hidden, i > 0, load));
    layers_.push_back(std::move(layer));
  }
  return binder.CheckAllUsed();
}

int64_t Eagle1Head::max_input() const {
  return std::max({2 * config_.hidden_size, config_.intermediate_size, static_cast<int64_t>(config_.num_heads) * config_.head_dim});
}

int64_t Eagle1Head::arena_floats(int64_t rows) const {
  return rows * 4 * config_.hidden_size + DecoderLayerArenaFloats(config_, rows) + 3 * 16;
}

int64_t Eagle1Head::bytes_per_pass() const {
  int64_t bytes = lm_head_->bytes_per_pass + fc_.bytes_per_pass;
  for (const DecoderLayer& layer : layers_) bytes += layer.bytes_per_pass();
  return bytes;
}

void Eagle1Head::Forward(const ForwardArgs& args, ForwardContext& context) {
  const int64_t rows = args.rows;
  const int64_t hidden = config_.hidden_size;
  float* pair = context.arena.Take<float>(rows * 2 * hidden);  // embedding | feature
  float* embedded = context.arena.Take<float>(rows * hidden);
  float* x = context.arena.Take<float>(rows * hidden);
  EmbedRows(embedding_, args.ids, rows, embedded);
  const size_t bytes = static_cast<size_t>(hidden) * sizeof(float);
  for (int64_t r = 0; r < rows; ++r) {
    std::memcpy(pair + r * 2 * hidden, embedded + r * hidden, bytes);
    std::memcpy(pair + r * 2 * hidden + hidden, args.features + r * hidden, bytes);
  }
  const kernels::LinearTask join[] = {{&fc_, x, hidden, fc_bias_.empty() ? nullptr : fc_bias_.data()}};
  context.ops.linear({pair, 2 * hidden, rows}, std::span(join), context.workspace, context.pool);
  const auto layer = [&](size_t i) { return PlacedLayer{layers_[i], config_, rope_, context.caches[i]}; };
  const size_t last = layers_.size() - 1;
  for (size_t i = 0; i < last; ++i) RunDecoderLayer(layer(i), {x, hidden, i > 0}, rows, x, context);
  RunLastDecoderLayer(layer(last), {x, hidden, last > 0}, rows, args.logit_rows, x, context);
  if (args.logit_rows.empty()) return;
  const int64_t count = static_cast<int64_t>(args.logit_rows.size());
  if (args.carried != nullptr) std::memcpy(args.carried, x, static_cast<size_t>(count) * bytes);
  const kernels::LinearTask task[] = {{lm_head_.get(), args.logits, lm_head_->n}};
  context.ops.linear({x, hidden, count}, std::span(task), context.workspace, context.pool);
}

}  // namespace haast::model
