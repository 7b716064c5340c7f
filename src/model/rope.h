// Rotary position tables, with the scalings of Llama 3 and linear interpolation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/buffer.h"
#include "io/model_config.h"

namespace haast::model {

struct RopeTable {
  Buffer cos;  // [max_position, head_dim / 2] fp32
  Buffer sin;
  int64_t max_position = 0;
};

// Frequency i of head_dim / 2: theta^(-2i / head_dim), scaled. `factors` (GGUF rope_freqs.weight, [head_dim / 2] or
// empty) divide the frequencies and then stand for the scaling. Angles are computed in double precision.
std::vector<double> RopeFrequencies(const io::ModelConfig& config, std::span<const float> factors);
Result<RopeTable> MakeRopeTable(const io::ModelConfig& config, std::span<const float> factors, int64_t max_position);

}  // namespace haast::model
