#include "io/config_check.h"

#include <cmath>

#include "base/format.h"

namespace haast::io {
namespace {

tl::unexpected<Error> Bad(const std::string& path, const char* what, const std::string& expected, const std::string& got) {
  return Err(ErrorCode::kInvalidFile, "{}: {}: expected {}, got {}", path, what, expected, got);
}

Status CheckPositive(const ModelConfig& config, const std::string& path) {
  const struct {
    const char* what;
    int64_t value, most;
  } sizes[] = {{"hidden size", config.hidden_size, kMaxWidth},    {"intermediate size", config.intermediate_size, kMaxWidth},
               {"layers", config.num_layers, kMaxLayers},         {"attention heads", config.num_heads, kMaxHeads},
               {"kv heads", config.num_kv_heads, kMaxHeads},      {"head_dim", config.head_dim, kMaxHeadDim},
               {"vocabulary", config.vocab_size, kMaxVocabulary}, {"context length", config.max_context, kMaxContext}};
  for (const auto& size : sizes) {
    if (size.value < 1 || size.value > size.most)
      return Bad(path, size.what, fmt::format("1 to {}", size.most), std::to_string(size.value));
  }
  return {};
}

Status CheckRope(const ModelConfig& config, const std::string& path) {
  const auto positive = [](float value) { return std::isfinite(value) && value > 0; };
  if (!positive(config.rope_theta)) return Bad(path, "rope base", "a number above 0", fmt::format("{}", config.rope_theta));
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.kind == RopeScaling::Kind::kNone) return {};
  if (!positive(scaling.factor)) return Bad(path, "rope scaling factor", "a number above 0", fmt::format("{}", scaling.factor));
  if (scaling.kind == RopeScaling::Kind::kLinear) return {};
  if (!positive(scaling.low_freq_factor) || !(scaling.high_freq_factor > scaling.low_freq_factor) ||
      !std::isfinite(scaling.high_freq_factor)) {
    return Bad(path, "rope scaling", "0 < low_freq_factor < high_freq_factor",
               fmt::format("{} and {}", scaling.low_freq_factor, scaling.high_freq_factor));
  }
  if (scaling.original_context < 1)
    return Bad(path, "rope scaling", "an original context above 0", std::to_string(scaling.original_context));
  return {};
}

Status CheckHead(const Eagle3Config& head, const std::string& path) {
  if (head.target_hidden_size < 1 || head.target_hidden_size > kMaxWidth) {
    return Bad(path, "target_hidden_size", fmt::format("1 to {}", kMaxWidth), std::to_string(head.target_hidden_size));
  }
  if (head.num_aux_hidden_states < 1 || head.num_aux_hidden_states > 64) {
    return Bad(path, "num_aux_hidden_states", "1 to 64", std::to_string(head.num_aux_hidden_states));
  }
  if (!head.tap_layers.empty() && static_cast<int>(head.tap_layers.size()) != head.num_aux_hidden_states) {
    return Bad(path, "tapped layers", fmt::format("{} of them (num_aux_hidden_states)", head.num_aux_hidden_states),
               fmt::format("{} ({})", head.tap_layers.size(), fmt::join(head.tap_layers, ", ")));
  }
  return {};
}

}  // namespace

Status CheckConfig(const ModelConfig& config, const std::string& path) {
  HAAST_RETURN_IF_ERROR(CheckPositive(config, path));
  if (config.num_heads % config.num_kv_heads != 0) {
    return Bad(path, "attention heads", fmt::format("a multiple of the {} kv heads", config.num_kv_heads),
               std::to_string(config.num_heads));
  }
  if (config.head_dim % 2 != 0) return Bad(path, "head_dim", "an even number", std::to_string(config.head_dim));
  if (int64_t{config.num_heads} * config.head_dim > kMaxWidth) {
    return Bad(path, "attention heads * head_dim", fmt::format("at most {}", kMaxWidth),
               fmt::format("{} * {}", config.num_heads, config.head_dim));
  }
  if (!(config.rms_norm_eps > 0 && config.rms_norm_eps < 1)) {
    return Bad(path, "RMSNorm epsilon", "a number between 0 and 1", fmt::format("{}", config.rms_norm_eps));
  }
  HAAST_RETURN_IF_ERROR(CheckRope(config, path));
  return config.eagle3 ? CheckHead(*config.eagle3, path) : Status{};
}

}  // namespace haast::io
