#include "support/tiny_gguf.h"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "base/check.h"
#include "support/encode.h"
#include "support/tiny_text.h"

namespace haast::testing {
namespace {

uint32_t TypeNumber(DType dtype) {
  switch (dtype) {
    case DType::kF32: return kGgmlF32;
    case DType::kF16: return kGgmlF16;
    case DType::kBF16: return kGgmlBF16;
    case DType::kQ4_0: return kGgmlQ4_0;
    case DType::kQ4_1: return kGgmlQ4_1;
    case DType::kQ8_0: return kGgmlQ8_0;
    case DType::kQ4_K: return kGgmlQ4_K;
    case DType::kQ5_K: return kGgmlQ5_K;
    case DType::kQ6_K: return kGgmlQ6_K;
    default: HAAST_CHECK(false) << "no tensor type for " << Info(dtype).name; return 0;
  }
}

std::string GgufName(const std::string& name) {
  static const std::map<std::string, std::string> kParts = {
      {"input_layernorm", "attn_norm"}, {"self_attn.q_proj", "attn_q"},      {"self_attn.k_proj", "attn_k"},
      {"self_attn.v_proj", "attn_v"},   {"self_attn.o_proj", "attn_output"}, {"post_attention_layernorm", "ffn_norm"},
      {"mlp.gate_proj", "ffn_gate"},    {"mlp.up_proj", "ffn_up"},           {"mlp.down_proj", "ffn_down"}};
  if (name == "model.embed_tokens.weight") return "token_embd.weight";
  if (name == "model.norm.weight") return "output_norm.weight";
  if (name == "lm_head.weight") return "output.weight";
  const std::string rest = name.substr(std::string("model.layers.").size());  // "3.mlp.up_proj.weight"
  const size_t dot = rest.find('.'), last = rest.rfind('.');
  return "blk." + rest.substr(0, dot + 1) + kParts.at(rest.substr(dot + 1, last - dot - 1)) + rest.substr(last);
}

// Of each head, row i and row i + head_dim/2 become rows 2i and 2i + 1.
void Interleave(TinyTensor& tensor, int head_dim) {
  const int64_t width = tensor.shape.size() == 1 ? 1 : tensor.shape[1];
  const std::vector<float> from = tensor.values;
  for (int64_t row = 0; row < tensor.shape[0]; ++row) {
    const int64_t within = row % head_dim;
    const int64_t source = row - within + within / 2 + (within % 2) * (head_dim / 2);
    std::copy_n(from.begin() + source * width, width, tensor.values.begin() + row * width);
  }
}

// What each rope frequency is divided by: the scaling of Llama 3 with factor 8, low 1, high 4, original context 256.
std::vector<float> Llama3Factors(const TinyLlama& model) {
  constexpr double kFactor = 8, kLow = 1, kHigh = 4, kContext = 256;
  std::vector<float> factors;
  for (int i = 0; i < model.head_dim / 2; ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(static_cast<double>(model.rope_theta), 2.0 * i / model.head_dim);
    const double smooth = (kContext / wavelength - kLow) / (kHigh - kLow);
    const double factor = wavelength < kContext / kHigh  ? 1
                          : wavelength > kContext / kLow ? kFactor
                                                         : 1 / ((1 - smooth) / kFactor + smooth);
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

void AddSettings(GgufWriter& writer, const TinyLlama& model) {
  writer.String("general.architecture", "llama");
  writer.String("general.name", "tiny");
  writer.U32("llama.block_count", static_cast<uint32_t>(model.layers));
  writer.U32("llama.context_length", static_cast<uint32_t>(model.max_context));
  writer.U32("llama.embedding_length", static_cast<uint32_t>(model.hidden));
  writer.U32("llama.feed_forward_length", static_cast<uint32_t>(model.intermediate));
  writer.U32("llama.attention.head_count", static_cast<uint32_t>(model.heads));
  writer.U32("llama.attention.head_count_kv", static_cast<uint32_t>(model.kv_heads));
  writer.U32("llama.attention.key_length", static_cast<uint32_t>(model.head_dim));
  writer.U32("llama.attention.value_length", static_cast<uint32_t>(model.head_dim));
  writer.F32("llama.attention.layer_norm_rms_epsilon", model.rms_norm_eps);
  writer.F32("llama.rope.freq_base", model.rope_theta);
  writer.U32("llama.rope.dimension_count", static_cast<uint32_t>(model.head_dim));
  writer.U32("llama.vocab_size", static_cast<uint32_t>(model.vocab));
}

void AddVocabulary(GgufWriter& writer, const TinyLlama& model) {
  const TinyVocab vocab = MakeTinyVocab(model.vocab);
  writer.String("tokenizer.ggml.model", "gpt2");
  writer.String("tokenizer.ggml.pre", "smollm");
  writer.Strings("tokenizer.ggml.tokens", vocab.tokens);
  writer.Ints("tokenizer.ggml.token_type", vocab.types);
  writer.Strings("tokenizer.ggml.merges", vocab.merges);
  writer.U32("tokenizer.ggml.bos_token_id", static_cast<uint32_t>(vocab.bos));
  writer.U32("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(vocab.eos));
  writer.Bool("tokenizer.ggml.add_bos_token", false);
  writer.String("tokenizer.chat_template", vocab.chat_template);
}

GgufTensor Stored(const TinyTensor& tensor, const TinyLlama& model) {
  const bool vocabulary_rows = tensor.name == "model.embed_tokens.weight" || tensor.name == "lm_head.weight";
  const DType dtype = tensor.shape.size() == 1 ? DType::kF32 : vocabulary_rows ? model.embedding_dtype.value_or(model.dtype) : model.dtype;
  GgufTensor stored{GgufName(tensor.name), {tensor.shape.rbegin(), tensor.shape.rend()}, TypeNumber(dtype), Encode(tensor.values, dtype)};
  return stored;
}

std::vector<GgufTensor> StoredTensors(const TinyLlama& model) {
  std::vector<GgufTensor> stored;
  for (TinyTensor& tensor : MakeTinyLlama(model)) {
    if (tensor.name.find("q_proj") != std::string::npos || tensor.name.find("k_proj") != std::string::npos)
      Interleave(tensor, model.head_dim);
    stored.push_back(Stored(tensor, model));
  }
  if (model.llama3_rope) {
    stored.push_back(
        {"rope_freqs.weight", {static_cast<uint64_t>(model.head_dim) / 2}, kGgmlF32, Encode(Llama3Factors(model), DType::kF32)});
  }
  return stored;
}

}  // namespace

GgufWriter MakeTinyGguf(const TinyLlama& model) {
  GgufWriter writer;
  AddSettings(writer, model);
  if (model.vocabulary) AddVocabulary(writer, model);
  writer.tensors() = StoredTensors(model);
  return writer;
}

std::string WriteTinyGguf(const TinyLlama& model, const std::string& path) {
  if (model.shards == 1) {
    WriteFile(path, MakeTinyGguf(model).Bytes());
    return path;
  }
  std::vector<GgufTensor> tensors = StoredTensors(model);
  const size_t shards = static_cast<size_t>(model.shards), per_shard = (tensors.size() + shards - 1) / shards;
  const std::string stem = path.substr(0, path.rfind(".gguf"));
  std::string first;
  for (size_t shard = 0; shard < shards; ++shard) {
    GgufWriter writer;
    if (shard == 0) AddSettings(writer, model);
    if (shard == 0 && model.vocabulary) AddVocabulary(writer, model);
    writer.Raw("split.no", 2, LittleEndian(static_cast<uint16_t>(shard)));
    writer.Raw("split.count", 2, LittleEndian(static_cast<uint16_t>(shards)));
    writer.I32("split.tensors.count", static_cast<int32_t>(tensors.size()));
    for (size_t i = shard * per_shard; i < std::min((shard + 1) * per_shard, tensors.size()); ++i) writer.Tensor(std::move(tensors[i]));
    const std::string file = fmt::format("{}-{:05}-of-{:05}.gguf", stem, shard + 1, shards);
    if (shard == 0) first = file;
    WriteFile(file, writer.Bytes());
  }
  return first;
}

}  // namespace haast::testing
