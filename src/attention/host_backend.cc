// Attention on the host: the kernels of one `Ops` table behind the planned interface.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/backend.h"
#include "base/check.h"
#include "base/format.h"

namespace haast::attention {
namespace {

constexpr CheckLevel kLevel =
#ifdef HAAST_CHECKED
    CheckLevel::kFull;
#else
    CheckLevel::kLaunch;
#endif

Status CheckHeads(const HeadShape& heads) {
  if (heads.num_heads < 1 || heads.num_kv_heads < 1 || heads.num_heads % heads.num_kv_heads != 0) {
    return Err(ErrorCode::kInvalidArgument, "attention: {} query heads cannot share {} KV heads evenly", heads.num_heads,
               heads.num_kv_heads);
  }
  if (heads.head_dim < 2 || heads.head_dim % 2 != 0) {
    return Err(ErrorCode::kInvalidArgument, "attention: head_dim is {}, expected an even number of at least 2", heads.head_dim);
  }
  if (!std::isfinite(heads.scale) || heads.scale <= 0.0f) {
    return Err(ErrorCode::kInvalidArgument, "attention: scale is {}, expected a positive number", heads.scale);
  }
  if (heads.kv_dtype != DType::kF16 && heads.kv_dtype != DType::kF32) {
    return Err(ErrorCode::kUnsupported, "attention: KV of type {}, expected F16 or F32", Info(heads.kv_dtype).name);
  }
  return {};
}

class HostBackend final : public Backend {
 public:
  HostBackend(const kernels::Ops& ops, base::ThreadPool& pool, int64_t max_rows, int64_t max_context)
      : ops_(ops), pool_(pool), max_rows_(max_rows), max_context_(max_context) {}

  Status AllocateScratch(const HeadShape& heads) {
    scratch_floats_ = ScratchFor(heads);
    HAAST_ASSIGN_OR_RETURN(scratch_, Buffer::Allocate(static_cast<size_t>(scratch_floats_) * sizeof(float), "attention scratch"));
    return {};
  }

  const char* name() const override { return ops_.name; }
  Status Plan(const ForwardMetadata& metadata, const LaunchShape& shape, const HeadShape& heads) override;
  void Run(float* q, int64_t ld_q, const float* k, int64_t ld_k, const float* v, int64_t ld_v, const float* cos, const float* sin,
           const LayerCache& cache, float* out) override;
  void Store(const float* k, int64_t ld_k, const float* v, int64_t ld_v, const float* cos, const float* sin,
             const LayerCache& cache) override;

 private:
  int64_t ScratchFor(const HeadShape& heads) const {
    return ops_.attention_scratch(max_rows_, heads.num_heads, heads.head_dim, max_context_, pool_.size());
  }
  Status CheckCapacity(const ForwardMetadata& metadata, const HeadShape& heads) const;
  const ForwardMetadata& Planned() const {
    HAAST_CHECK(metadata_ != nullptr) << "attention run without an accepted plan";
    return *metadata_;
  }
  void RopeStore(kernels::RopeStoreArgs args, const float* cos, const float* sin, const LayerCache& cache);

  const kernels::Ops& ops_;
  base::ThreadPool& pool_;
  const int64_t max_rows_;
  const int64_t max_context_;  // also the rows of the caller's cos and sin tables
  Buffer scratch_;
  int64_t scratch_floats_ = 0;
  // The planned launch; null after a refused one, so that nothing can run on stale metadata.
  const ForwardMetadata* metadata_ = nullptr;
  HeadShape heads_;
  bool any_tree_ = false;
};

Status HostBackend::CheckCapacity(const ForwardMetadata& metadata, const HeadShape& heads) const {
  const char* mode = ForwardModeName(metadata.mode);
  if (metadata.rows() > max_rows_) {
    return Err(ErrorCode::kInvalidArgument, "{}: {} rows but the {} backend was made for at most {}; split the launch", mode,
               metadata.rows(), name(), max_rows_);
  }
  if (metadata.max_kv_len > max_context_) {
    return Err(ErrorCode::kInvalidArgument, "{}: {} KV entries but the {} backend and its rope tables were made for at most {}", mode,
               metadata.max_kv_len, name(), max_context_);
  }
  HAAST_RETURN_IF_ERROR(CheckHeads(heads));
  const int64_t needed = ScratchFor(heads);
  if (needed > scratch_floats_) {
    return Err(ErrorCode::kInvalidArgument, "{}: {} heads of {} need {} floats of scratch but the {} backend has {}", mode, heads.num_heads,
               heads.head_dim, needed, name(), scratch_floats_);
  }
  return {};
}

Status HostBackend::Plan(const ForwardMetadata& metadata, const LaunchShape& shape, const HeadShape& heads) {
  metadata_ = nullptr;
#ifdef HAAST_CHECKED
  scratch_.Poison();
#endif
  // Every position is below kv_len (CheckLaunch), hence below max_context: no row leaves the rope tables.
  HAAST_RETURN_IF_ERROR(CheckLaunch(metadata, shape, kLevel));
  HAAST_RETURN_IF_ERROR(CheckCapacity(metadata, heads));
  metadata_ = &metadata;
  heads_ = heads;
  any_tree_ = std::any_of(metadata.tree_flags.begin(), metadata.tree_flags.end(), [](uint8_t flag) { return flag != 0; });
  return {};
}

// `args` has q, k and v; the rest is the planned launch's.
void HostBackend::RopeStore(kernels::RopeStoreArgs args, const float* cos, const float* sin, const LayerCache& cache) {
  const ForwardMetadata& m = Planned();
  args.rows = m.rows();
  args.num_kv_heads = heads_.num_kv_heads;
  args.head_dim = heads_.head_dim;
  args.interleaved = heads_.rope_interleaved;
  args.positions = m.positions.data();
  args.cos = cos;
  args.sin = sin;
  args.out_slots = m.out_slots.data();
  args.k_cache = cache.k;
  args.v_cache = cache.v;
  args.kv_dtype = heads_.kv_dtype;
  ops_.rope_store(args, pool_);
}

void HostBackend::Store(const float* k, int64_t ld_k, const float* v, int64_t ld_v, const float* cos, const float* sin,
                        const LayerCache& cache) {
  if (Planned().rows() == 0) return;
  RopeStore({.k = k, .ld_k = ld_k, .v = v, .ld_v = ld_v, .num_heads = 0}, cos, sin, cache);
}

void HostBackend::Run(float* q, int64_t ld_q, const float* k, int64_t ld_k, const float* v, int64_t ld_v, const float* cos,
                      const float* sin, const LayerCache& cache, float* out) {
  const ForwardMetadata& m = Planned();
  if (m.rows() == 0) return;
  const int64_t query_width = int64_t{heads_.num_heads} * heads_.head_dim;
  RopeStore({.q = q, .ld_q = ld_q, .k = k, .ld_k = ld_k, .v = v, .ld_v = ld_v, .num_heads = heads_.num_heads}, cos, sin, cache);
  ops_.attention({.q = q,
                  .ld_q = ld_q,
                  .out = out,
                  .ld_out = query_width,
                  .k_cache = cache.k,
                  .v_cache = cache.v,
                  .kv_dtype = heads_.kv_dtype,
                  .num_heads = heads_.num_heads,
                  .num_kv_heads = heads_.num_kv_heads,
                  .head_dim = heads_.head_dim,
                  .scale = heads_.scale,
                  .batch = m.batch(),
                  .qo_indptr = m.qo_indptr.data(),
                  .kv_indptr = m.kv_indptr.data(),
                  .kv_indices = m.kv_indices.data(),
                  .tree_flags = any_tree_ ? m.tree_flags.data() : nullptr,
                  .tree_cached = m.tree_cached.data(),
                  .tree_mask = m.tree_mask.data(),
                  .max_kv_len = m.max_kv_len,
                  .scratch = scratch_.as<float>()},
                 pool_);
}

}  // namespace

Result<std::unique_ptr<Backend>> MakeHostBackend(const kernels::Ops& ops, base::ThreadPool& pool, const HeadShape& heads, int64_t max_rows,
                                                 int64_t max_context) {
  HAAST_RETURN_IF_ERROR(CheckHeads(heads));
  if (max_rows < 1 || max_context < 1 || max_context > std::numeric_limits<int32_t>::max()) {
    return Err(ErrorCode::kInvalidArgument, "attention: room for {} rows and {} tokens of context; both must be at least 1 and fit 32 bits",
               max_rows, max_context);
  }
  auto backend = std::make_unique<HostBackend>(ops, pool, max_rows, max_context);
  HAAST_RETURN_IF_ERROR(backend->AllocateScratch(heads));
  return backend;
}

}  // namespace haast::attention
