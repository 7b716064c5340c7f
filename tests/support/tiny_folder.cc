// Tiny models as Hugging Face folders: a Llama, and EAGLE-3 heads in three spellings.
#include <fmt/format.h>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "support/encode.h"
#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"
#include "support/tiny_models.h"
#include "support/tiny_text.h"

namespace haast::testing {
namespace {

using Json = nlohmann::ordered_json;

SafeTensor Stored(const TinyTensor& tensor, DType dtype) {
  return {tensor.name, Info(dtype).name, tensor.shape, Encode(tensor.values, dtype)};
}

const char* TorchName(DType dtype) { return dtype == DType::kF32 ? "float32" : dtype == DType::kF16 ? "float16" : "bfloat16"; }

Json RopeScaling(const TinyLlama& model) {
  if (!model.llama3_rope) return nullptr;
  return Json{{"rope_type", "llama3"},
              {"factor", 8.0},
              {"low_freq_factor", 1.0},
              {"high_freq_factor", 4.0},
              {"original_max_position_embeddings", 256}};
}

Json LlamaConfig(const TinyLlama& model) {
  Json config{{"architectures", {"LlamaForCausalLM"}},
              {"model_type", "llama"},
              {"hidden_size", model.hidden},
              {"intermediate_size", model.intermediate},
              {"num_hidden_layers", model.layers},
              {"num_attention_heads", model.heads},
              {"num_key_value_heads", model.kv_heads},
              {"head_dim", model.head_dim},
              {"vocab_size", model.vocab},
              {"max_position_embeddings", model.max_context},
              {"rms_norm_eps", model.rms_norm_eps},
              {"rope_theta", model.rope_theta},
              {"rope_scaling", RopeScaling(model)},
              {"hidden_act", "silu"},
              {"attention_bias", model.attention_bias},
              {"mlp_bias", model.mlp_bias},
              {"tie_word_embeddings", model.tied},
              {"torch_dtype", TorchName(model.dtype)}};
  if (model.vocabulary) {
    const TinyVocab vocab = MakeTinyVocab(model.vocab);
    config["bos_token_id"] = vocab.bos;
    config["eos_token_id"] = vocab.eos;
  }
  return config;
}

void WriteShards(const std::vector<SafeTensor>& tensors, size_t shards, const std::string& folder) {
  if (shards == 1) return WriteFile(folder + "/model.safetensors", SafetensorsBytes(tensors));
  const size_t per_shard = (tensors.size() + shards - 1) / shards;
  Json map = Json::object();
  size_t total = 0;
  for (size_t shard = 0; shard < shards; ++shard) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", shard + 1, shards);
    std::vector<SafeTensor> part(tensors.begin() + static_cast<int64_t>(std::min(shard * per_shard, tensors.size())),
                                 tensors.begin() + static_cast<int64_t>(std::min((shard + 1) * per_shard, tensors.size())));
    for (const SafeTensor& tensor : part) {
      map[tensor.name] = name;
      total += tensor.data.size();
    }
    WriteFile(folder + "/" + name, SafetensorsBytes(part));
  }
  WriteFile(folder + "/model.safetensors.index.json", Json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(1));
}

// hidden, heads and the rest of the layer; what it shares with its target comes from there.
Json HeadLayerConfig(const TinyEagle3& head) {
  Json config = LlamaConfig(head.target);
  config["hidden_size"] = head.hidden;
  config["intermediate_size"] = head.intermediate;
  config["num_hidden_layers"] = 1;
  config["num_attention_heads"] = head.heads;
  config["num_key_value_heads"] = head.kv_heads;
  config["head_dim"] = head.head_dim;
  config["attention_bias"] = false;
  config["mlp_bias"] = false;
  config["tie_word_embeddings"] = false;
  config["torch_dtype"] = TorchName(head.dtype);
  return config;
}

void AddFlags(Json& config, const TinyEagle3& head) {
  if (head.fc_norm) config["fc_norm"] = true;
  if (head.norm_before_fc) config["norm_before_fc"] = true;
  if (head.norm_output) config["norm_output"] = true;
  if (head.norm_before_residual) config["norm_before_residual"] = true;
}

Json SpeculatorsConfig(const TinyEagle3& head) {
  Json layer = HeadLayerConfig(head);
  for (const char* key : {"architectures", "bos_token_id", "eos_token_id", "torch_dtype"}) layer.erase(key);
  Json config{
      {"architectures", {"Eagle3Speculator"}},
      {"speculators_model_type", "eagle3"},
      {"model_type", "speculators"},
      {"draft_vocab_size", nullptr},
      {"target_hidden_size", nullptr},
      {"eagle_aux_hidden_state_layer_ids", TinyTaps(head)},
      {"norm_before_residual", head.norm_before_residual},
      {"tie_word_embeddings", false},
      {"transformer_layer_config", layer},
      {"speculators_config", {{"algorithm", "eagle3"}, {"default_proposal_method", "greedy"}, {"verifier", {{"name_or_path", "tiny"}}}}}};
  if (head.draft_vocab > 0) config["draft_vocab_size"] = head.draft_vocab;
  if (head.hidden != head.target.hidden) config["target_hidden_size"] = head.target.hidden;
  AddFlags(config, head);
  return config;
}

Json MidlayerConfig(const TinyEagle3& head) {
  Json config = HeadLayerConfig(head);
  config["architectures"] = {"LlamaForCausalLMEagle3"};
  config["target_hidden_size"] = head.target.hidden;
  if (head.draft_vocab > 0) config["draft_vocab_size"] = head.draft_vocab;
  AddFlags(config, head);
  const std::vector<int> taps = TinyTaps(head);
  const int n = head.target.layers;
  if (taps.size() != 3) config["num_aux_hidden_states"] = taps.size();
  if (head.spelling == HeadSpelling::kSpecForge) {
    std::vector<int> outputs = taps;
    for (int& tap : outputs) --tap;
    config["eagle_config"] = {{"use_aux_hidden_state", true}, {"eagle_aux_hidden_state_layer_ids", outputs}};
  } else if (taps != std::vector<int>{2, n / 2, n - 3}) {
    config["eagle_aux_hidden_state_layer_ids"] = taps;
  }
  return config;
}

// d2t as offsets, t2d as a mask of the target ids that the head can draft.
void AddVocabularyMaps(std::vector<SafeTensor>& tensors, const TinyEagle3& head) {
  const std::vector<int64_t> ids = TinyDraftToTarget(head);
  SafeTensor d2t{"d2t", "I64", {head.draft_vocab}, {}};
  SafeTensor t2d{"t2d", "BOOL", {head.target.vocab}, std::string(static_cast<size_t>(head.target.vocab), '\0')};
  for (size_t i = 0; i < ids.size(); ++i) {
    d2t.data += LittleEndian<int64_t>(ids[i] - static_cast<int64_t>(i));
    t2d.data[static_cast<size_t>(ids[i])] = '\1';
  }
  tensors.push_back(std::move(d2t));
  tensors.push_back(std::move(t2d));
}

}  // namespace

std::string WriteTinyFolder(const TinyLlama& model, const std::string& folder) {
  HAAST_CHECK(IsFloat(model.dtype) && IsFloat(model.embedding_dtype.value_or(model.dtype))) << "a folder holds no block formats";
  std::filesystem::create_directories(folder);
  WriteFile(folder + "/config.json", LlamaConfig(model).dump(1));
  if (model.vocabulary) {
    const TinyVocab vocab = MakeTinyVocab(model.vocab);
    WriteFile(folder + "/tokenizer.json", TinyTokenizerJson(vocab));
    WriteFile(folder + "/tokenizer_config.json", TinyTokenizerConfigJson(vocab));
  }
  std::vector<SafeTensor> tensors;
  for (const TinyTensor& tensor : MakeTinyLlama(model)) {
    const bool vocabulary_rows = tensor.name == "model.embed_tokens.weight" || tensor.name == "lm_head.weight";
    tensors.push_back(Stored(tensor, vocabulary_rows ? model.embedding_dtype.value_or(model.dtype) : model.dtype));
  }
  WriteShards(tensors, static_cast<size_t>(model.shards), folder);
  return folder;
}

std::string WriteTinyEagle3(const TinyEagle3& head, const std::string& folder) {
  HAAST_CHECK(IsFloat(head.dtype)) << "a head holds no block formats";
  std::filesystem::create_directories(folder);
  const bool nested = head.spelling == HeadSpelling::kSpeculators;
  WriteFile(folder + "/config.json", (nested ? SpeculatorsConfig(head) : MidlayerConfig(head)).dump(1));
  std::vector<SafeTensor> tensors;
  for (const TinyTensor& tensor : MakeTinyEagle3(head)) tensors.push_back(Stored(tensor, head.dtype));
  if (head.draft_vocab > 0) AddVocabularyMaps(tensors, head);
  WriteShards(tensors, 1, folder);
  return folder;
}

std::string WriteTinyEagle1(const TinyLlama& target, int layers, bool echo, const std::string& folder) {
  std::filesystem::create_directories(folder);
  Json config = LlamaConfig(target);
  config["num_hidden_layers"] = layers;
  config["bias"] = true;
  WriteFile(folder + "/config.json", config.dump(1));
  std::vector<SafeTensor> tensors;
  for (const TinyTensor& tensor : MakeTinyEagle1(target, layers, echo)) tensors.push_back(Stored(tensor, DType::kF32));
  WriteShards(tensors, 1, folder);
  return folder;
}

}  // namespace haast::testing
