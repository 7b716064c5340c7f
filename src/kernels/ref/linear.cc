#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/linear_check.h"
#include "kernels/ref/ref.h"

namespace haast::kernels::ref {
namespace {

void NormRow(const float* x, const float* weight, float eps, int64_t k, float* out) {
  double sum = 0.0;
  for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(x[i]) * x[i];
  const float scale = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(k) + eps));
  for (int64_t i = 0; i < k; ++i) out[i] = x[i] * scale * weight[i];
}

float Silu(float x) { return x / (1.0f + std::exp(-x)); }

// One input row after the prologue, dense. [K]
void PrepareRow(const LinearInput& input, int64_t row, int64_t k, float* out) {
  const float* x = input.x + row * input.ld_x;
  switch (input.prologue) {
    case Prologue::kNone: std::copy(x, x + k, out); return;
    case Prologue::kRmsNorm: NormRow(x, input.norm_weight, input.eps, k, out); return;
    case Prologue::kSiluMul: {
      const float* up = input.up + row * input.ld_x;
      for (int64_t i = 0; i < k; ++i) out[i] = Silu(x[i]) * up[i];
      return;
    }
  }
}

void OutputFeature(const LinearTask& task, int64_t feature, const float* weight_row, const std::vector<float>& x, int64_t rows) {
  const int64_t k = task.weight->k;
  const float bias = task.bias != nullptr ? task.bias[feature] : 0.0f;
  for (int64_t r = 0; r < rows; ++r) {
    float* out = task.out + r * task.ld_out + feature;
    float value = Dot(weight_row, x.data() + r * k, k);
    if (task.bias != nullptr) value += bias;
    *out = task.accumulate ? *out + value : value;
  }
}

}  // namespace

// The weight is read in place and turned into floats row by row at every product; only what `quantise_to` asks for is stored.
Result<PackedWeight> Pack(const TensorView& weight, const DType* quantise_to, base::ThreadPool& pool) {
  PackedWeight packed;
  packed.n = weight.rows();
  packed.k = weight.cols();
  packed.dtype = weight.dtype;
  packed.source = weight;
  if (quantise_to != nullptr && IsFloat(weight.dtype) && packed.k % 32 == 0) {
    packed.dtype = *quantise_to;
    const int64_t row_bytes = BytesOf(packed.dtype, packed.k);
    auto buffer = Buffer::Allocate(static_cast<size_t>(packed.n * row_bytes), "quantised weights");
    if (!buffer) return tl::unexpected(buffer.error());
    packed.data = std::move(*buffer);
    pool.Run([&](int thread, int threads) {
      std::vector<float> row(static_cast<size_t>(packed.k));
      const auto [begin, end] = base::Share(packed.n, thread, threads);
      for (int64_t i = begin; i < end; ++i) {
        DequantiseRow(weight, i, row.data());
        QuantiseRow(row.data(), packed.k, packed.dtype, packed.data.data() + i * row_bytes);
      }
    });
    packed.source.data = packed.data.data();
    packed.source.dtype = packed.dtype;
  }
  packed.bytes_per_pass = packed.source.bytes();
  return packed;
}

void Linear(const LinearInput& input, std::span<const LinearTask> tasks, Workspace&, base::ThreadPool& pool) {
  if (tasks.empty() || input.rows == 0) return;
  CheckLinear(input, tasks);
  const int64_t k = tasks[0].weight->k;
  std::vector<float> x(static_cast<size_t>(input.rows * k));
  pool.Run([&](int thread, int threads) {
    const auto [row_begin, row_end] = base::Share(input.rows, thread, threads);
    for (int64_t r = row_begin; r < row_end; ++r) PrepareRow(input, r, k, x.data() + r * k);
    pool.Barrier();
    std::vector<float> weight_row(static_cast<size_t>(k));
    for (const LinearTask& task : tasks) {
      const auto [begin, end] = base::Share(task.weight->n, thread, threads);
      for (int64_t i = begin; i < end; ++i) {
        DequantiseRow(task.weight->source, i, weight_row.data());
        OutputFeature(task, i, weight_row.data(), x, input.rows);
      }
    }
  });
}

void RmsNorm(const float* x, int64_t ld_x, const float* weight, float eps, int64_t rows, int64_t k, float* out, int64_t ld_out,
             base::ThreadPool& pool) {
  pool.Run([&](int thread, int threads) {
    const auto [begin, end] = base::Share(rows, thread, threads);
    for (int64_t r = begin; r < end; ++r) NormRow(x + r * ld_x, weight, eps, k, out + r * ld_out);
  });
}

}  // namespace haast::kernels::ref
