// Attention and the cache store of the cpu backends: how the work is cut and shared, for any instruction set's RowKernels.
// Private to src/kernels.
#pragma once

#include "base/thread_pool.h"
#include "kernels/cpu/row_kernels.h"
#include "kernels/ops.h"

namespace haast::kernels {

// Ops::attention and Ops::attention_scratch.
void Attend(const RowKernels& kernels, const AttentionArgs& args, base::ThreadPool& pool);
int64_t AttentionScratchFloats(int64_t rows, int heads, int head_dim, int64_t max_kv_len, int threads);

// Ops::rope_store. Products and sums are rounded one by one, as the reference's.
void RotateAndStore(const RowKernels& kernels, const RopeStoreArgs& args, base::ThreadPool& pool);

}  // namespace haast::kernels
