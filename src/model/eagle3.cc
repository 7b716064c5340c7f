#include "model/eagle3.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"

namespace haast::model {
namespace {

// The first layer under either name: SafeAILab and SpecForge say midlayer, speculators layers.0.
std::string FirstLayerPrefix(const io::ModelFile& file) {
  return file.Find("midlayer.self_attn.q_proj.weight") != nullptr ? "midlayer." : "layers.0.";
}

bool OneOf(const io::ModelFile& file, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return file.Find(name) != nullptr; });
}

Status CheckSizes(const io::ModelFile& head, const io::ModelConfig& target) {
  const io::ModelConfig& config = head.config();
  if (!config.eagle3) {
    return Err(ErrorCode::kUnsupported, "{}: expected an EAGLE-3 head, got architecture '{}'", head.path(), config.architecture);
  }
  const io::Eagle3Config& eagle = *config.eagle3;
  auto mismatch = [&](const char* what, int64_t expected, int64_t got) {
    return Err(ErrorCode::kUnsupported, "{}: the head does not fit the model: {}: the model has {}, the head expects {}", head.path(), what,
               expected, got);
  };
  if (eagle.target_hidden_size != target.hidden_size) return mismatch("hidden size", target.hidden_size, eagle.target_hidden_size);
  if (config.vocab_size != target.vocab_size) return mismatch("vocabulary size", target.vocab_size, config.vocab_size);
  const std::vector<int> taps = TapLayers(eagle, target.num_layers);
  if (static_cast<int>(taps.size()) != eagle.num_aux_hidden_states) {
    return Err(ErrorCode::kInvalidFile, "{}: num_aux_hidden_states is {}, but {} tap layers are named", head.path(),
               eagle.num_aux_hidden_states, taps.size());
  }
  for (size_t i = 0; i < taps.size(); ++i) {
    if (taps[i] < 0 || taps[i] > target.num_layers) return mismatch("number of layers (largest tap)", target.num_layers, taps[i]);
    if (i > 0 && taps[i] <= taps[i - 1]) {
      return Err(ErrorCode::kInvalidFile, "{}: tap layers must ascend, got {} after {}", head.path(), taps[i], taps[i - 1]);
    }
  }
  const bool own_head = OneOf(head, {"lm_head.weight"});
  if (!own_head && eagle.draft_vocab_size > 0 && eagle.draft_vocab_size != target.vocab_size) {
    return Err(ErrorCode::kNotFound, "{}: lm_head.weight is missing, but draft_vocab_size {} needs one (the model's has {} rows)",
               head.path(), eagle.draft_vocab_size, target.vocab_size);
  }
  if (!own_head && config.hidden_size != target.hidden_size)
    return mismatch("hidden size for the shared lm_head", target.hidden_size, config.hidden_size);
  if (!OneOf(head, {"embed_tokens.weight", "model.embed_tokens.weight"}) && config.hidden_size != target.hidden_size) {
    return mismatch("hidden size for the shared embeddings", target.hidden_size, config.hidden_size);
  }
  if (eagle.draft_vocab_size > 0 && eagle.draft_vocab_size != config.vocab_size && !OneOf(head, {"d2t"})) {
    return Err(ErrorCode::kNotFound,
               "{}: d2t is missing, but the draft vocabulary has {} of {} ids; without it drafts would name wrong tokens", head.path(),
               eagle.draft_vocab_size, config.vocab_size);
  }
  return {};
}

}  // namespace

std::vector<int> TapLayers(const io::Eagle3Config& head, int target_layers) {
  if (!head.tap_layers.empty()) return head.tap_layers;
  return {2, target_layers / 2, target_layers - 3};
}

Status Eagle3Head::CheckFits(const io::ModelFile& file, const io::ModelConfig& target) {
  HAAST_RETURN_IF_ERROR(CheckSizes(file, target));
  return Eagle3Head().Bind(file, CheckOnly(), CheckOnly());
}

Status Eagle3Head::LoadInputs(WeightBinder* binder, const LoadContext& load) {
  const io::Eagle3Config& eagle = *config_.eagle3;
  const int taps = eagle.num_aux_hidden_states;
  const int64_t width = taps * eagle.target_hidden_size;
  const int64_t hidden = config_.hidden_size;
  if (binder->Has("embed_tokens.weight") || binder->Has("model.embed_tokens.weight")) {
    HAAST_ASSIGN_OR_RETURN(embedding_, binder->Table({"embed_tokens.weight", "model.embed_tokens.weight"}, config_.vocab_size, hidden));
  }
  for (int i = 0; eagle.fc_norm && i < taps; ++i) {
    const std::string plain = fmt::format("fc_norm.{}.weight", i);
    const std::string name = binder->Has(plain) ? plain : "model." + plain;
    HAAST_ASSIGN_OR_RETURN(std::vector<float> norm, binder->Vector(name, eagle.target_hidden_size));
    tap_norms_.push_back(std::move(norm));
  }
  if (eagle.norm_before_fc) {
    HAAST_ASSIGN_OR_RETURN(input_norm_, binder->Vector("input_norm.weight", width));
  }
  HAAST_ASSIGN_OR_RETURN(fc_, binder->Matrix("fc.weight", hidden, width, load));
  HAAST_ASSIGN_OR_RETURN(fc_bias_, binder->OptionalVector("fc.bias", hidden));
  const std::string prefix = FirstLayerPrefix(binder->file());
  HAAST_ASSIGN_OR_RETURN(embedding_norm_, binder->Vector(prefix + "input_layernorm.weight", hidden));
  HAAST_ASSIGN_OR_RETURN(feature_norm_, binder->Vector(prefix + "hidden_norm.weight", hidden));
  return {};
}

Status Eagle3Head::LoadVocabulary(WeightBinder* binder, const LoadContext& load) {
  const io::Eagle3Config& eagle = *config_.eagle3;
  const int64_t draft_vocab = eagle.draft_vocab_size > 0 ? eagle.draft_vocab_size : config_.vocab_size;
  if (binder->Has("lm_head.weight")) {
    HAAST_ASSIGN_OR_RETURN(kernels::PackedWeight own, binder->Matrix("lm_head.weight", draft_vocab, config_.hidden_size, load));
    lm_head_ = std::make_shared<const kernels::PackedWeight>(std::move(own));
  }
  binder->Ignore("t2d");
  if (!binder->Has("d2t")) return {};
  HAAST_ASSIGN_OR_RETURN(TensorView d2t, binder->Require("d2t", {draft_vocab}));
  if (d2t.dtype != DType::kI64) {
    return Err(ErrorCode::kInvalidFile, "{}: tensor d2t: expected I64 offsets, got {}", binder->file().path(), d2t.ToString());
  }
  std::vector<bool> taken(static_cast<size_t>(config_.vocab_size), false);
  for (int64_t i = 0; i < draft_vocab; ++i) {
    int64_t offset;
    std::memcpy(&offset, static_cast<const uint8_t*>(d2t.data) + i * 8, sizeof(offset));
    // The offset is compared before it is added: a hostile one must not overflow.
    if (offset < -i || offset >= config_.vocab_size - i) {
      return Err(ErrorCode::kInvalidFile, "{}: d2t[{}] = {} leads outside the vocabulary of {}", binder->file().path(), i, offset,
                 config_.vocab_size);
    }
    if (taken[i + offset]) {
      return Err(ErrorCode::kInvalidFile, "{}: d2t[{}] = {}: target id {} is named twice; d2t must hold offsets, not absolute ids",
                 binder->file().path(), i, offset, i + offset);
    }
    taken[i + offset] = true;
    draft_to_target_.push_back(static_cast<int32_t>(i + offset));
  }
  return {};
}

Result<std::unique_ptr<Eagle3Head>> Eagle3Head::Load(const io::ModelFile& file, const Llama& target, int64_t max_context,
                                                     const LoadContext& body, const LoadContext& lm_head) {
  HAAST_RETURN_IF_ERROR(CheckSizes(file, target.config()));
  auto head = std::make_unique<Eagle3Head>();
  head->embedding_ = target.embedding();
  head->lm_head_ = target.lm_head();
  HAAST_RETURN_IF_ERROR(head->Bind(file, body, lm_head));
  // Longer than the head was trained for where the target is: past its training length a head drafts worse, never wrong.
  HAAST_ASSIGN_OR_RETURN(head->rope_, MakeRopeTable(head->config_, {}, max_context));
  return head;
}

// What the file has takes the place of the target's.
Status Eagle3Head::Bind(const io::ModelFile& file, const LoadContext& body, const LoadContext& lm_head) {
  config_ = file.config();
  WeightBinder binder(file);
  HAAST_RETURN_IF_ERROR(LoadInputs(&binder, body));
  const int64_t hidden = config_.hidden_size;
  for (int i = 0; i < config_.num_layers; ++i) {
    const std::string prefix = i == 0 ? FirstLayerPrefix(file) : fmt::format("layers.{}.", i);
    HAAST_ASSIGN_OR_RETURN(DecoderLayer layer, LoadDecoderLayer(&binder, prefix, config_, i == 0 ? 2 * hidden : hidden, i > 0, body));
    layers_.push_back(std::move(layer));
  }
  HAAST_ASSIGN_OR_RETURN(final_norm_, binder.Vector("norm.weight", hidden));
  HAAST_RETURN_IF_ERROR(LoadVocabulary(&binder, lm_head));
  return binder.CheckAllUsed();
}

int64_t Eagle3Head::max_input() const {
  return std::max({fc_.k, 2 * config_.hidden_size, config_.intermediate_size, static_cast<int64_t>(config_.num_heads) * config_.head_dim});
}

int64_t Eagle3Head::arena_floats(int64_t rows) const {
  return rows * (fc_.k + 4 * config_.hidden_size) + DecoderLayerArenaFloats(config_, rows) + 8 * 16;
}

int64_t Eagle3Head::bytes_per_pass() const {
  int64_t bytes = lm_head_->bytes_per_pass;
  for (const DecoderLayer& layer : layers_) bytes += layer.bytes_per_pass();
  return bytes;
}

// features [R, H] = fc of the target's taps (3.1: each tap normed first).
void Eagle3Head::Fuse(const ForwardArgs& args, float* features, ForwardContext& context) const {
  const int64_t width = fc_.k;
  const int64_t tap = config_.eagle3->target_hidden_size;
  const float eps = config_.rms_norm_eps;
  const float* taps = args.features;
  if (!tap_norms_.empty()) {
    float* normed = context.arena.Take<float>(args.rows * width);
    for (size_t t = 0; t < tap_norms_.size(); ++t) {
      const int64_t offset = static_cast<int64_t>(t) * tap;
      context.ops.rms_norm(taps + offset, width, tap_norms_[t].data(), eps, args.rows, tap, normed + offset, width, context.pool);
    }
    taps = normed;
  }
  kernels::LinearInput input{taps, width, args.rows};
  if (!input_norm_.empty()) {
    input.prologue = kernels::Prologue::kRmsNorm;
    input.norm_weight = input_norm_.data();
    input.eps = eps;
  }
  const kernels::LinearTask task[] = {{&fc_, features, config_.hidden_size, fc_bias_.empty() ? nullptr : fc_bias_.data()}};
  context.ops.linear(input, std::span(task), context.workspace, context.pool);
}

void Eagle3Head::Forward(const ForwardArgs& args, ForwardContext& context) {
  const int64_t rows = args.rows;
  const int64_t hidden = config_.hidden_size;
  const float eps = config_.rms_norm_eps;
  const io::Eagle3Config& eagle = *config_.eagle3;
  const kernels::Ops& ops = context.ops;

  float* x = context.arena.Take<float>(rows * hidden);  // the feature, then the residual stream
  if (args.features_are_taps) {
    Fuse(args, x, context);
  } else {
    std::memcpy(x, args.features, static_cast<size_t>(rows * hidden) * sizeof(float));
  }
  float* pair = context.arena.Take<float>(rows * 2 * hidden);  // normed embedding | normed feature
  float* embedded = context.arena.Take<float>(rows * hidden);
  EmbedRows(embedding_, args.ids, rows, embedded);
  ops.rms_norm(embedded, hidden, embedding_norm_.data(), eps, rows, hidden, pair, 2 * hidden, context.pool);
  ops.rms_norm(x, hidden, feature_norm_.data(), eps, rows, hidden, pair + hidden, 2 * hidden, context.pool);
  if (eagle.norm_before_residual) {
    for (int64_t r = 0; r < rows; ++r)
      std::memcpy(x + r * hidden, pair + r * 2 * hidden + hidden, static_cast<size_t>(hidden) * sizeof(float));
  }
  const auto layer = [&](size_t i) { return PlacedLayer{layers_[i], config_, rope_, context.caches[i]}; };
  const auto input = [&](size_t i) { return i == 0 ? LayerInput{pair, 2 * hidden, false} : LayerInput{x, hidden, true}; };
  const size_t last = layers_.size() - 1;
  for (size_t i = 0; i < last; ++i) RunDecoderLayer(layer(i), input(i), rows, x, context);
  RunLastDecoderLayer(layer(last), input(last), rows, args.logit_rows, x, context);
  if (args.logit_rows.empty()) return;
  const int64_t count = static_cast<int64_t>(args.logit_rows.size());
  float* normed = args.carried != nullptr && eagle.norm_output ? args.carried : embedded;
  ops.rms_norm(x, hidden, final_norm_.data(), eps, count, hidden, normed, hidden, context.pool);
  if (args.carried != nullptr && !eagle.norm_output) std::memcpy(args.carried, x, static_cast<size_t>(count * hidden) * sizeof(float));
  const kernels::LinearTask task[] = {{lm_head_.get(), args.logits, lm_head_->n}};
  ops.linear({normed, hidden, count}, std::span(task), context.workspace, context.pool);
}

}  // namespace haast::model
