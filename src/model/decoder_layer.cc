#include "model/decoder_layer.h"

#include <cmath>
#include <cstring>

#include "base/format.h"

namespace haast::model {
namespace {

const float* BiasOrNull(const std::vector<float>& bias) { return bias.empty() ? nullptr : bias.data(); }

// Parts of one fused buffer.
struct Qkv {
  float* q;    // [R, heads * D]
  float* k;    // [R, kv_heads * D]
  float* v;    // [R, kv_heads * D]
  int64_t ld;  // of all three
};

int64_t QueryWidth(const io::ModelConfig& config) { return static_cast<int64_t>(config.num_heads) * config.head_dim; }

// Without `queries` the q part is left as it is.
Qkv Project(const PlacedLayer& placed, const LayerInput& input, int64_t rows, bool queries, ForwardContext& context) {
  const DecoderLayer& layer = placed.layer;
  const io::ModelConfig& config = placed.config;
  const int64_t kv_width = static_cast<int64_t>(config.num_kv_heads) * config.head_dim;
  const int64_t width = QueryWidth(config) + 2 * kv_width;
  float* q = context.arena.Take<float>(rows * width);
  const Qkv out{q, q + QueryWidth(config), q + QueryWidth(config) + kv_width, width};
  const kernels::LinearTask tasks[] = {{&layer.q, out.q, width, BiasOrNull(layer.q_bias)},
                                       {&layer.k, out.k, width, BiasOrNull(layer.k_bias)},
                                       {&layer.v, out.v, width, BiasOrNull(layer.v_bias)}};
  kernels::LinearInput read{input.x, input.ld, rows};
  if (input.norm) {
    read.prologue = kernels::Prologue::kRmsNorm;
    read.norm_weight = layer.attention_norm.data();
    read.eps = config.rms_norm_eps;
  }
  context.ops.linear(read, std::span(tasks).subspan(queries ? 0 : 1), context.workspace, context.pool);
  return out;
}

// [R, heads * D]
float* Attend(const PlacedLayer& placed, const Qkv& in, int64_t rows, ForwardContext& context) {
  float* out = context.arena.Take<float>(rows * QueryWidth(placed.config));
  const RopeTable& rope = placed.rope;
  context.attention.Run(in.q, in.ld, in.k, in.ld, in.v, in.ld, rope.cos.as<float>(), rope.sin.as<float>(), placed.cache, out);
  return out;
}

// x += o(attended); x += mlp(x). attended: [R, heads * D], x: [R, H].
void AddOutputs(const PlacedLayer& placed, const float* attended, int64_t rows, float* x, ForwardContext& context) {
  const DecoderLayer& layer = placed.layer;
  const io::ModelConfig& config = placed.config;
  const int64_t hidden = config.hidden_size;
  const int64_t inner = config.intermediate_size;
  const kernels::LinearTask o_task[] = {{&layer.o, x, hidden, BiasOrNull(layer.o_bias), true}};
  context.ops.linear({attended, QueryWidth(config), rows}, std::span(o_task), context.workspace, context.pool);

  float* gate = context.arena.Take<float>(rows * 2 * inner);  // gate | up
  float* up = gate + inner;
  const kernels::LinearTask mlp_tasks[] = {{&layer.gate, gate, 2 * inner, BiasOrNull(layer.gate_bias)},
                                           {&layer.up, up, 2 * inner, BiasOrNull(layer.up_bias)}};
  kernels::LinearInput mlp_input{x, hidden, rows, kernels::Prologue::kRmsNorm, layer.mlp_norm.data(), config.rms_norm_eps};
  context.ops.linear(mlp_input, std::span(mlp_tasks), context.workspace, context.pool);

  kernels::LinearInput down_input{gate, 2 * inner, rows, kernels::Prologue::kSiluMul};
  down_input.up = up;
  const kernels::LinearTask down_task[] = {{&layer.down, x, hidden, BiasOrNull(layer.down_bias), true}};
  context.ops.linear(down_input, std::span(down_task), context.workspace, context.pool);
}

// Without them the layer would compute something else than what was trained. (A missing bias of o_proj is zero, as in transformers.)
Status RequireBiases(const WeightBinder& binder, const std::string& prefix, std::initializer_list<const char*> names, const char* setting) {
  for (const char* name : names) {
    if (binder.Has(fmt::format("{}{}_proj.bias", prefix, name))) continue;
    return Err(ErrorCode::kNotFound,
               "{}: tensor {}{}_proj.bias is missing, but the configuration sets {}: set it to false, or use the whole model",
               binder.file().path(), prefix, name, setting);
  }
  return {};
}

}  // namespace

int64_t DecoderLayer::bytes_per_pass() const {
  int64_t bytes = 0;
  for (const kernels::PackedWeight* weight : {&q, &k, &v, &o, &gate, &up, &down}) bytes += weight->bytes_per_pass;
  return bytes;
}

Result<DecoderLayer> LoadDecoderLayer(WeightBinder* binder, const std::string& prefix, const io::ModelConfig& config, int64_t input_width,
                                      bool own_norm, const LoadContext& load) {
  const int64_t hidden = config.hidden_size;
  const int64_t q_width = static_cast<int64_t>(config.num_heads) * config.head_dim;
  const int64_t kv_width = static_cast<int64_t>(config.num_kv_heads) * config.head_dim;
  const int64_t inner = config.intermediate_size;
  DecoderLayer layer;
  if (own_norm) {
    HAAST_ASSIGN_OR_RETURN(layer.attention_norm, binder->Vector(prefix + "input_layernorm.weight", hidden));
  }
  HAAST_ASSIGN_OR_RETURN(layer.q, binder->Matrix(prefix + "self_attn.q_proj.weight", q_width, input_width, load));
  HAAST_ASSIGN_OR_RETURN(layer.k, binder->Matrix(prefix + "self_attn.k_proj.weight", kv_width, input_width, load));
  HAAST_ASSIGN_OR_RETURN(layer.v, binder->Matrix(prefix + "self_attn.v_proj.weight", kv_width, input_width, load));
  HAAST_ASSIGN_OR_RETURN(layer.o, binder->Matrix(prefix + "self_attn.o_proj.weight", hidden, q_width, load));
  HAAST_ASSIGN_OR_RETURN(layer.q_bias, binder->OptionalVector(prefix + "self_attn.q_proj.bias", q_width));
  HAAST_ASSIGN_OR_RETURN(layer.k_bias, binder->OptionalVector(prefix + "self_attn.k_proj.bias", kv_width));
  HAAST_ASSIGN_OR_RETURN(layer.v_bias, binder->OptionalVector(prefix + "self_attn.v_proj.bias", kv_width));
  HAAST_ASSIGN_OR_RETURN(layer.o_bias, binder->OptionalVector(prefix + "self_attn.o_proj.bias", hidden));
  if (config.attention_bias) HAAST_RETURN_IF_ERROR(RequireBiases(*binder, prefix + "self_attn.", {"q", "k", "v"}, "attention_bias"));
  HAAST_ASSIGN_OR_RETURN(layer.mlp_norm, binder->Vector(prefix + "post_attention_layernorm.weight", hidden));
  HAAST_ASSIGN_OR_RETURN(layer.gate, binder->Matrix(prefix + "mlp.gate_proj.weight", inner, hidden, load));
  HAAST_ASSIGN_OR_RETURN(layer.up, binder->Matrix(prefix + "mlp.up_proj.weight", inner, hidden, load));
  HAAST_ASSIGN_OR_RETURN(layer.down, binder->Matrix(prefix + "mlp.down_proj.weight", hidden, inner, load));
  HAAST_ASSIGN_OR_RETURN(layer.gate_bias, binder->OptionalVector(prefix + "mlp.gate_proj.bias", inner));
  HAAST_ASSIGN_OR_RETURN(layer.up_bias, binder->OptionalVector(prefix + "mlp.up_proj.bias", inner));
  HAAST_ASSIGN_OR_RETURN(layer.down_bias, binder->OptionalVector(prefix + "mlp.down_proj.bias", hidden));
  if (config.mlp_bias) HAAST_RETURN_IF_ERROR(RequireBiases(*binder, prefix + "mlp.", {"gate", "up", "down"}, "mlp_bias"));
  // Rotary inverse frequencies that old exporters saved beside the weights.
  binder->Ignore(prefix + "self_attn.rotary_emb.inv_freq");
  return layer;
}

int64_t DecoderLayerArenaFloats(const io::ModelConfig& config, int64_t rows) {
  const int64_t per_row =
      static_cast<int64_t>(2 * config.num_heads + 2 * config.num_kv_heads) * config.head_dim + 2 * config.intermediate_size;
  return rows * per_row + 3 * 16;  // 16: each of the three parts starts on a cache line
}

void RunDecoderLayer(const PlacedLayer& placed, const LayerInput& input, int64_t rows, float* x, ForwardContext& context) {
  const Arena::Mark mark = context.arena.mark();
  const Qkv qkv = Project(placed, input, rows, true, context);
  AddOutputs(placed, Attend(placed, qkv, rows, context), rows, x, context);
  context.arena.Rewind(mark);
}

void RunLastDecoderLayer(const PlacedLayer& placed, const LayerInput& input, int64_t rows, std::span<const int32_t> wanted, float* x,
                         ForwardContext& context) {
  const Arena::Mark mark = context.arena.mark();
  const Qkv qkv = Project(placed, input, rows, !wanted.empty(), context);
  if (wanted.empty()) {
    const RopeTable& rope = placed.rope;
    context.attention.Store(qkv.k, qkv.ld, qkv.v, qkv.ld, rope.cos.as<float>(), rope.sin.as<float>(), placed.cache);
  } else {
    float* attended = Attend(placed, qkv, rows, context);
    KeepRows(wanted, QueryWidth(placed.config), attended);
    KeepRows(wanted, placed.config.hidden_size, x);
    AddOutputs(placed, attended, static_cast<int64_t>(wanted.size()), x, context);
  }
  context.arena.Rewind(mark);
}

void KeepRows(std::span<const int32_t> wanted, int64_t width, float* x) {
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == static_cast<int32_t>(i)) continue;
    std::memcpy(x + static_cast<int64_t>(i) * width, x + wanted[i] * width, static_cast<size_t>(width) * sizeof(float));
  }
}

attention::HeadShape HeadShapeOf(const io::ModelConfig& config, DType kv_dtype) {
  return {config.num_heads,        config.num_kv_heads,
          config.head_dim,         1.0f / std::sqrt(static_cast<float>(config.head_dim)),
          config.rope_interleaved, kv_dtype};
}

}  // namespace haast::model
