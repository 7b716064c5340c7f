#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/ref/ref.h"

namespace haast::kernels::ref {
namespace {

// One head of one row: [D].
void RotateHead(const RopeStoreArgs& args, int64_t position, const float* x, float* out) {
  const int half = args.head_dim / 2;
  const float* cos = args.cos + position * half;
  const float* sin = args.sin + position * half;
  for (int i = 0; i < half; ++i) {
    const int first = args.interleaved ? 2 * i : i;
    const int second = args.interleaved ? 2 * i + 1 : i + half;
    const float a = x[first];
    const float b = x[second];
    out[first] = a * cos[i] - b * sin[i];
    out[second] = b * cos[i] + a * sin[i];
  }
}

void StoreHead(const float* x, int head_dim, DType dtype, void* cache, int64_t element) {
  if (dtype == DType::kF32) {
    std::memcpy(static_cast<float*>(cache) + element, x, static_cast<size_t>(head_dim) * sizeof(float));
    return;
  }
  uint16_t* out = static_cast<uint16_t*>(cache) + element;
  for (int i = 0; i < head_dim; ++i) out[i] = FloatToHalf(x[i]);
}

// K or V of all entries of one sequence as floats: [kv_len, G, D]. This thread's share.
void LoadEntries(const AttentionArgs& args, const void* cache, const int32_t* entries, std::pair<int64_t, int64_t> share, float* out) {
  const int64_t width = static_cast<int64_t>(args.num_kv_heads) * args.head_dim;
  for (int64_t t = share.first; t < share.second; ++t) {
    const int64_t element = entries[t] * width;
    for (int64_t i = 0; i < width; ++i) {
      out[t * width + i] = args.kv_dtype == DType::kF32 ? static_cast<const float*>(cache)[element + i]
                                                        : HalfToFloat(static_cast<const uint16_t*>(cache)[element + i]);
    }
  }
}

// The entries (indices into the sequence's kv_indices) that row j of sequence b sees, in order.
void VisibleEntries(const AttentionArgs& args, int b, int64_t j, std::vector<int64_t>* visible) {
  const int64_t q_len = args.qo_indptr[b + 1] - args.qo_indptr[b];
  const int64_t entries = args.kv_indptr[b + 1] - args.kv_indptr[b];
  const bool tree = args.tree_flags != nullptr && args.tree_flags[b] != 0;
  const int64_t before = entries - q_len - (tree ? args.tree_cached[b] : 0);
  visible->clear();
  for (int64_t t = 0; t < entries; ++t) {
    const bool seen = t < before || (tree ? ((args.tree_mask[args.qo_indptr[b] + j] >> (t - before)) & 1) != 0 : t - before <= j);
    if (seen) visible->push_back(t);
  }
}

// Head h of one row. `k`, `v`: the KV head's first element of entry 0; entries are `stride` floats apart.
void AttendHead(const AttentionArgs& args, int64_t row, int h, const float* k, const float* v, const std::vector<int64_t>& visible,
                std::vector<float>* scores) {
  const int dim = args.head_dim;
  const int64_t stride = static_cast<int64_t>(args.num_kv_heads) * dim;
  const float* q = args.q + row * args.ld_q + h * dim;
  scores->clear();
  for (int64_t t : visible) scores->push_back(args.scale * Dot(q, k + t * stride, dim));
  const float max = *std::max_element(scores->begin(), scores->end());
  float sum = 0.0f;
  for (float& score : *scores) {
    score = std::exp(score - max);
    sum += score;
  }
  float* out = args.out + row * args.ld_out + h * dim;
  std::fill(out, out + dim, 0.0f);
  for (size_t i = 0; i < visible.size(); ++i) {
    const float p = (*scores)[i] / sum;
    const float* value = v + visible[i] * stride;
    for (int d = 0; d < dim; ++d) out[d] += p * value[d];
  }
}

}  // namespace

void RopeStore(const RopeStoreArgs& args, base::ThreadPool& pool) {
  const int dim = args.head_dim;
  pool.Run([&](int thread, int threads) {
    std::vector<float> head(static_cast<size_t>(dim));
    const auto [begin, end] = base::Share(args.rows, thread, threads);
    for (int64_t r = begin; r < end; ++r) {
      for (int h = 0; h < args.num_heads; ++h) {
        float* q = args.q + r * args.ld_q + h * dim;
        RotateHead(args, args.positions[r], q, q);
      }
      for (int g = 0; g < args.num_kv_heads; ++g) {
        const int64_t element = (static_cast<int64_t>(args.out_slots[r]) * args.num_kv_heads + g) * dim;
        RotateHead(args, args.positions[r], args.k + r * args.ld_k + g * dim, head.data());
        StoreHead(head.data(), dim, args.kv_dtype, args.k_cache, element);
        StoreHead(args.v + r * args.ld_v + g * dim, dim, args.kv_dtype, args.v_cache, element);
      }
    }
  });
}

void Attention(const AttentionArgs& args, base::ThreadPool& pool) {
  const int group = args.num_heads / args.num_kv_heads;
  const int64_t width = static_cast<int64_t>(args.num_kv_heads) * args.head_dim;
  std::vector<float> k(static_cast<size_t>(args.max_kv_len * width));
  std::vector<float> v(k.size());
  pool.Run([&](int thread, int threads) {
    std::vector<int64_t> visible;
    std::vector<float> scores;
    for (int b = 0; b < args.batch; ++b) {
      const int64_t kv_len = args.kv_indptr[b + 1] - args.kv_indptr[b];
      HAAST_CHECK(kv_len <= args.max_kv_len) << kv_len << " keys, maximum " << args.max_kv_len;
      const int32_t* entries = args.kv_indices + args.kv_indptr[b];
      LoadEntries(args, args.k_cache, entries, base::Share(kv_len, thread, threads), k.data());
      LoadEntries(args, args.v_cache, entries, base::Share(kv_len, thread, threads), v.data());
      pool.Barrier();
      for (int64_t row = args.qo_indptr[b] + thread; row < args.qo_indptr[b + 1]; row += threads) {
        VisibleEntries(args, b, row - args.qo_indptr[b], &visible);
        for (int h = 0; h < args.num_heads; ++h) {
          const int64_t head = h / group * static_cast<int64_t>(args.head_dim);
          AttendHead(args, row, h, k.data() + head, v.data() + head, visible, &scores);
        }
      }
      pool.Barrier();
    }
  });
}

int64_t AttentionScratch(int64_t, int, int, int64_t, int) { return 0; }

}  // namespace haast::kernels::ref
