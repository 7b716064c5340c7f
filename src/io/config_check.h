// What every configuration must satisfy before sizes are computed from it, whatever file it came from.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "haast/limits.h"
#include "haast/result.h"
#include "io/model_config.h"

namespace haast::io {

// Upper bounds of single settings: far above any published model, low enough that products of three fit 63 bits.
inline constexpr int64_t kMaxWidth = 1 << 20;  // hidden, intermediate, heads * head_dim
inline constexpr int64_t kMaxVocabulary = 1 << 24;
inline constexpr int64_t kMaxLayers = 1 << 12;
inline constexpr int64_t kMaxHeads = 1 << 12;
inline constexpr int64_t kMaxHeadDim = 1 << 12;

// Above 0 and within fp32, and how messages say so.
inline constexpr char kPositiveFloat[] = "a number above 0 and at most 3.4e38";
inline bool IsPositiveFloat(double number) {
  return number > 0.0 && number <= double{std::numeric_limits<float>::max()} && static_cast<float>(number) > 0.0f;
}

// Relations between settings that were each within bounds: heads and kv heads, even head_dim, finite positive eps and
// rope base, sensible scaling, taps of a draft head. Errors name `path`, expected and got.
Status CheckConfig(const ModelConfig& config, const std::string& path);

}  // namespace haast::io
