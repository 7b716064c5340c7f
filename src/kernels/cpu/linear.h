// Products of the cpu backends: what `cpu/ops.cc` puts into the table of each instruction set. Private to src/kernels.
#pragma once

#include <span>

#include "base/cpu.h"
#include "base/thread_pool.h"
#include "core/tensor.h"
#include "haast/result.h"
#include "kernels/ops.h"

namespace haast::kernels {

// All instruction sets share the packed layouts and compute the same bits, so a weight packed by one may be read by any.
struct LinearKernels {
  // Ops::pack and Ops::linear.
  Result<PackedWeight> (*pack)(const TensorView& weight, const DType* quantise_to, base::ThreadPool& pool);
  void (*linear)(const LinearInput& input, std::span<const LinearTask> tasks, Workspace& workspace, base::ThreadPool& pool);

  // One row of each prologue, with the bits that `linear` gives it; out may be x. Ops::rms_norm must use this one.
  void (*rms_norm_row)(const float* x, const float* weight, float eps, int64_t k, float* out);
  void (*silu_mul_row)(const float* x, const float* up, int64_t k, float* out);

  int64_t (*dot_loop)(int64_t rounds);  // Ops::dot_loop
};

const LinearKernels& LinearFor(base::Isa isa);

}  // namespace haast::kernels
