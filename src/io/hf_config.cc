#include "io/hf_config.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/printable.h"
#include "io/config_check.h"

namespace haast::io {
namespace {

constexpr char kServed[] =
    "LlamaForCausalLM, or an EAGLE-3 head (LlamaForCausalLMEagle3, Eagle3LlamaForCausalLM, Eagle3Speculator, Eagle3DraftModel)";

constexpr int64_t kDefaultContext = 2048;  // transformers' own

enum class Kind { kTarget, kHead, kSpeculators, kOther };

// Projects name their heads differently, and some call them by the target's architecture.
Kind KindOf(const JsonObject& root, const std::string& architecture) {
  const std::string speculators = root.Text("speculators_model_type", "");
  if (!speculators.empty()) return speculators == "eagle3" ? Kind::kSpeculators : Kind::kOther;
  constexpr std::array<std::string_view, 4> kHeads = {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3Speculator",
                                                      "Eagle3DraftModel"};
  if (std::find(kHeads.begin(), kHeads.end(), architecture) != kHeads.end()) {
    return root.Has("transformer_layer_config") ? Kind::kSpeculators : Kind::kHead;
  }
  if (architecture == "LlamaForCausalLMEagle") return Kind::kTarget;  // an EAGLE-1 head: the config of one more layer
  if (architecture != "LlamaForCausalLM") return Kind::kOther;
  return root.Has("draft_vocab_size") || root.Has("eagle_config") ? Kind::kHead : Kind::kTarget;
}

// A window that no sequence can outgrow, or that the config itself turns off, is full attention.
void CheckWindow(const JsonObject& layers) {
  const bool used = layers.Boolean("use_sliding_window", true);
  const int64_t window = layers.Integer("sliding_window", 0, 0, kMaxContext);
  const int64_t context = layers.Integer("max_position_embeddings", kDefaultContext, 1, kMaxContext);
  if (!used || window == 0 || window >= context) return;
  layers.Fail("sliding_window", fmt::format("null, or at least the context of {}: only full attention is served", context),
              std::to_string(window), ErrorCode::kUnsupported);
}

// Settings of the layers that change the mathematics: present with another value than the one served is a refusal.
void RefuseUnserved(const JsonObject& layers) {
  const auto refuse = [&](const char* key, const std::string& expected) {
    layers.Fail(key, expected, Describe(*layers.Find(key)), ErrorCode::kUnsupported);
  };
  if (const std::string act = layers.Text("hidden_act", "silu"); act != "silu" && act != "swish") refuse("hidden_act", "silu");
  if (const std::string type = layers.Text("model_type", "llama"); type != "llama") refuse("model_type", "llama");
  if (layers.Has("quantization_config")) refuse("quantization_config", "none (a folder of F32, F16 or BF16; quantise it into a GGUF)");
  if (layers.Number("partial_rotary_factor", 1.0) != 1.0) refuse("partial_rotary_factor", "1");
  if (layers.Number("logit_scale", 1.0) != 1.0) refuse("logit_scale", "1");
  CheckWindow(layers);
  for (const std::string& type : layers.Texts("layer_types")) {
    if (type != "full_attention") layers.Fail("layer_types", "full_attention only", base::Label(type), ErrorCode::kUnsupported);
  }
}

// New transformers keep everything in rope_parameters, older ones the base beside rope_scaling, whose type was once "type".
void ReadRope(const JsonObject& layers, ModelConfig* config) {
  config->rope_theta = layers.Positive("rope_theta", 10000.0f);
  const bool parameters = layers.Has("rope_parameters");
  const auto rope = layers.Object(parameters ? "rope_parameters" : "rope_scaling");
  if (!rope) return;
  config->rope_theta = rope->Positive("rope_theta", config->rope_theta);
  if (rope->Number("partial_rotary_factor", 1.0) != 1.0) {
    rope->Fail("partial_rotary_factor", "1", Describe(*rope->Find("partial_rotary_factor")), ErrorCode::kUnsupported);
  }
  const std::string type = rope->Text("rope_type", rope->Text("type", "default"));
  if (type == "default") return;
  RopeScaling& scaling = config->rope_scaling;
  rope->Require("factor");
  scaling.factor = rope->Positive("factor", 1.0f);
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::kLinear;
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::kLlama3;
    for (const char* key : {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) rope->Require(key);
    scaling.low_freq_factor = rope->Positive("low_freq_factor", 1.0f);
    scaling.high_freq_factor = rope->Positive("high_freq_factor", 4.0f);
    scaling.original_context = rope->Integer("original_max_position_embeddings", 8192, 1, kMaxContext);
  } else {
    rope->Fail("rope_type", "default, linear or llama3", fmt::format("\"{}\"", base::Label(type)), ErrorCode::kUnsupported);
  }
}

void ReadSizes(const JsonObject& layers, ModelConfig* config) {
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"})
    layers.Require(key);
  config->hidden_size = layers.Integer("hidden_size", 0, 1, kMaxWidth);
  config->intermediate_size = layers.Integer("intermediate_size", 0, 1, kMaxWidth);
  config->num_layers = static_cast<int>(layers.Integer("num_hidden_layers", 0, 1, kMaxLayers));
  config->num_heads = static_cast<int>(layers.Integer("num_attention_heads", 0, 1, kMaxHeads));
  config->num_kv_heads = static_cast<int>(layers.Integer("num_key_value_heads", config->num_heads, 1, kMaxHeads));
  config->vocab_size = layers.Integer("vocab_size", 0, 1, kMaxVocabulary);
  config->max_context = layers.Integer("max_position_embeddings", kDefaultContext, 1, kMaxContext);
  const int64_t heads = std::max(config->num_heads, 1);
  if (!layers.Has("head_dim") && config->hidden_size % heads != 0) {
    layers.Fail("hidden_size", fmt::format("a multiple of the {} heads, or a head_dim", heads), std::to_string(config->hidden_size));
  }
  config->head_dim = static_cast<int>(layers.Integer("head_dim", config->hidden_size / heads, 1, kMaxHeadDim));
}

// The layers' settings, which speculators nest in transformer_layer_config.
void ReadLayers(const JsonObject& layers, ModelConfig* config) {
  RefuseUnserved(layers);
  ReadSizes(layers, config);
  ReadRope(layers, config);
  config->rms_norm_eps = layers.Positive("rms_norm_eps", 1e-6f);
  config->attention_bias = layers.Boolean("attention_bias", false) || layers.Boolean("qkv_bias", false);
  config->mlp_bias = layers.Boolean("mlp_bias", false);
}

void ReadSpeculators(const JsonObject& root, ModelConfig* config) {
  root.Require("transformer_layer_config");
  const auto layers = root.Object("transformer_layer_config");
  if (!layers) return;
  ReadLayers(*layers, config);
  // Readers of this format disagree about what its absence means.
  root.Require("norm_before_residual");
}

}  // namespace

Result<ModelConfig> ParseHfConfig(std::string_view json, const std::string& path) {
  HAAST_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(json, path));
  const JsonObject root = document.root();
  const std::vector<std::string> architectures = root.Texts("architectures");
  const std::string architecture = architectures.empty() ? "" : architectures.front();
  const Kind kind = KindOf(root, architecture);
  HAAST_RETURN_IF_ERROR(root.status());
  if (kind == Kind::kOther) {
    return Err(ErrorCode::kUnsupported, "{}: architectures: expected {}, got \"{}\" {}", path, kServed, base::Label(architecture),
               base::Label(root.Text("speculators_model_type", "")));
  }
  ModelConfig config;
  config.architecture = kind == Kind::kTarget ? "llama" : "eagle3";
  if (kind == Kind::kSpeculators) {
    ReadSpeculators(root, &config);
  } else {
    ReadLayers(root, &config);
  }
  config.tied_embeddings = root.Boolean("tie_word_embeddings", false);
  if (kind != Kind::kTarget) config.eagle3 = ReadEagle3(root, config.hidden_size);
  HAAST_RETURN_IF_ERROR(root.status());
  HAAST_RETURN_IF_ERROR(CheckConfig(config, path));
  return config;
}

}  // namespace haast::io
