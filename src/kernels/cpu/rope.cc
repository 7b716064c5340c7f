#include <algorithm>
#include <vector>

#include "base/check.h"
#include "kernels/cpu/attention.h"

namespace haast::kernels {
namespace {

// One head: [D].
void Rotate(const RopeStoreArgs& args, int64_t position, const float* x, float* out) {
  const int half = args.head_dim / 2;
  const float* cos = args.cos + position * half;
  const float* sin = args.sin + position * half;
  const int step = args.interleaved ? 2 : 1;
  const int partner = args.interleaved ? 1 : half;
  for (int i = 0; i < half; ++i) {
    const float a = x[step * i];
    const float b = x[step * i + partner];
    out[step * i] = a * cos[i] - b * sin[i];
    out[step * i + partner] = b * cos[i] + a * sin[i];
  }
}

void Store(const RowKernels& kernels, const float* x, int head_dim, DType dtype, void* cache, int64_t element) {
  if (dtype == DType::kF16) {
    kernels.to_half(x, head_dim, static_cast<uint16_t*>(cache) + element);
  } else {
    std::copy(x, x + head_dim, static_cast<float*>(cache) + element);
  }
}

}  // namespace

void RotateAndStore(const RowKernels& kernels, const RopeStoreArgs& args, base::ThreadPool& pool) {
  constexpr int kUsualHeadDim = 1024;  // larger heads work, with an allocation a launch
  const int dim = args.head_dim;
  HAAST_CHECK(dim % 2 == 0) << "head_dim " << dim;
  pool.Run([&](int thread, int threads) {
    float usual[kUsualHeadDim];
    std::vector<float> large(dim > kUsualHeadDim ? static_cast<size_t>(dim) : 0);
    float* rotated = large.empty() ? usual : large.data();
    const auto [begin, end] = base::Share(args.rows, thread, threads);
    for (int64_t r = begin; r < end; ++r) {
      for (int h = 0; h < args.num_heads; ++h) {
        float* q = args.q + r * args.ld_q + static_cast<int64_t>(h) * dim;
        Rotate(args, args.positions[r], q, q);
      }
      for (int g = 0; g < args.num_kv_heads; ++g) {
        const int64_t element = (static_cast<int64_t>(args.out_slots[r]) * args.num_kv_heads + g) * dim;
        Rotate(args, args.positions[r], args.k + r * args.ld_k + static_cast<int64_t>(g) * dim, rotated);
        Store(kernels, rotated, dim, args.kv_dtype, args.k_cache, element);
        Store(kernels, args.v + r * args.ld_v + static_cast<int64_t>(g) * dim, dim, args.kv_dtype, args.v_cache, element);
      }
    }
  });
}

}  // namespace haast::kernels
