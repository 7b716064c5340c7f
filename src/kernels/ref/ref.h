// The parts of the reference backend. Plain fp32 code for the baseline instruction set; sums over K run in 16 interleaved chains so
// that the compiler may use vectors without changing a bit.
#pragma once

#include "kernels/ops.h"

namespace haast::kernels::ref {

inline constexpr int kChains = 16;

// Sum of a[i] * b[i], element i in chain i % 16, the chains joined in a tree.
inline float Dot(const float* a, const float* b, int64_t k) {
  float chains[kChains] = {};
  int64_t i = 0;
  for (; i + kChains <= k; i += kChains) {
    for (int c = 0; c < kChains; ++c) chains[c] += a[i + c] * b[i + c];
  }
  for (int c = 0; i + c < k; ++c) chains[c] += a[i + c] * b[i + c];
  for (int width = kChains / 2; width > 0; width /= 2) {
    for (int c = 0; c < width; ++c) chains[c] += chains[c + width];
  }
  return chains[0];
}

Result<PackedWeight> Pack(const TensorView& weight, const DType* quantise_to, base::ThreadPool& pool);
void Linear(const LinearInput& input, std::span<const LinearTask> tasks, Workspace& workspace, base::ThreadPool& pool);
void RmsNorm(const float* x, int64_t ld_x, const float* weight, float eps, int64_t rows, int64_t k, float* out, int64_t ld_out,
             base::ThreadPool& pool);
void RopeStore(const RopeStoreArgs& args, base::ThreadPool& pool);
void Attention(const AttentionArgs& args, base::ThreadPool& pool);
int64_t AttentionScratch(int64_t rows, int heads, int head_dim, int64_t max_kv_len, int threads);
RowStats Stats(const float* logits, int64_t n);
int32_t Argmax(const float* logits, int64_t n);
float ExpRow(const float* logits, int64_t n, float max, float scale, float* out);

}  // namespace haast::kernels::ref
