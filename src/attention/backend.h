// Attention as models call it: planned once a launch, run once a layer.
#pragma once

#include <memory>

#include "attention/metadata.h"
#include "attention/metadata_check.h"
#include "kernels/ops.h"

namespace haast::attention {

// K and V of one layer: [slots, kv_heads, head_dim] of dtype each.
struct LayerCache {
  void* k = nullptr;
  void* v = nullptr;
};

// Heads of one model.
struct HeadShape {
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  float scale = 0.0f;
  bool rope_interleaved = false;
  DType kv_dtype = DType::kF16;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual const char* name() const = 0;

  // Checks the launch (metadata_check.h; refused launches run nothing) and prepares it. `metadata` must stay unchanged
  // until the last Run.
  virtual Status Plan(const ForwardMetadata& metadata, const LaunchShape& shape, const HeadShape& heads) = 0;

  // One layer of the planned launch: rotates q and k, writes K and V to out_slots, attends. `q`, `k`, `v` are row-major
  // with strides in floats (they may be parts of one fused buffer); out [R, H*D] dense. cos, sin: [max_position, D/2].
  virtual void Run(float* q, int64_t ld_q, const float* k, int64_t ld_k, const float* v, int64_t ld_v, const float* cos, const float* sin,
                   const LayerCache& cache, float* out) = 0;

  // Of Run only what later launches read: K and V, for a layer whose output nobody reads.
  virtual void Store(const float* k, int64_t ld_k, const float* v, int64_t ld_v, const float* cos, const float* sin,
                     const LayerCache& cache) = 0;
};

// The backend that runs `ops` (reference or CPU kernels). `ops` and `pool` outlive it. `max_rows` and `max_context` size its
// scratch once.
Result<std::unique_ptr<Backend>> MakeHostBackend(const kernels::Ops& ops, base::ThreadPool& pool, const HeadShape& heads, int64_t max_rows,
                                                 int64_t max_context);

}  // namespace haast::attention
