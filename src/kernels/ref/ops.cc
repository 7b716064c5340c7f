#include <cmath>
#include <limits>

#include "kernels/ref/ref.h"

namespace haast::kernels {
namespace ref {

int32_t Argmax(const float* logits, int64_t n) {
  float max = -std::numeric_limits<float>::infinity();
  int64_t best = -1;
  for (int64_t i = 0; i < n; ++i) {
    if (logits[i] > max || (best < 0 && logits[i] == max)) {
      max = logits[i];
      best = i;
    }
  }
  return static_cast<int32_t>(best < 0 ? 0 : best);
}

RowStats Stats(const float* logits, int64_t n) {
  const int32_t argmax = Argmax(logits, n);
  const float max = logits[argmax];
  if (std::isinf(max)) return {argmax, max, max};  // one infinite logit has all the mass, or none has any
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(static_cast<double>(logits[i]) - max);
  return {argmax, max, static_cast<float>(max + std::log(sum))};
}

float ExpRow(const float* logits, int64_t n, float max, float scale, float* out) {
  double sum = 0.0;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = std::exp((logits[i] - max) * scale);
    sum += out[i];
  }
  return static_cast<float>(sum);
}

}  // namespace ref

const Ops& RefOps() {
  static constexpr Ops kOps{
      .name = "ref",
      .pack = ref::Pack,
      .linear = ref::Linear,
      .rms_norm = ref::RmsNorm,
      .rope_store = ref::RopeStore,
      .attention = ref::Attention,
      .attention_scratch = ref::AttentionScratch,
      .row_stats = ref::Stats,
      .argmax = ref::Argmax,
      .exp_row = ref::ExpRow,
  };
  return kOps;
}

}  // namespace haast::kernels
