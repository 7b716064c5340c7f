// What one thread does with one piece of an operation, in the form of each instruction set. All of them give the same bits.
// Private to src/kernels/cpu. The files that implement it are compiled with flags of their own: this header and theirs must
// not bring inline functions that other files use too.
#pragma once

#include <cstdint>

#include "base/cpu.h"
#include "kernels/ops.h"

namespace haast::kernels {

// Keys of one split. Splits start at multiples of it in the key list of a row, so that where a key is summed depends on its
// place in the list alone.
inline constexpr int kSplitKeys = 128;
// (row, head) pairs that are computed together; q is packed in blocks of this many.
inline constexpr int kPairBlock = 6;
// Keys that are transposed together.
inline constexpr int kKeyBlock = 32;

// One split of one KV head against the query heads of its group in `rows` rows. The pair of row r and head h is r * group + h.
struct SplitTask {
  const uint8_t* k;  // K of this KV head in slot 0
  const uint8_t* v;
  bool half;             // f16, else f32
  int64_t slot_bytes;    // from one slot to the next
  const int32_t* slots;  // [keys]
  int keys;              // 1..kSplitKeys
  int head_dim;
  const float* q;  // PackQuery's form, scaled
  int rows;
  int group;
  const int32_t* counts;      // [rows] row r sees the first counts[r] keys; 1..keys
  float* max;                 // [pairs] out: the largest score
  float* sum;                 // [pairs] out: sum of e^(score - max)
  float* out;                 // [pairs, D] out: sum of e^(score - max) * v
  float* scores;              // [pairs rounded up to kPairBlock, kSplitKeys] work
  float* k_tile;              // [D, kKeyBlock] work
  const uint8_t* next_k;      // K of the task that follows on this thread, only to have it fetched early; null where there is none
  const int32_t* next_slots;  // [keys] its slots, at least as many as this task's
};

struct RowKernels {
  // Scores are a chain of fused products over d ascending, sums over keys of V a chain over the keys ascending, sums of weights
  // 16 interleaved chains joined in a tree.
  void (*attend_split)(const SplitTask& task);
  // Joins a later split to the state (max, sum, out) of the earlier ones. [D]
  void (*merge_split)(float* max, float* sum, float* out, float split_max, float split_sum, const float* split_out, int head_dim);
  // out[d] = x[d] / sum, as a product with 1 / sum.
  void (*normalise)(const float* x, float sum, int head_dim, float* out);

  void (*to_half)(const float* x, int64_t n, uint16_t* out);

  RowStats (*row_stats)(const float* logits, int64_t n);
  int32_t (*argmax)(const float* logits, int64_t n);
  float (*exp_row)(const float* logits, int64_t n, float max, float scale, float* out);
};

const RowKernels& PortableRowKernels();
#if defined(__x86_64__)
const RowKernels& Avx2RowKernels();
const RowKernels& Avx512RowKernels();
#elif defined(__aarch64__)
const RowKernels& NeonRowKernels();
#endif
inline const RowKernels& RowKernelsFor(base::Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case base::Isa::kAvx2: return Avx2RowKernels();
    case base::Isa::kAvx512:
    case base::Isa::kAvx512Vnni: return Avx512RowKernels();
#elif defined(__aarch64__)
    case base::Isa::kNeonDot:
    case base::Isa::kNeonI8mm: return NeonRowKernels();
#endif
    default: return PortableRowKernels();
  }
}

// Floats of `q` for `pairs` pairs of `head_dim`.
inline int64_t PackedQuerySize(int64_t pairs, int head_dim) { return (pairs + kPairBlock - 1) / kPairBlock * kPairBlock * head_dim; }

}  // namespace haast::kernels
