// Tensors for the cases: deterministic, the same for every backend.
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "kernels/cases/cases.h"
#include "kernels/ops.h"

namespace haast::kernels::cases {

// `count` numbers in [-1, 1), each a function of (seed, index): no state, so any part can be made again.
std::vector<float> Numbers(int64_t count, uint64_t seed);

// Blocks of `dtype` for a [rows, k] matrix: floats rounded, or for the K-quants random bits with scales near 1/8.
std::vector<uint8_t> Weights(int64_t rows, int64_t k, DType dtype, uint64_t seed);

// An attention launch with its memory. Slots are scattered over the pool; slots that nobody uses hold NaN.
class AttentionInputs {
 public:
  AttentionInputs(const AttentionCase& shape, uint64_t seed);

  // `out` [R, H, D]; `scratch` as large as attention_scratch says.
  AttentionArgs Args(float* out, float* scratch) const;
  int64_t rows() const { return qo_indptr.back(); }
  int64_t row_size() const { return static_cast<int64_t>(shape.heads) * shape.head_dim; }
  // The token slots that row j of sequence b sees, in order.
  std::vector<int32_t> VisibleSlots(int b, int j) const;

  AttentionCase shape;
  std::vector<float> q;
  std::vector<int32_t> qo_indptr{0};
  std::vector<int32_t> kv_indptr{0};
  std::vector<int32_t> kv_indices;
  std::vector<uint8_t> tree_flags;
  std::vector<int32_t> tree_cached;
  std::vector<uint64_t> tree_mask;
  int64_t slots = 0;
  int64_t max_kv_len = 0;
  Buffer k_cache;
  Buffer v_cache;
};

}  // namespace haast::kernels::cases
