// What every configuration must satisfy before sizes are computed from it, whatever file it came from.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "haast/result.h"
#include "io/model_config.h"

namespace haast::io {

// Upper bounds of single settings: far above any published model, low enough that products of three fit 63 bits.
inline constexpr int64_t kMaxWidth = 1 << 20;  // hidden, intermediate, heads * head_dim
inline constexpr int64_t kMaxVocabulary = 1 << 24;
inline constexpr int64_t kMaxLayers = 1 << 12;
inline constexpr int64_t kMaxHeads = 1 << 12;
inline constexpr int64_t kMaxHeadDim = 1 << 12;
inline constexpr int64_t kMaxContext = int64_t{1} << 30;

// A number from a file as fp32; beyond fp32 it becomes infinite, which CheckConfig refuses.
inline float AsFloat(double value) {
  constexpr double kMost = std::numeric_limits<float>::max();
  return value > kMost    ? std::numeric_limits<float>::infinity()
         : value < -kMost ? -std::numeric_limits<float>::infinity()
                          : static_cast<float>(value);
}

// Relations between settings that were each within bounds: heads and kv heads, even head_dim, finite positive eps and
// rope base, sensible scaling, taps of a draft head. Errors name `path`, expected and got.
Status CheckConfig(const ModelConfig& config, const std::string& path);

}  // namespace haast::io
