#include "io/hf_config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/expect_error.h"

namespace haast::io {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kPath[] = "folder/config.json";

Json Llama() {
  return Json{{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"hidden_size", 576},
              {"intermediate_size", 1536},
              {"num_hidden_layers", 30},
              {"num_attention_heads", 9},
              {"num_key_value_heads", 3},
              {"vocab_size", 49152},
              {"max_position_embeddings", 8192},
              {"rope_theta", 100000.0},
              {"rms_norm_eps", 1e-05},
              {"tie_word_embeddings", true},
              {"hidden_act", "silu"},
              {"rope_scaling", nullptr}};
}

Json Head() {
  Json head = Llama();
  head["architectures"] = {"LlamaForCausalLMEagle3"};
  head["num_hidden_layers"] = 1;
  head["draft_vocab_size"] = 16384;
  head["tie_word_embeddings"] = false;
  return head;
}

Json Speculators() {
  Json layers = Llama();
  layers.erase("architectures");
  layers["num_hidden_layers"] = 1;
  return Json{{"architectures", {"Eagle3Speculator"}}, {"speculators_model_type", "eagle3"}, {"draft_vocab_size", 16384},
              {"norm_before_residual", true},          {"target_hidden_size", nullptr},      {"tie_word_embeddings", false},
              {"transformer_layer_config", layers}};
}

Result<ModelConfig> Parse(const Json& json) { return ParseHfConfig(json.dump(), kPath); }

Json With(Json json, const std::string& pointer, const Json& value) {
  json[Json::json_pointer(pointer)] = value;
  return json;
}

Json Without(Json json, const std::string& key) {
  json.erase(key);
  return json;
}

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
  Json json = Llama();
  for (const char* key :
       {"num_key_value_heads", "rope_theta", "max_position_embeddings", "rms_norm_eps", "tie_word_embeddings", "hidden_act"})
    json.erase(key);
  json["head_dim"] = nullptr;
  const auto config = Parse(json);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->num_kv_heads, 9);
  EXPECT_EQ(config->head_dim, 64);
  EXPECT_EQ(config->rope_theta, 10000.0f);
  EXPECT_EQ(config->max_context, 2048);
  EXPECT_EQ(config->rms_norm_eps, 1e-6f);
  EXPECT_FALSE(config->tied_embeddings);
}

TEST(HfConfig, HeadDimNeedNotFollowFromTheWidth) {
  const auto config = Parse(With(With(Llama(), "/head_dim", 128), "/attention_bias", true));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->head_dim, 128);
  EXPECT_TRUE(config->attention_bias);
}

TEST(HfConfig, RopeScalingOfLlama3InOldAndNewSpelling) {
  const Json scaling{{"rope_type", "llama3"},
                     {"factor", 32.0},
                     {"low_freq_factor", 1.0},
                     {"high_freq_factor", 4.0},
                     {"original_max_position_embeddings", 4096}};
  const auto old_form = Parse(With(Llama(), "/rope_scaling", scaling));
  const auto new_form =
      Parse(With(With(Without(Llama(), "rope_theta"), "/rope_parameters", scaling), "/rope_parameters/rope_theta", 500000));
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
  const auto linear = Parse(With(Llama(), "/rope_scaling", Json{{"type", "linear"}, {"factor", 2.0}}));
  ASSERT_TRUE(linear);
  EXPECT_EQ(linear->rope_scaling.kind, RopeScaling::Kind::kLinear);
}

struct RefusedCase {
  const char* what;
  Json json;
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

std::vector<RefusedCase> Refused() {
  const Json llama = Llama(), head = Head(), speculators = Speculators();
  return {
      {"other architecture",
       With(llama, "/architectures", {"Qwen2MoeForCausalLM"}),
       kUnsupported,
       {"LlamaForCausalLM", "LlamaForCausalLMEagle3", "Qwen2MoeForCausalLM"}},
      {"no architecture", Without(llama, "architectures"), kUnsupported, {"architectures"}},
      {"architectures a string", With(llama, "/architectures", "LlamaForCausalLM"), kInvalid, {"architectures", "list of strings"}},
      {"architectures numbers", With(llama, "/architectures", {1}), kInvalid, {"architectures", "holds 1"}},
      {"other speculator", With(speculators, "/speculators_model_type", "dflash"), kUnsupported, {"dflash"}},
      {"no hidden size", Without(llama, "hidden_size"), kInvalid, {"hidden_size", "no such key"}},
      {"hidden size null", With(llama, "/hidden_size", nullptr), kInvalid, {"hidden_size", "no such key"}},
      {"hidden size negative", With(llama, "/hidden_size", -576), kInvalid, {"hidden_size", "got -576"}},
      {"hidden size text", With(llama, "/hidden_size", "576"), kInvalid, {"hidden_size", "got \"576\""}},
      {"hidden size fraction", With(llama, "/hidden_size", 576.5), kInvalid, {"hidden_size", "576.5"}},
      {"hidden size huge", With(llama, "/hidden_size", 1e18), kInvalid, {"hidden_size"}},
      {"hidden size 2^64", With(llama, "/hidden_size", UINT64_MAX), kInvalid, {"hidden_size", "18446744073709551615"}},
      {"no layers", With(llama, "/num_hidden_layers", 0), kInvalid, {"num_hidden_layers", "got 0"}},
      {"no heads", With(llama, "/num_attention_heads", 0), kInvalid, {"num_attention_heads", "got 0"}},
      {"no kv heads", With(llama, "/num_key_value_heads", 0), kInvalid, {"num_key_value_heads", "got 0"}},
      {"kv heads no divisor", With(llama, "/num_key_value_heads", 2), kInvalid, {"multiple of the 2 kv heads", "got 9"}},
      {"hidden no multiple of heads",
       With(With(llama, "/num_attention_heads", 7), "/num_key_value_heads", 7),
       kInvalid,
       {"hidden_size", "multiple of the 7 heads", "got 576"}},
      {"head_dim odd", With(llama, "/head_dim", 63), kInvalid, {"head_dim", "even", "got 63"}},
      {"attention too wide",
       With(With(llama, "/head_dim", 4096), "/num_attention_heads", 4095),
       kInvalid,
       {"heads * head_dim", "4095 * 4096"}},
      {"vocabulary huge", With(llama, "/vocab_size", 1 << 30), kInvalid, {"vocab_size"}},
      {"context negative", With(llama, "/max_position_embeddings", -1), kInvalid, {"max_position_embeddings", "got -1"}},
      {"eps zero", With(llama, "/rms_norm_eps", 0), kInvalid, {"epsilon"}},
      {"eps negative", With(llama, "/rms_norm_eps", -1e-5), kInvalid, {"epsilon"}},
      {"theta negative", With(llama, "/rope_theta", -1), kInvalid, {"rope base", "-1"}},
      {"theta huge", With(llama, "/rope_theta", 1e300), kInvalid, {"rope base", "inf"}},
      {"theta list", With(llama, "/rope_theta", {1}), kInvalid, {"rope_theta", "a list"}},
      {"tied text", With(llama, "/tie_word_embeddings", "yes"), kInvalid, {"tie_word_embeddings", "true or false"}},
      {"activation", With(llama, "/hidden_act", "gelu"), kUnsupported, {"hidden_act", "silu", "gelu"}},
      {"quantised", With(llama, "/quantization_config", {{"quant_method", "fp8"}}), kUnsupported, {"quantization_config"}},
      {"partial rope", With(llama, "/partial_rotary_factor", 0.5), kUnsupported, {"partial_rotary_factor", "0.5"}},
      {"partial rope, new",
       With(llama, "/rope_parameters", {{"partial_rotary_factor", 0.5}}),
       kUnsupported,
       {"rope_parameters.partial_rotary_factor"}},
      {"yarn",
       With(llama, "/rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}}),
       kUnsupported,
       {"rope_scaling.rope_type", "llama3", "yarn"}},
      {"scaling without factor", With(llama, "/rope_scaling", {{"rope_type", "linear"}}), kInvalid, {"rope_scaling.factor", "no such key"}},
      {"factor zero", With(llama, "/rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}), kInvalid, {"scaling factor"}},
      {"llama3 without band",
       With(llama, "/rope_scaling", {{"rope_type", "llama3"}, {"factor", 8}}),
       kInvalid,
       {"rope_scaling.low_freq_factor"}},
      {"llama3 band empty",
       With(llama, "/rope_scaling",
            {{"rope_type", "llama3"},
             {"factor", 8},
             {"low_freq_factor", 4},
             {"high_freq_factor", 4},
             {"original_max_position_embeddings", 8192}}),
       kInvalid,
       {"low_freq_factor < high_freq_factor"}},
      {"scaling a list", With(llama, "/rope_scaling", Json::array()), kInvalid, {"rope_scaling", "an object"}},
      {"speculators without layers", Without(speculators, "transformer_layer_config"), kInvalid, {"transformer_layer_config"}},
      {"speculators without residual", Without(speculators, "norm_before_residual"), kInvalid, {"norm_before_residual"}},
      {"speculators of another layer",
       With(speculators, "/transformer_layer_config/model_type", "qwen3"),
       kUnsupported,
       {"transformer_layer_config.model_type", "qwen3"}},
      {"speculators with window",
       With(speculators, "/transformer_layer_config/layer_types", {"sliding_attention"}),
       kUnsupported,
       {"layer_types", "sliding_attention"}},
      {"draft vocabulary", With(head, "/draft_vocab_size", 0), kInvalid, {"draft_vocab_size", "got 0"}},
      {"taps negative", With(head, "/eagle_aux_hidden_state_layer_ids", {-1, 2, 3}), kInvalid, {"eagle_aux_hidden_state_layer_ids", "-1"}},
      {"taps text", With(head, "/eagle_aux_hidden_state_layer_ids", {"a"}), kInvalid, {"eagle_aux_hidden_state_layer_ids"}},
      {"taps and their count",
       With(With(head, "/eagle_aux_hidden_state_layer_ids", {1, 2}), "/num_aux_hidden_states", 3),
       kInvalid,
       {"3 of them", "2 (1, 2)"}},
      {"features of the last layer only",
       With(head, "/eagle_config", {{"use_aux_hidden_state", false}}),
       kUnsupported,
       {"eagle_config.use_aux_hidden_state"}},
      {"flags disagree",
       With(With(head, "/fc_norm", false), "/eagle_config", {{"fc_norm", true}}),
       kInvalid,
       {"fc_norm", "true as in eagle_config"}},
      {"flag a number", With(head, "/norm_output", 1), kInvalid, {"norm_output", "true or false"}},
  };
}
INSTANTIATE_TEST_SUITE_P(Cases, RefusedHfConfig, ::testing::ValuesIn(Refused()));

TEST(HfConfig, MalformedJson) {
  for (const char* text : {"", "{", "[]", "1", "{\"a\":}", "{\"a\":1}x", "\xff", "{\"hidden_size\": 99999999999999999999}", "NaN"}) {
    EXPECT_ERROR(ParseHfConfig(text, kPath), kInvalid, kPath, "JSON");
  }
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  EXPECT_ERROR(ParseHfConfig("{\"a\":" + deep + "}", kPath), kInvalid, "64 levels");
}

TEST(HfConfig, ALaterKeyOfTheSameNameCounts) {
  std::string text = Llama().dump();
  text.insert(text.size() - 1, ",\"num_hidden_layers\":12");
  const auto config = ParseHfConfig(text, kPath);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->num_layers, 12);
}

TEST(HfConfig, EagleHeadsUnderEveryName) {
  for (const char* name :
       {"LlamaForCausalLMEagle3", "Eagle3LlamaForCausalLM", "Eagle3DraftModel", "Eagle3Speculator", "LlamaForCausalLM"}) {
    const auto config = Parse(With(Head(), "/architectures", {name}));
    ASSERT_TRUE(config) << name << ": " << config.error().message;
    EXPECT_EQ(config->architecture, "eagle3");
    ASSERT_TRUE(config->eagle3) << name;
    EXPECT_EQ(config->eagle3->draft_vocab_size, 16384);
    EXPECT_EQ(config->eagle3->target_hidden_size, 576);
  }
}

TEST(HfConfig, SpeculatorsNestTheLayer) {
  const auto config = Parse(With(With(Speculators(), "/target_hidden_size", 2048), "/eagle_aux_hidden_state_layer_ids", {2, 15, 27}));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->hidden_size, 576);
  EXPECT_EQ(config->num_layers, 1);
  EXPECT_FALSE(config->tied_embeddings);
  EXPECT_EQ(config->eagle3->target_hidden_size, 2048);
  EXPECT_TRUE(config->eagle3->norm_before_residual);
  EXPECT_EQ(config->eagle3->tap_layers, (std::vector<int>{2, 15, 27}));
}

// The three readings of tapped layers: nested ids are layer outputs, a top-level list names the layers entered, and
// without either the default holds (empty here: it needs the target's depth).
TEST(HfConfig, TappedLayersHaveThreeReadings) {
  const Json nested = With(Head(), "/eagle_config", {{"eagle_aux_hidden_state_layer_ids", {1, 14, 26}}});
  const Json top = With(Head(), "/eagle_aux_hidden_state_layer_ids", {2, 15, 27});
  EXPECT_EQ(Parse(nested)->eagle3->tap_layers, (std::vector<int>{2, 15, 27}));
  EXPECT_EQ(Parse(top)->eagle3->tap_layers, (std::vector<int>{2, 15, 27}));
  EXPECT_TRUE(Parse(Head())->eagle3->tap_layers.empty());
  EXPECT_EQ(Parse(Head())->eagle3->num_aux_hidden_states, 3);
  EXPECT_TRUE(Parse(With(Head(), "/eagle_config", {{"eagle_aux_hidden_state_layer_ids", Json::array()}}))->eagle3->tap_layers.empty());
  // Both, and they mean the same layers.
  EXPECT_EQ(Parse(With(nested, "/eagle_aux_hidden_state_layer_ids", {2, 15, 27}))->eagle3->tap_layers, (std::vector<int>{2, 15, 27}));
  // Both, and they do not: equal numbers are different layers.
  EXPECT_ERROR(Parse(With(nested, "/eagle_aux_hidden_state_layer_ids", {1, 14, 26})), kInvalid, "[2, 15, 27]", "[1, 14, 26]");
}

TEST(HfConfig, AnyNumberOfTaps) {
  const auto config = Parse(With(Head(), "/eagle_config", {{"eagle_aux_hidden_state_layer_ids", {-1, 0, 1, 2, 29}}}));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->eagle3->num_aux_hidden_states, 5);
  EXPECT_EQ(config->eagle3->tap_layers, (std::vector<int>{0, 1, 2, 3, 30}));
}

TEST(HfConfig, FlagsAtEitherLevel) {
  for (const char* place : {"/", "/eagle_config/"}) {
    Json json = Head();
    for (const char* flag : {"fc_norm", "norm_before_fc", "norm_output", "norm_before_residual"})
      json = With(json, std::string(place) + flag, true);
    const auto config = Parse(json);
    ASSERT_TRUE(config) << config.error().message;
    EXPECT_TRUE(config->eagle3->fc_norm && config->eagle3->norm_before_fc && config->eagle3->norm_output &&
                config->eagle3->norm_before_residual);
  }
  const auto none = Parse(Head());
  EXPECT_FALSE(none->eagle3->fc_norm || none->eagle3->norm_before_fc || none->eagle3->norm_output || none->eagle3->norm_before_residual);
}

}  // namespace
}  // namespace haast::io
