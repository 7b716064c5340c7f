// One pre-norm transformer layer with grouped-query attention and a SwiGLU MLP: Llama's, and the body of EAGLE heads.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/model.h"
#include "model/rope.h"
#include "model/weights.h"

namespace haast::model {

struct DecoderLayer {
  std::vector<float> attention_norm;                  // [H]; empty: the caller norms the input itself
  kernels::PackedWeight q, k, v, o;                   // q [heads * D, input], k and v [kv_heads * D, input], o [H, heads * D]
  std::vector<float> q_bias, k_bias, v_bias, o_bias;  // empty: none
  std::vector<float> mlp_norm;                        // [H]
  kernels::PackedWeight gate, up, down;
  std::vector<float> gate_bias, up_bias, down_bias;

  int64_t bytes_per_pass() const;
};

// Reads the layer's tensors under `prefix` ("model.layers.3."). `input_width` is K of q, k and v (2H in EAGLE-3's first
// layer); with `own_norm` the layer has `input_layernorm` of width H.
Result<DecoderLayer> LoadDecoderLayer(WeightBinder* binder, const std::string& prefix, const io::ModelConfig& config, int64_t input_width,
                                      bool own_norm, const LoadContext& load);

struct LayerInput {
  const float* x;  // [R, input_width] what q, k and v read
  int64_t ld;
  bool norm;  // apply attention_norm first
};

// A layer and what its model runs it with. For the length of a call.
struct PlacedLayer {
  const DecoderLayer& layer;
  const io::ModelConfig& config;
  const RopeTable& rope;
  const attention::LayerCache& cache;
};

// x += attention(input); x += mlp(x). x: [R, H].
void RunDecoderLayer(const PlacedLayer& placed, const LayerInput& input, int64_t rows, float* x, ForwardContext& context);

// The same for a model's last layer, of which only the rows `wanted` [L] (each above the one before) are read: K and V are written for all
// rows, and x becomes [L, H].
void RunLastDecoderLayer(const PlacedLayer& placed, const LayerInput& input, int64_t rows, std::span<const int32_t> wanted, float* x,
                         ForwardContext& context);

// Moves the rows `wanted` (each above the one before) of x [R, width] to its front.
void KeepRows(std::span<const int32_t> wanted, int64_t width, float* x);

// Floats that either takes from the arena.
int64_t DecoderLayerArenaFloats(const io::ModelConfig& config, int64_t rows);

attention::HeadShape HeadShapeOf(const io::ModelConfig& config, DType kv_dtype);

}  // namespace haast::model
