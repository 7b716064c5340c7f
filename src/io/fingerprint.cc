#include "io/fingerprint.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/format.h"

namespace haast::io {
namespace {

constexpr int64_t kWholeBytes = int64_t{1} << 20;
constexpr int64_t kBlocks = 16;
constexpr int64_t kBlockBytes = 4096;

uint64_t Add(uint64_t hash, const std::string& text) {
  return base::Checksum({reinterpret_cast<const uint8_t*>(text.data()), text.size()}, hash);
}

uint64_t AddData(uint64_t hash, const TensorView& view) {
  const auto* data = static_cast<const uint8_t*>(view.data);
  const int64_t bytes = view.bytes();
  if (bytes <= kWholeBytes) return base::Checksum({data, static_cast<size_t>(bytes)}, hash);
  for (int64_t i = 0; i < kBlocks; ++i) {
    const int64_t begin = (bytes - kBlockBytes) / (kBlocks - 1) * i;
    hash = base::Checksum({data + begin, static_cast<size_t>(kBlockBytes)}, hash);
  }
  return hash;
}

// Floats by their bits ({:a} is exact).
std::string Settings(const ModelConfig& config) {
  const RopeScaling& rope = config.rope_scaling;
  std::string text =
      fmt::format("{} {} {} {} {} {:a} {:a} {} {} {:a} {:a} {:a} {}", config.architecture, config.num_layers, config.num_heads,
                  config.num_kv_heads, config.head_dim, config.rms_norm_eps, config.rope_theta, config.rope_interleaved,
                  static_cast<int>(rope.kind), rope.factor, rope.low_freq_factor, rope.high_freq_factor, rope.original_context);
  if (!config.eagle3) return text;
  const Eagle3Config& head = *config.eagle3;
  return text + fmt::format(" {} {} {} {} {} {} {} {}", head.draft_vocab_size, head.num_aux_hidden_states, fmt::join(head.tap_layers, ","),
                            head.fc_norm, head.norm_before_fc, head.norm_output, head.norm_before_residual, head.target_hidden_size);
}

}  // namespace

uint64_t Fingerprint(const ModelFile& file) {
  uint64_t hash = Add(0, Settings(file.config()));
  for (const NamedTensor& tensor : file.tensors()) {
    hash = Add(hash, tensor.name + " " + tensor.view.ToString());
    hash = AddData(hash, tensor.view);
  }
  return hash;
}

}  // namespace haast::io
