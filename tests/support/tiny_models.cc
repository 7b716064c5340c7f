#include "support/tiny_models.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/check.h"
#include "support/random.h"

namespace haast::testing {

TinyLlama SmallestLlama() {
  TinyLlama model;
  model.layers = 1;
  model.hidden = model.intermediate = 8;
  model.heads = 2;
  model.kv_heads = 1;
  model.head_dim = 4;
  model.vocab = 16;
  model.tied = true;
  return model;
}

TempDir::TempDir() {
  std::string name = (std::filesystem::temp_directory_path() / "haast-test-XXXXXX").string();
  HAAST_CHECK(mkdtemp(name.data()) != nullptr) << "cannot make " << name;
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

namespace {

// Adds tensors one by one; each draws from a stream of its own, keyed by seed and name, so that none depends on the others.
class Maker {
 public:
  explicit Maker(uint64_t seed) : seed_(seed) {}

  // [rows, cols] with outputs of about the size of the inputs times `scale`.
  void Matrix(const std::string& name, int64_t rows, int64_t cols, float scale = 1.0f) {
    Uniform(name, {rows, cols}, 0.0f, scale * std::sqrt(3.0f / static_cast<float>(cols)));
  }
  void Norm(const std::string& name, int64_t size) { Uniform(name, {size}, 1.0f, 0.1f); }
  void Bias(const std::string& name, int64_t size) { Uniform(name, {size}, 0.0f, 0.1f); }
  void Uniform(const std::string& name, std::vector<int64_t> shape, float centre, float radius) {
    int64_t count = 1;
    for (int64_t dim : shape) count *= dim;
    Random random(seed_, name);
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = centre + radius * random.Symmetric();
    tensors_.push_back({name, std::move(shape), std::move(values)});
  }
  void Add(TinyTensor tensor) { tensors_.push_back(std::move(tensor)); }
  std::vector<TinyTensor> Take() { return std::move(tensors_); }

 private:
  uint64_t seed_;
  std::vector<TinyTensor> tensors_;
};

struct LayerShape {
  int64_t hidden, inputs, intermediate, heads, kv_heads, head_dim;
  float scale;
};

void AddLayer(Maker& make, const std::string& prefix, const LayerShape& s) {
  make.Matrix(prefix + "self_attn.q_proj.weight", s.heads * s.head_dim, s.inputs);
  make.Matrix(prefix + "self_attn.k_proj.weight", s.kv_heads * s.head_dim, s.inputs);
  make.Matrix(prefix + "self_attn.v_proj.weight", s.kv_heads * s.head_dim, s.inputs);
  make.Matrix(prefix + "self_attn.o_proj.weight", s.hidden, s.heads * s.head_dim, s.scale);
  make.Matrix(prefix + "mlp.gate_proj.weight", s.intermediate, s.hidden);
  make.Matrix(prefix + "mlp.up_proj.weight", s.intermediate, s.hidden);
  make.Matrix(prefix + "mlp.down_proj.weight", s.hidden, s.intermediate, s.scale);
  make.Norm(prefix + "input_layernorm.weight", s.hidden);
  make.Norm(prefix + "post_attention_layernorm.weight", s.hidden);
}

const TinyTensor& Named(const std::vector<TinyTensor>& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const TinyTensor& tensor) { return tensor.name == name; });
  HAAST_CHECK(found != tensors.end()) << "no tensor " << name;
  return *found;
}

// [hidden, taps * target_hidden]: takes the last tap as it is.
TinyTensor LastTap(int64_t hidden, int64_t taps) {
  TinyTensor fc{"fc.weight", {hidden, taps * hidden}, std::vector<float>(static_cast<size_t>(hidden * taps * hidden))};
  for (int64_t i = 0; i < hidden; ++i) fc.values[static_cast<size_t>(i * taps * hidden + (taps - 1) * hidden + i)] = 1.0f;
  return fc;
}

// The final norm and the output rows of the target, for the head that repeats.
void AddEchoOutput(Maker& make, const TinyEagle3& head) {
  const std::vector<TinyTensor> target = MakeTinyLlama(head.target);
  make.Add({"norm.weight", {head.hidden}, Named(target, "model.norm.weight").values});
  const std::vector<int64_t> ids = TinyDraftToTarget(head);
  if (ids.empty()) return;
  const TinyTensor& rows = Named(target, head.target.tied ? "model.embed_tokens.weight" : "lm_head.weight");
  TinyTensor lm_head{"lm_head.weight", {head.draft_vocab, head.hidden}, {}};
  for (int64_t id : ids)
    lm_head.values.insert(lm_head.values.end(), rows.values.begin() + id * head.hidden, rows.values.begin() + (id + 1) * head.hidden);
  make.Add(std::move(lm_head));
}

void AddHeadNorms(Maker& make, const TinyEagle3& head, int64_t taps) {
  for (int64_t tap = 0; head.fc_norm && tap < taps; ++tap) make.Norm(fmt::format("fc_norm.{}.weight", tap), head.target.hidden);
  if (head.norm_before_fc) make.Norm("input_norm.weight", taps * head.target.hidden);
}

}  // namespace

std::vector<TinyTensor> MakeTinyLlama(const TinyLlama& model) {
  HAAST_CHECK(model.heads % model.kv_heads == 0 && model.head_dim % 2 == 0) << model.heads << " heads, " << model.kv_heads << " kv heads";
  Maker make(model.seed);
  make.Uniform("model.embed_tokens.weight", {model.vocab, model.hidden}, 0.0f, 1.0f);
  for (int layer = 0; layer < model.layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    AddLayer(make, prefix,
             {model.hidden, model.hidden, model.intermediate, model.heads, model.kv_heads, model.head_dim, model.layer_scale});
    if (model.attention_bias) {
      make.Bias(prefix + "self_attn.q_proj.bias", model.heads * model.head_dim);
      make.Bias(prefix + "self_attn.k_proj.bias", model.kv_heads * model.head_dim);
      make.Bias(prefix + "self_attn.v_proj.bias", model.kv_heads * model.head_dim);
    }
    if (model.output_bias) make.Bias(prefix + "self_attn.o_proj.bias", model.hidden);
    if (model.mlp_bias) {
      make.Bias(prefix + "mlp.gate_proj.bias", model.intermediate);
      make.Bias(prefix + "mlp.up_proj.bias", model.intermediate);
      make.Bias(prefix + "mlp.down_proj.bias", model.hidden);
    }
  }
  make.Norm("model.norm.weight", model.hidden);
  if (!model.tied) make.Matrix("lm_head.weight", model.vocab, model.hidden, 4.0f);
  return make.Take();
}

std::vector<int64_t> TinyDraftToTarget(const TinyEagle3& head) {
  HAAST_CHECK(head.draft_vocab <= head.target.vocab) << head.draft_vocab << " of " << head.target.vocab << " ids";
  std::vector<int64_t> ids;
  for (int64_t id = 0; id < head.draft_vocab; ++id) ids.push_back(id * head.target.vocab / head.draft_vocab);
  return ids;
}

std::vector<TinyTensor> MakeTinyEagle3(const TinyEagle3& head) {
  const bool own_width = head.hidden != head.target.hidden;
  HAAST_CHECK(!own_width || (head.own_embeddings && head.draft_vocab > 0 && !head.echo))
      << "a head of another width shares nothing with its target";
  const std::vector<int> taps = TinyTaps(head);
  HAAST_CHECK(!head.echo || taps.back() == head.target.layers) << "an echo head taps the last layer's output";
  const int64_t count = static_cast<int64_t>(taps.size());
  Maker make(head.seed);
  const std::string prefix = head.spelling == HeadSpelling::kSpeculators ? "layers.0." : "midlayer.";
  const float scale = head.echo ? 0.01f : 1.0f;
  AddLayer(make, prefix, {head.hidden, 2 * head.hidden, head.intermediate, head.heads, head.kv_heads, head.head_dim, scale});
  make.Norm(prefix + "hidden_norm.weight", head.hidden);
  AddHeadNorms(make, head, count);
  if (head.own_embeddings) make.Uniform("embed_tokens.weight", {head.target.vocab, head.hidden}, 0.0f, 1.0f);
  if (head.echo) {
    make.Add(LastTap(head.hidden, count));
    AddEchoOutput(make, head);
    return make.Take();
  }
  make.Matrix("fc.weight", head.hidden, count * head.target.hidden);
  make.Norm("norm.weight", head.hidden);
  if (head.draft_vocab > 0) make.Matrix("lm_head.weight", head.draft_vocab, head.hidden, 4.0f);
  return make.Take();
}

std::vector<TinyTensor> MakeTinyEagle1(const TinyLlama& target, int layers, bool echo) {
  TinyLlama body = target;
  body.layers = layers;
  body.seed = target.seed + 100;
  if (echo) body.layer_scale = 0.01f;
  Maker make(body.seed);
  for (TinyTensor& tensor : MakeTinyLlama(body)) {
    const std::string_view prefix = "model.";
    const bool of_layers = tensor.name.starts_with("model.layers.");
    if (!of_layers || tensor.name == "model.layers.0.input_layernorm.weight") continue;
    tensor.name = tensor.name.substr(prefix.size());
    make.Add(std::move(tensor));
  }
  const int64_t hidden = target.hidden;
  if (echo) {
    make.Add(LastTap(hidden, 2));
    make.Add({"fc.bias", {hidden}, std::vector<float>(static_cast<size_t>(hidden), 0.0f)});
  } else {
    make.Matrix("fc.weight", hidden, 2 * hidden);
    make.Bias("fc.bias", hidden);
  }
  return make.Take();
}

std::vector<int> TinyTaps(const TinyEagle3& head) {
  if (!head.taps.empty()) return head.taps;
  return {0, head.target.layers / 2, head.target.layers};
}

}  // namespace haast::testing
