#include "io/hf_config.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace haast::io {
namespace {

constexpr char kPath[] = "folder/config.json";

constexpr char kLayers[] =
    R"("model_type": "llama", "hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3,
  "vocab_size": 49152, "max_position_embeddings": 8192, "rope_theta": 100000.0, "rms_norm_eps": 1e-05, "hidden_act": "silu", "rope_scaling": null)";

// Configurations with members added; of equal keys the last one counts, and null is absence.
std::string Object(const std::string& members, const std::string& more) { return "{" + members + (more.empty() ? "" : ", " + more) + "}"; }

std::string Llama(const std::string& more = "") {
  return Object(std::string(kLayers) + R"(, "architectures": ["LlamaForCausalLM"], "num_hidden_layers": 30, "tie_word_embeddings": true)",
                more);
}

std::string Head(const std::string& more = "") {
  return Object(std::string(kLayers) + R"(, "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1, "draft_vocab_size": 16384,
    "tie_word_embeddings": false)",
                more);
}

std::string Speculators(const std::string& more = "", const std::string& more_of_layer = "") {
  return Object(
      R"("architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": 16384, "norm_before_residual": true,
    "target_hidden_size": null, "tie_word_embeddings": false, "transformer_layer_config": )" +
          Object(std::string(kLayers) + R"(, "num_hidden_layers": 1)", more_of_layer),
      more);
}

Result<ModelConfig> Parse(const std::string& json) { return ParseHfConfig(json, kPath); }

TEST(HfConfig, Llama) {
  const auto config = Parse(Llama());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->hidden_size, 576);
  EXPECT_EQ(config->intermediate_size, 1536);
  EXPECT_EQ(config->num_layers, 30);
  EXPECT_EQ(config->num_heads, 9);
  EXPECT_EQ(config->num_kv_heads, 3);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->vocab_size, 49152);
  EXPECT_EQ(config->max_context, 8192);
  EXPECT_EQ(config->rope_theta, 100000.0f);
  EXPECT_EQ(config->rms_norm_eps, 1e-5f);
  EXPECT_TRUE(config->tied_embeddings);
  EXPECT_FALSE(config->rope_interleaved);
  EXPECT_FALSE(config->attention_bias);
  EXPECT_FALSE(config->eagle3);
  EXPECT_EQ(config->rope_scaling.kind, RopeScaling::Kind::kNone);
}

// What transformers' LlamaConfig takes where a key is absent or null.
TEST(HfConfig, Defaults) {
  const auto config =
      Parse(R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
    "num_attention_heads": 9, "vocab_size": 49152, "head_dim": null})");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->num_kv_heads, 9);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->rope_theta, 10000.0f);
  EXPECT_EQ(config->max_context, 2048);
  EXPECT_EQ(config->rms_norm_eps, 1e-6f);
  EXPECT_FALSE(config->tied_embeddings);
}

TEST(HfConfig, HeadDimNeedNotFollowFromTheWidth) {
  const auto config = Parse(Llama(R"("head_dim": 128, "attention_bias": true)"));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->head_dim, 128);
  EXPECT_TRUE(config->attention_bias);
}

TEST(HfConfig, RopeScalingOfLlama3InOldAndNewSpelling) {
  const std::string scaling =
      R"("rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 4096)";
  const auto old_form = Parse(Llama(R"("rope_scaling": {)" + scaling + "}"));
  const auto new_form = Parse(Llama(R"("rope_theta": null, "rope_parameters": {"rope_theta": 500000, )" + scaling + "}"));
  ASSERT_TRUE(old_form) << old_form.error().message;
  ASSERT_TRUE(new_form) << new_form.error().message;
  EXPECT_EQ(old_form->rope_theta, 100000.0f);
  EXPECT_EQ(new_form->rope_theta, 500000.0f);
  for (const ModelConfig* config : {&*old_form, &*new_form}) {
    EXPECT_EQ(config->rope_scaling.kind, RopeScaling::Kind::kLlama3);
    EXPECT_EQ(config->rope_scaling.factor, 32.0f);
    EXPECT_EQ(config->rope_scaling.low_freq_factor, 1.0f);
    EXPECT_EQ(config->rope_scaling.high_freq_factor, 4.0f);
    EXPECT_EQ(config->rope_scaling.original_context, 4096);
  }
  const auto linear = Parse(Llama(R"("rope_scaling": {"type": "linear", "factor": 2.0})"));
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->rope_scaling.kind, RopeScaling::Kind::kLinear);
}

struct RefusedCase {
  const char* what;
  std::string json;
  ErrorCode code;
  std::vector<std::string> parts;
};

void PrintTo(const RefusedCase& test, std::ostream* out) { *out << test.what; }

class RefusedHfConfig : public ::testing::TestWithParam<RefusedCase> {};

TEST_P(RefusedHfConfig, IsNamed) {
  const auto result = Parse(GetParam().json);
  EXPECT_ERROR(result, GetParam().code, kPath);
  for (const std::string& part : GetParam().parts) EXPECT_ERROR(result, GetParam().code, part);
}

constexpr auto kInvalid = ErrorCode::kInvalidFile;
constexpr auto kUnsupported = ErrorCode::kUnsupported;

const RefusedCase kTargets[] = {
    {"other architecture",
     Llama(R"("architectures": ["Qwen2MoeForCausalLM"])"),
     kUnsupported,
     {"LlamaForCausalLM", "LlamaForCausalLMEagle3", "Qwen2MoeForCausalLM"}},
    {"no architecture", Llama(R"("architectures": null)"), kUnsupported, {"architectures"}},
    {"architectures a string", Llama(R"("architectures": "LlamaForCausalLM")"), kInvalid, {"architectures", "list of strings"}},
    {"architectures numbers", Llama(R"("architectures": [1])"), kInvalid, {"architectures", "holds 1"}},
    {"no hidden size", Llama(R"("hidden_size": null)"), kInvalid, {"hidden_size: expected a value, got null"}},
    {"hidden size negative", Llama(R"("hidden_size": -576)"), kInvalid, {"hidden_size", "got -576"}},
    {"hidden size text", Llama(R"("hidden_size": "576")"), kInvalid, {"hidden_size", "got \"576\""}},
    {"hidden size fraction", Llama(R"("hidden_size": 576.5)"), kInvalid, {"hidden_size", "576.5"}},
    {"hidden size huge", Llama(R"("hidden_size": 1e18)"), kInvalid, {"hidden_size"}},
    {"hidden size 2^64", Llama(R"("hidden_size": 18446744073709551615)"), kInvalid, {"hidden_size", "18446744073709551615"}},
    {"no layers", Llama(R"("num_hidden_layers": 0)"), kInvalid, {"num_hidden_layers", "got 0"}},
    {"no heads", Llama(R"("num_attention_heads": 0)"), kInvalid, {"num_attention_heads", "got 0"}},
    {"no kv heads", Llama(R"("num_key_value_heads": 0)"), kInvalid, {"num_key_value_heads", "got 0"}},
    {"kv heads no divisor", Llama(R"("num_key_value_heads": 2)"), kInvalid, {"multiple of the 2 kv heads", "got 9"}},
    {"hidden no multiple of heads",
     Llama(R"("num_attention_heads": 7, "num_key_value_heads": 7)"),
     kInvalid,
     {"hidden_size", "multiple of the 7 heads", "got 576"}},
    {"head_dim odd", Llama(R"("head_dim": 63)"), kInvalid, {"head_dim", "even", "got 63"}},
    {"attention too wide", Llama(R"("head_dim": 4096, "num_attention_heads": 4095)"), kInvalid, {"heads * head_dim", "4095 * 4096"}},
    {"vocabulary huge", Llama(R"("vocab_size": 1073741824)"), kInvalid, {"vocab_size"}},
    {"context negative", Llama(R"("max_position_embeddings": -1)"), kInvalid, {"max_position_embeddings", "got -1"}},
    {"eps zero", Llama(R"("rms_norm_eps": 0)"), kInvalid, {"rms_norm_eps", "above 0"}},
    {"eps negative", Llama(R"("rms_norm_eps": -1e-5)"), kInvalid, {"rms_norm_eps", "above 0"}},
    {"theta negative", Llama(R"("rope_theta": -1)"), kInvalid, {"rope_theta", "above 0 and at most 3.4e38", "got -1"}},
    {"theta zero", Llama(R"("rope_theta": 0)"), kInvalid, {"rope_theta", "got 0"}},
    {"theta huge", Llama(R"("rope_theta": 1e308)"), kInvalid, {"rope_theta", "at most 3.4e38", "got 1e"}},
    {"theta too small", Llama(R"("rope_theta": 1e-300)"), kInvalid, {"rope_theta", "above 0", "got 1e-300"}},
    {"theta negative and huge", Llama(R"("rope_parameters": {"rope_theta": -1e308})"), kInvalid, {"rope_parameters.rope_theta", "got -1e"}},
    {"eps of one", Llama(R"("rms_norm_eps": 1)"), kInvalid, {"epsilon", "got 1"}},
    {"window", Llama(R"("sliding_window": 4096)"), kUnsupported, {"sliding_window", "at least the context of 8192", "got 4096"}},
    {"long type", Llama(R"("layer_types": [")" + std::string(5000, 'x') + "\"]"), kUnsupported, {"layer_types", "xxx…"}},
    {"theta list", Llama(R"("rope_theta": [1])"), kInvalid, {"rope_theta", "a list"}},
    {"tied text", Llama(R"("tie_word_embeddings": "yes")"), kInvalid, {"tie_word_embeddings", "true or false"}},
    {"activation", Llama(R"("hidden_act": "gelu")"), kUnsupported, {"hidden_act", "silu", "gelu"}},
    {"quantised", Llama(R"("quantization_config": {"quant_method": "fp8"})"), kUnsupported, {"quantization_config"}},
    {"partial rope", Llama(R"("partial_rotary_factor": 0.5)"), kUnsupported, {"partial_rotary_factor", "0.5"}},
    {"partial rope, new",
     Llama(R"("rope_parameters": {"partial_rotary_factor": 0.5})"),
     kUnsupported,
     {"rope_parameters.partial_rotary_factor"}},
    {"yarn", Llama(R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0})"), kUnsupported, {"rope_scaling.rope_type", "llama3", "yarn"}},
    {"scaling without factor", Llama(R"("rope_scaling": {"rope_type": "linear"})"), kInvalid, {"rope_scaling.factor", "no such key"}},
    {"factor zero",
     Llama(R"("rope_scaling": {"rope_type": "linear", "factor": 0})"),
     kInvalid,
     {"rope_scaling.factor", "above 0", "got 0"}},
    {"llama3 without band", Llama(R"("rope_scaling": {"rope_type": "llama3", "factor": 8})"), kInvalid, {"rope_scaling.low_freq_factor"}},
    {"llama3 band empty",
     Llama(
         R"("rope_scaling": {"rope_type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4, "original_max_position_embeddings": 8192})"),
     kInvalid,
     {"low_freq_factor < high_freq_factor"}},
    {"scaling a list", Llama(R"("rope_scaling": [])"), kInvalid, {"rope_scaling", "an object"}},
};
INSTANTIATE_TEST_SUITE_P(Targets, RefusedHfConfig, ::testing::ValuesIn(kTargets));

const RefusedCase kHeads[] = {
    {"other speculator", Speculators(R"("speculators_model_type": "dflash")"), kUnsupported, {"dflash"}},
    {"speculators without layers", Speculators(R"("transformer_layer_config": null)"), kInvalid, {"transformer_layer_config"}},
    {"speculators without residual", Speculators(R"("norm_before_residual": null)"), kInvalid, {"norm_before_residual"}},
    {"speculators of another layer",
     Speculators("", R"("model_type": "qwen3")"),
     kUnsupported,
     {"transformer_layer_config.model_type", "qwen3"}},
    {"speculators with window",
     Speculators("", R"("layer_types": ["sliding_attention"])"),
     kUnsupported,
     {"layer_types", "sliding_attention"}},
    {"draft vocabulary", Head(R"("draft_vocab_size": 0)"), kInvalid, {"draft_vocab_size", "got 0"}},
    {"taps negative", Head(R"("eagle_aux_hidden_state_layer_ids": [-1, 2, 3])"), kInvalid, {"eagle_aux_hidden_state_layer_ids", "-1"}},
    {"taps text", Head(R"("eagle_aux_hidden_state_layer_ids": ["a"])"), kInvalid, {"eagle_aux_hidden_state_layer_ids"}},
    {"taps and their count",
     Head(R"("eagle_aux_hidden_state_layer_ids": [1, 2], "num_aux_hidden_states": 3)"),
     kInvalid,
     {"3 of them", "2 (1, 2)"}},
    {"features of the last layer only",
     Head(R"("eagle_config": {"use_aux_hidden_state": false})"),
     kUnsupported,
     {"eagle_config.use_aux_hidden_state"}},
    {"flags disagree", Head(R"("fc_norm": false, "eagle_config": {"fc_norm": true})"), kInvalid, {"fc_norm", "true as in eagle_config"}},
    {"flag a number", Head(R"("norm_output": 1)"), kInvalid, {"norm_output", "true or false"}},
};
INSTANTIATE_TEST_SUITE_P(Heads, RefusedHfConfig, ::testing::ValuesIn(kHeads));

TEST(HfConfig, MalformedJson) {
  for (const char* text : {"", "{", "[]", "1", "{\"a\":}", "{\"a\":1}x", "\xff", "{\"hidden_size\": 99999999999999999999}", "NaN"}) {
    EXPECT_ERROR(ParseHfConfig(text, kPath), kInvalid, kPath, "JSON");
  }
  EXPECT_ERROR(Parse(Llama(R"("rope_theta": Infinity)")), kInvalid, kPath, "JSON has no NaN and no Infinity");
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  EXPECT_ERROR(ParseHfConfig("{\"a\":" + deep + "}", kPath), kInvalid, "64 levels");
}

TEST(HfConfig, AByteOrderMarkIsSkipped) {
  const auto config = Parse("\xEF\xBB\xBF" + Llama());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->hidden_size, 576);
}

// A window that bites nowhere changes nothing.
TEST(HfConfig, WindowsOfTheWholeContextAreFullAttention) {
  for (const char* window : {R"("sliding_window": null)", R"("sliding_window": 8192)",
                             R"("sliding_window": 512, "use_sliding_window": false)", R"("use_sliding_window": true)"}) {
    EXPECT_TRUE(Parse(Llama(window))) << window;
  }
}

TEST(HfConfig, ALaterKeyOfTheSameNameCounts) {
  const auto config = Parse(Llama(R"("num_hidden_layers": 12)"));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->num_layers, 12);
}

TEST(HfConfig, EagleHeadsUnderEveryName) {
  for (const std::string name :
       {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3DraftModel", "Eagle3Speculator", "LlamaForCausalLM"}) {
    const auto config = Parse(Head(R"("architectures": [")" + name + "\"]"));
    ASSERT_TRUE(config) << name << ": " << config.error().message;
    EXPECT_EQ(config->architecture, "eagle3");
    ASSERT_TRUE(config->eagle3) << name;
    EXPECT_EQ(config->eagle3->draft_vocab_size, 16384);
    EXPECT_EQ(config->eagle3->target_hidden_size, 576);
  }
}

TEST(HfConfig, SpeculatorsNestTheLayer) {
  const auto config = Parse(Speculators(R"("target_hidden_size": 2048, "eagle_aux_hidden_state_layer_ids": [2, 15, 27])"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->hidden_size, 576);
  EXPECT_EQ(config->num_layers, 1);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_EQ(config->eagle3->target_hidden_size, 2048);
  EXPECT_TRUE(config->eagle3->norm_before_residual);
  EXPECT_EQ(config->eagle3->tap_layers, (std::vector<int>{2, 15, 27}));
}

std::vector<int> Taps(const std::string& members) {
  const auto config = Parse(Head(members));
  EXPECT_TRUE(config) << config.error().message;
  return config ? config->eagle3->tap_layers : std::vector<int>{};
}

// The three readings of tapped layers: nested ids are layer outputs, a top-level list names the layers entered, and
// without either the default holds (empty here: it needs the target's depth).
TEST(HfConfig, TappedLayersHaveThreeReadings) {
  const std::string nested = R"("eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 14, 26]})";
  const std::vector<int> entered = {2, 15, 27};
  EXPECT_EQ(Taps(nested), entered);
  EXPECT_EQ(Taps(R"("eagle_aux_hidden_state_layer_ids": [2, 15, 27])"), entered);
  EXPECT_TRUE(Taps("").empty());
  EXPECT_EQ(Parse(Head())->eagle3->num_aux_hidden_states, 3);
  EXPECT_TRUE(Taps(R"("eagle_config": {"eagle_aux_hidden_state_layer_ids": []})").empty());
  // Both, and they mean the same layers.
  EXPECT_EQ(Taps(nested + R"(, "eagle_aux_hidden_state_layer_ids": [2, 15, 27])"), entered);
  // Both, and they do not: equal numbers are different layers.
  EXPECT_ERROR(Parse(Head(nested + R"(, "eagle_aux_hidden_state_layer_ids": [1, 14, 26])")), kInvalid, "[2, 15, 27]", "[1, 14, 26]");
}

TEST(HfConfig, AnyNumberOfTaps) {
  const auto config = Parse(Head(R"("eagle_config": {"eagle_aux_hidden_state_layer_ids": [-1, 0, 1, 2, 29]})"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->eagle3->num_aux_hidden_states, 5);
  EXPECT_EQ(config->eagle3->tap_layers, (std::vector<int>{0, 1, 2, 3, 30}));
}

TEST(HfConfig, FlagsAtEitherLevel) {
  const std::string flags = R"("fc_norm": true, "norm_before_fc": true, "norm_output": true, "norm_before_residual": true)";
  for (const std::string& members : {flags, R"("eagle_config": {)" + flags + "}"}) {
    const auto config = Parse(Head(members));
    ASSERT_TRUE(config) << config.error().message;
    const Eagle3Config& head = *config->eagle3;
    EXPECT_TRUE(head.fc_norm && head.norm_before_fc && head.norm_output && head.norm_before_residual);
  }
  const auto none = Parse(Head());
  EXPECT_FALSE(none->eagle3->fc_norm || none->eagle3->norm_before_fc || none->eagle3->norm_output || none->eagle3->norm_before_residual);
}

}  // namespace
}  // namespace haast::io
