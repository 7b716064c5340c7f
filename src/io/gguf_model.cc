#include "io/gguf_model.h"

#include <algorithm>
#include <map>

#include "base/format.h"
#include "base/printable.h"
#include "io/config_check.h"

namespace haast::io {
namespace {

const RawTensor* FindTensor(const GgufFile& file, std::string_view name) {
  const auto found = std::find_if(file.tensors.begin(), file.tensors.end(), [&](const RawTensor& tensor) { return tensor.name == name; });
  return found == file.tensors.end() ? nullptr : &*found;
}

// Settings that change the mathematics and that haast does not have.
Status CheckServed(const GgufMetadata& keys) {
  const std::string architecture = keys.Text("general.architecture", "");
  HAAST_RETURN_IF_ERROR(keys.status());
  if (architecture != "llama") {
    return Err(ErrorCode::kUnsupported, "{}: general.architecture: expected llama, got \"{}\"", keys.path(), base::Label(architecture));
  }
  const auto refuse = [&](const char* key, int64_t got) {
    return Err(ErrorCode::kUnsupported, "{}: key {}: expected 0 (a dense model), got {}", keys.path(), key, got);
  };
  const int64_t experts = keys.Integer("llama.expert_count", 0, 0, 1 << 20);
  if (experts != 0) return refuse("llama.expert_count", experts);
  const int64_t context = keys.Integer("llama.context_length", kMaxContext, 1, kMaxContext);
  const int64_t window = keys.Integer("llama.attention.sliding_window", 0, 0, kMaxContext);
  if (window != 0 && window < context) {
    keys.Fail("llama.attention.sliding_window", fmt::format("0 or at least the context of {} (full attention)", context),
              std::to_string(window), ErrorCode::kUnsupported);
  }
  return keys.status();
}

void ReadRopeScaling(const GgufMetadata& keys, RopeScaling* scaling) {
  const float old_factor = keys.Positive("llama.rope.scale_linear", 1.0f);
  const std::string type = keys.Text("llama.rope.scaling.type", old_factor == 1.0f ? "none" : "linear");
  if (type == "linear") {
    scaling->kind = RopeScaling::Kind::kLinear;
    scaling->factor = keys.Positive("llama.rope.scaling.factor", old_factor);
  } else if (type != "none") {
    keys.Fail("llama.rope.scaling.type", "none or linear", fmt::format("\"{}\"", base::Label(type)), ErrorCode::kUnsupported);
  }
}

void ReadSizes(const GgufMetadata& keys, ModelConfig* config) {
  for (const char* key : {"llama.block_count", "llama.embedding_length", "llama.feed_forward_length", "llama.attention.head_count"})
    keys.Require(key);
  config->name = keys.Text("general.name", "");
  config->num_layers = static_cast<int>(keys.Integer("llama.block_count", 0, 1, kMaxLayers));
  config->hidden_size = keys.Integer("llama.embedding_length", 0, 1, kMaxWidth);
  config->intermediate_size = keys.Integer("llama.feed_forward_length", 0, 1, kMaxWidth);
  config->num_heads = static_cast<int>(keys.Integer("llama.attention.head_count", 0, 1, kMaxHeads));
  config->num_kv_heads = static_cast<int>(keys.Integer("llama.attention.head_count_kv", config->num_heads, 1, kMaxHeads));
  config->max_context = keys.Integer("llama.context_length", 2048, 1, kMaxContext);
}

void ReadHeads(const GgufMetadata& keys, ModelConfig* config) {
  const int64_t heads = std::max(config->num_heads, 1);
  if (!keys.Has("llama.attention.key_length") && config->hidden_size % heads != 0) {
    keys.Fail("llama.embedding_length", fmt::format("a multiple of the {} heads, or llama.attention.key_length", heads),
              std::to_string(config->hidden_size));
  }
  config->head_dim = static_cast<int>(keys.Integer("llama.attention.key_length", config->hidden_size / heads, 1, kMaxHeadDim));
  const auto must_be_head_dim = [&](const char* key) {
    const int64_t value = keys.Integer(key, config->head_dim, 0, kMaxHeadDim);
    if (value != config->head_dim)
      keys.Fail(key, fmt::format("the head_dim {}", config->head_dim), std::to_string(value), ErrorCode::kUnsupported);
  };
  must_be_head_dim("llama.attention.value_length");
  must_be_head_dim("llama.rope.dimension_count");
}

// The embedding's rows are the vocabulary; its width must be that of the configuration.
Status ReadVocabulary(const GgufFile& file, ModelConfig* config) {
  const std::string& path = file.metadata.path();
  const RawTensor* embedding = FindTensor(file, "model.embed_tokens.weight");
  if (embedding == nullptr) return Err(ErrorCode::kInvalidFile, "{}: expected a tensor token_embd.weight, got none", path);
  const TensorView& view = embedding->view;
  if (view.rank != 2 || view.shape[1] != config->hidden_size) {
    return Err(ErrorCode::kInvalidFile, "{}: tensor token_embd.weight: expected [vocabulary, {}], got {}", path, config->hidden_size,
               view.ToString());
  }
  config->vocab_size = view.shape[0];
  const int64_t declared = file.metadata.Integer("llama.vocab_size", config->vocab_size, 1, kMaxVocabulary);
  HAAST_RETURN_IF_ERROR(file.metadata.status());
  if (declared == config->vocab_size) return {};
  return Err(ErrorCode::kInvalidFile, "{}: key llama.vocab_size: expected the {} rows of token_embd.weight, got {}", path,
             config->vocab_size, declared);
}

}  // namespace

Result<ModelConfig> ConfigOf(const GgufFile& file) {
  const GgufMetadata& keys = file.metadata;
  HAAST_RETURN_IF_ERROR(CheckServed(keys));
  ModelConfig config;
  config.architecture = "llama";
  ReadSizes(keys, &config);
  ReadHeads(keys, &config);
  config.rms_norm_eps = keys.Positive("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  config.rope_theta = keys.Positive("llama.rope.freq_base", 10000.0f);
  config.rope_interleaved = true;
  ReadRopeScaling(keys, &config.rope_scaling);
  HAAST_RETURN_IF_ERROR(keys.status());
  HAAST_RETURN_IF_ERROR(ReadVocabulary(file, &config));
  config.tied_embeddings = FindTensor(file, "lm_head.weight") == nullptr;
  config.attention_bias = FindTensor(file, "model.layers.0.self_attn.q_proj.bias") != nullptr;
  config.mlp_bias = FindTensor(file, "model.layers.0.mlp.up_proj.bias") != nullptr;
  HAAST_RETURN_IF_ERROR(CheckConfig(config, keys.path()));
  return config;
}

Result<GgufModel> Interpret(GgufFile* file) {
  for (RawTensor& tensor : file->tensors) tensor.name = TranslateName(tensor.name);
  GgufModel model;
  HAAST_ASSIGN_OR_RETURN(model.config, ConfigOf(*file));
  HAAST_ASSIGN_OR_RETURN(model.text, TextOf(*file));
  const int64_t tokens = static_cast<int64_t>(model.text.gguf.tokens.size());
  if (tokens <= model.config.vocab_size) return model;
  return Err(ErrorCode::kInvalidFile, "{}: key tokenizer.ggml.tokens: expected at most the {} rows of token_embd.weight, got {}",
             file->metadata.path(), model.config.vocab_size, tokens);
}

std::string TranslateName(const std::string& name) {
  static const std::map<std::string_view, std::string_view> kWhole = {
      {"token_embd", "model.embed_tokens"}, {"output_norm", "model.norm"}, {"output", "lm_head"}};
  static const std::map<std::string_view, std::string_view> kLayer = {
      {"attn_norm", "input_layernorm"}, {"attn_q", "self_attn.q_proj"},      {"attn_k", "self_attn.k_proj"},
      {"attn_v", "self_attn.v_proj"},   {"attn_output", "self_attn.o_proj"}, {"ffn_norm", "post_attention_layernorm"},
      {"ffn_gate", "mlp.gate_proj"},    {"ffn_up", "mlp.up_proj"},           {"ffn_down", "mlp.down_proj"}};
  const size_t last = name.rfind('.');
  if (last == std::string::npos) return name;
  const std::string_view stem = std::string_view(name).substr(0, last), suffix = std::string_view(name).substr(last);
  if (const auto found = kWhole.find(stem); found != kWhole.end()) return fmt::format("{}{}", found->second, suffix);
  constexpr std::string_view kBlock = "blk.";
  const size_t dot = stem.find('.', kBlock.size());
  if (!stem.starts_with(kBlock) || dot == std::string_view::npos) return name;
  const std::string_view layer = stem.substr(kBlock.size(), dot - kBlock.size());
  const auto found = kLayer.find(stem.substr(dot + 1));
  const bool number = !layer.empty() && std::all_of(layer.begin(), layer.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (found == kLayer.end() || !number) return name;
  return fmt::format("model.layers.{}.{}{}", layer, found->second, suffix);
}

}  // namespace haast::io
