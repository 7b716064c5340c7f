// The contract between models and kernels: every operation a model may use, on raw memory. `ref/` computes it naively in
// fp32 and defines what is correct; `cpu/` computes it fast. Both obey the row rule:
//
//   The bits of an output row depend on that row's input, the weights and nothing else: not on the number of rows, the
//   row's index, the thread count, or the other sequences of the batch. (docs/exactness.md)
//
// Letters: R rows (tokens) of the launch, N output features, K input features, H query heads, G KV heads, D head_dim,
// S token slots of a KV pool, B sequences. All pointers are host memory; strides (`ld_*`) are in elements.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/cpu.h"
#include "base/thread_pool.h"
#include "core/buffer.h"
#include "core/tensor.h"

namespace haast::kernels {

// A weight matrix [N, K] prepared by `Ops::pack` for that backend's `linear`. Immutable, shared by all threads.
struct PackedWeight {
  int64_t n = 0;
  int64_t k = 0;
  DType dtype = DType::kF32;   // the numbers' precision: the source's dtype, or what it was quantised to
  int layout = 0;              // private to the backend that packed it
  Buffer data;                 // repacked numbers; empty where the backend reads `source` in place
  TensorView source;           // [N, K]; outlives this object only where `data` is empty
  int64_t bytes_per_pass = 0;  // bytes one product must read, for the roofline
  std::string name;            // for profiles: "q_proj"
};

// What `linear` does to its input rows before the product. Each is exactly the named op followed by a plain product, with
// the same bits.
enum class Prologue {
  kNone,
  kRmsNorm,  // rms_norm(x, norm_weight, eps)
  kSiluMul,  // silu(x) * up
};

struct LinearInput {
  const float* x;  // [R, K]
  int64_t ld_x;    // >= K
  int64_t rows;    // R >= 0; any size (a prompt is a large R)
  Prologue prologue = Prologue::kNone;
  const float* norm_weight = nullptr;  // [K], kRmsNorm
  float eps = 0.0f;                    // kRmsNorm
  const float* up = nullptr;           // [R, K] with stride ld_x, kSiluMul
};

// One product over the shared input: out[r, i] = dot(weight[i, :], input[r, :]) (+ bias[i]) (+ out[r, i]).
struct LinearTask {
  const PackedWeight* weight;   // [N, K]
  float* out;                   // [R, N]; its memory must not overlap the input's, which threads read while others write
  int64_t ld_out;               // >= N
  const float* bias = nullptr;  // [N]
  bool accumulate = false;      // adds to what `out` holds: the residual stream
};

// Scratch of `linear`: quantised activations. One per runner; sized once, so that no step allocates.
class Workspace {
 public:
  static Result<Workspace> Create(int64_t max_rows, int64_t max_k);
  int64_t max_rows() const { return max_rows_; }
  int64_t max_k() const { return max_k_; }
  uint8_t* data() { return buffer_.data(); }
  size_t size() const { return buffer_.size(); }

 private:
  Buffer buffer_;
  int64_t max_rows_ = 0;
  int64_t max_k_ = 0;
};

// Rotary embedding of q and k in place-order, then K and V written to the cache slots of this launch.
struct RopeStoreArgs {
  float* q;  // [R, H, D], rotated in place; not read where there are no query heads
  int64_t ld_q;
  const float* k;  // [R, G, D]
  int64_t ld_k;
  const float* v;  // [R, G, D]
  int64_t ld_v;
  int64_t rows;
  int num_heads;  // 0: K and V only
  int num_kv_heads;
  int head_dim;              // even, any size
  bool interleaved;          // pairs (2i, 2i+1) instead of (i, i + D/2)
  const int32_t* positions;  // [R]
  const float* cos;          // [max_position, D/2]
  const float* sin;          // [max_position, D/2]
  const int32_t* out_slots;  // [R]
  void* k_cache;             // [S, G, D] of kv_dtype, K after rotation
  void* v_cache;             // [S, G, D]
  DType kv_dtype;            // kF16 or kF32
};

// Paged causal attention with grouped heads. The keys of row j (j-th of its sequence) of a causal sequence are the first
// kv_len - q_len + j + 1 entries of its kv_indices. A tree sequence (tree_flags[b] = 1) ends with the entries of its tree:
// tree_cached[b] rows of earlier launches, then the q_len rows of this one. The keys of a row are the entries before the tree,
// then, in ascending order, those of the tree whose bit is set in tree_mask[row], itself included; the arithmetic is that of
// a causal row over that list, so an accepted branch has the bits of plain decoding.
struct AttentionArgs {
  const float* q;  // [R, H, D]
  int64_t ld_q;
  float* out;  // [R, H, D]
  int64_t ld_out;
  const void* k_cache;  // [S, G, D] of kv_dtype
  const void* v_cache;  // [S, G, D]
  DType kv_dtype;
  int num_heads;
  int num_kv_heads;
  int head_dim;
  float scale;                 // usually 1/sqrt(D)
  int batch;                   // B
  const int32_t* qo_indptr;    // [B+1]
  const int32_t* kv_indptr;    // [B+1]
  const int32_t* kv_indices;   // [kv_indptr[B]]
  const uint8_t* tree_flags;   // [B], or null: all causal
  const int32_t* tree_cached;  // [B], read only where the flag is 1
  const uint64_t* tree_mask;   // [R], read only where the flag is 1
  int64_t max_kv_len;          // true maximum over the batch
  float* scratch;              // attention_scratch(...) floats
};

// Facts about one row of logits. Ties go to the lowest index. log_sum_exp is over all n, fixed order.
struct RowStats {
  int32_t argmax;
  float max;
  float log_sum_exp;
};

struct Ops {
  const char* name;  // "ref", "portable", "avx2", "avx512", "avx512-vnni"

  // Prepares `weight` ([N, K], float or block format). `quantise_to` (kQ8_0 or kQ4_1, only from float sources) rounds it
  // to that block format first; K must be a multiple of 32 then, else the weight is kept as it is. Threads share the work.
  Result<PackedWeight> (*pack)(const TensorView& weight, const DType* quantise_to, base::ThreadPool& pool);

  // All tasks share the input. Quantised weights (cpu): input rows are rounded to 8 bits in blocks of 32 with an fp32
  // scale; sums over K run block by block in ascending order. Rows beyond workspace.max_rows() are done in parts.
  void (*linear)(const LinearInput& input, std::span<const LinearTask> tasks, Workspace& workspace, base::ThreadPool& pool);

  // out[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight. out may be x. [R, K]
  void (*rms_norm)(const float* x, int64_t ld_x, const float* weight, float eps, int64_t rows, int64_t k, float* out, int64_t ld_out,
                   base::ThreadPool& pool);

  void (*rope_store)(const RopeStoreArgs& args, base::ThreadPool& pool);

  void (*attention)(const AttentionArgs& args, base::ThreadPool& pool);
  // Floats of scratch that `attention` needs for at most `rows` rows, `heads` query heads of `head_dim`, `max_kv_len` keys
  // and `threads` threads.
  int64_t (*attention_scratch)(int64_t rows, int heads, int head_dim, int64_t max_kv_len, int threads);

  // One row of n logits.
  RowStats (*row_stats)(const float* logits, int64_t n);
  // Lowest index of the largest value; NaN never wins unless all are NaN (then 0).
  int32_t (*argmax)(const float* logits, int64_t n);
  // out[i] = exp((logits[i] - max) * scale) for n logits; returns their sum, added in one fixed order. Sampling at
  // temperature 1/scale; out may be logits.
  float (*exp_row)(const float* logits, int64_t n, float max, float scale, float* out);

  // For the roofline: dot products of bytes by the instructions that `linear` uses, from registers, `rounds` times a few. Returns
  // the operations done (a product and its addition are two). Null: no such instructions.
  int64_t (*dot_loop)(int64_t rounds) = nullptr;
};

const Ops& RefOps();
// The kernels of one instruction set; `isa` must be supported by this processor (base::IsaSupported).
const Ops& CpuOps(base::Isa isa);

// Row `row` of a [rows, K] matrix of any dtype as K floats: embeddings, tests, the reference backend.
void DequantiseRow(const TensorView& matrix, int64_t row, float* out);

// Rounds K floats to blocks of `dtype` (kQ8_0, kQ4_0, kQ4_1), as ggml's reference rounding does.
void QuantiseRow(const float* x, int64_t k, DType dtype, uint8_t* out);

}  // namespace haast::kernels
