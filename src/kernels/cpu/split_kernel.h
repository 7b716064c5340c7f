// One split of attention: the body of RowKernels::attend_split for the instruction set that the including file chose.
//
// Three passes over at most kSplitKeys keys: scores of all pairs (K transposed in blocks of kKeyBlock, so that lanes are keys and
// no sum runs across lanes), weights e^(score - max), then the weighted sum of V (lanes are dimensions). Every score and every
// output element is one chain, so the result depends neither on the vector width nor on which pairs are computed together.
#pragma once

#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/vec_math.h"

namespace haast::kernels {
namespace {

inline const uint8_t* SlotAddress(const uint8_t* base, int32_t slot, int64_t slot_bytes) { return base + slot * slot_bytes; }

inline float LoadElement(const uint8_t* row, int d, bool half) {
  if (!half) {
    float x;
    std::memcpy(&x, row + 4 * d, sizeof(x));
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, row + 2 * d, sizeof(bits));
#if defined(HAAST_VEC_PORTABLE)
  return HalfToFloat(bits);
#elif defined(HAAST_VEC_NEON)
  return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(bits))), 0);
#else
  return _mm_cvtss_f32(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
#endif
}

template <bool kHalf>
inline F LoadElements(const uint8_t* row, int d) {
  if constexpr (kHalf) {
    return LoadHalf(row + 2 * d);
  } else {
    return Load(reinterpret_cast<const float*>(row) + d);
  }
}

// Rows that will be read soon. They are asked for one cache line at a time between arithmetic: no prefetcher of the processor sees a
// pattern in one head's share of scattered slots, and a burst of requests would only wait for itself.
struct Ahead {
  const uint8_t* base;
  const int32_t* slots;
  int keys;
  int row_bytes;
  int64_t slot_bytes;
  int key = 0;
  int byte = 0;

  void Step() {
    if (key == keys) return;
    __builtin_prefetch(SlotAddress(base, slots[key], slot_bytes) + byte);
    byte += 64;
    if (byte >= row_bytes) {
      byte = 0;
      ++key;
    }
  }
};

// ---- K, transposed -----------------------------------------------------------------------------------------------------------

#if defined(HAAST_VEC_AVX2) || defined(HAAST_VEC_AVX512)

// 8 keys x 16 dimensions of f16 to tile[d .. d + 16)[0..8): both 128-bit halves of a register are transposed at once.
inline void TransposeHalf(const uint8_t* const* rows, int d, float* tile) {
  __m256i x[8];
  for (int i = 0; i < 8; ++i) x[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows[i] + 2 * d));
  __m256i y[8];
  for (int i = 0; i < 4; ++i) {  // keys 2i, 2i + 1 interleaved: dimensions 0-3, 4-7
    y[2 * i] = _mm256_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
    y[2 * i + 1] = _mm256_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {  // keys 4i .. 4i + 3: dimensions 0-1, 2-3, 4-5, 6-7
    x[4 * i + 0] = _mm256_unpacklo_epi32(y[4 * i], y[4 * i + 2]);
    x[4 * i + 1] = _mm256_unpackhi_epi32(y[4 * i], y[4 * i + 2]);
    x[4 * i + 2] = _mm256_unpacklo_epi32(y[4 * i + 1], y[4 * i + 3]);
    x[4 * i + 3] = _mm256_unpackhi_epi32(y[4 * i + 1], y[4 * i + 3]);
  }
  for (int i = 0; i < 4; ++i) {
    const __m256i even = _mm256_unpacklo_epi64(x[i], x[4 + i]);  // dimensions 2i and 2i + 8
    const __m256i odd = _mm256_unpackhi_epi64(x[i], x[4 + i]);
    float* out = tile + (d + 2 * i) * kKeyBlock;
    _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm256_castsi256_si128(even)));
    _mm256_storeu_ps(out + kKeyBlock, _mm256_cvtph_ps(_mm256_castsi256_si128(odd)));
    _mm256_storeu_ps(out + 8 * kKeyBlock, _mm256_cvtph_ps(_mm256_extracti128_si256(even, 1)));
    _mm256_storeu_ps(out + 9 * kKeyBlock, _mm256_cvtph_ps(_mm256_extracti128_si256(odd, 1)));
  }
}

// 8 keys x 8 dimensions of f32 to tile[d][0..8).
inline void TransposeFloat(const uint8_t* const* rows, int d, float* tile) {
  __m256 x[8];
  for (int i = 0; i < 8; ++i) x[i] = _mm256_loadu_ps(reinterpret_cast<const float*>(rows[i]) + d);
  __m256 y[8];
  for (int i = 0; i < 4; ++i) {
    y[2 * i] = _mm256_unpacklo_ps(x[2 * i], x[2 * i + 1]);
    y[2 * i + 1] = _mm256_unpackhi_ps(x[2 * i], x[2 * i + 1]);
  }
  for (int i = 0; i < 2; ++i) {
    x[4 * i + 0] = _mm256_shuffle_ps(y[4 * i], y[4 * i + 2], 0x44);
    x[4 * i + 1] = _mm256_shuffle_ps(y[4 * i], y[4 * i + 2], 0xee);
    x[4 * i + 2] = _mm256_shuffle_ps(y[4 * i + 1], y[4 * i + 3], 0x44);
    x[4 * i + 3] = _mm256_shuffle_ps(y[4 * i + 1], y[4 * i + 3], 0xee);
  }
  for (int i = 0; i < 4; ++i) {
    _mm256_storeu_ps(tile + (d + i) * kKeyBlock, _mm256_permute2f128_ps(x[i], x[4 + i], 0x20));
    _mm256_storeu_ps(tile + (d + 4 + i) * kKeyBlock, _mm256_permute2f128_ps(x[i], x[4 + i], 0x31));
  }
}

#endif

// tile[d][i] = K of slot i of `slots`, dimension d; `count` in 1..kKeyBlock. What columns beyond it hold is never used.
inline void LoadKeys(const SplitTask& task, const int32_t* slots, int count) {
  const uint8_t* rows[kKeyBlock];
  for (int i = 0; i < kKeyBlock; ++i) rows[i] = SlotAddress(task.k, slots[i < count ? i : count - 1], task.slot_bytes);
  int d = 0;
#if defined(HAAST_VEC_AVX2) || defined(HAAST_VEC_AVX512)
  if (task.half) {
    for (; d + 16 <= task.head_dim; d += 16) {
      for (int i = 0; i < count; i += 8) TransposeHalf(rows + i, d, task.k_tile + i);
    }
  } else {
    for (; d + 8 <= task.head_dim; d += 8) {
      for (int i = 0; i < count; i += 8) TransposeFloat(rows + i, d, task.k_tile + i);
    }
  }
#endif
  for (; d < task.head_dim; ++d) {
    for (int i = 0; i < kKeyBlock; ++i) task.k_tile[d * kKeyBlock + i] = LoadElement(rows[i], d, task.half);
  }
}

// ---- scores ------------------------------------------------------------------------------------------------------------------

// Pairs 0..kRows of one block against kVectors vectors of keys.
template <int kRows, int kVectors>
inline void ScoreTile(const float* q, const float* tile, int head_dim, float* scores, Ahead* ahead) {
  Ahead soon = *ahead;
  F sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) sum[r][c] = Zero();
  }
  for (int d = 0; d < head_dim; ++d) {
    soon.Step();
    F key[kVectors];
    for (int c = 0; c < kVectors; ++c) key[c] = Load(tile + d * kKeyBlock + c * kLanes);
    for (int r = 0; r < kRows; ++r) {
      const F query = Set1(q[d * kPairBlock + r]);
      for (int c = 0; c < kVectors; ++c) sum[r][c] = Fma(query, key[c], sum[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) Store(scores + r * kSplitKeys + c * kLanes, sum[r][c]);
  }
  *ahead = soon;
}

// Twelve accumulators keep both multipliers busy and fit into sixteen registers with their operands.
template <int kRows>
inline void ScoreRows(const float* q, const float* tile, int count, int head_dim, float* scores, Ahead* ahead) {
  constexpr int kAll = kKeyBlock / kLanes;
  constexpr int kVectors = kRows <= 3 || kAll <= 2 ? kAll : kAll / 2;
  for (int i = 0; i < count; i += kVectors * kLanes) ScoreTile<kRows, kVectors>(q, tile + i, head_dim, scores + i, ahead);
}

inline void ScoreBlock(int rows, const float* q, const float* tile, int count, int head_dim, float* scores, Ahead* ahead) {
  switch (rows) {
    case 1: return ScoreRows<1>(q, tile, count, head_dim, scores, ahead);
    case 2: return ScoreRows<2>(q, tile, count, head_dim, scores, ahead);
    case 3: return ScoreRows<3>(q, tile, count, head_dim, scores, ahead);
    case 4: return ScoreRows<4>(q, tile, count, head_dim, scores, ahead);
    case 5: return ScoreRows<5>(q, tile, count, head_dim, scores, ahead);
    default: return ScoreRows<6>(q, tile, count, head_dim, scores, ahead);
  }
}

// ---- weights -----------------------------------------------------------------------------------------------------------------

// Turns the first `count` scores into weights and the rest of their last 16 into zeros.
inline void Weights(float* scores, int count, float* max_out, float* sum_out) {
  const int full = count / kWideLanes * kWideLanes;
  const int rest = count - full;
  if (rest > 0) StoreWide(scores + full, LoadWideTail(scores + full, rest, -kInfinity));
  Wide max = SetWide(-kInfinity);
  for (int i = 0; i < count; i += kWideLanes) {
    for (int p = 0; p < kParts; ++p) max.part[p] = Max(Load(scores + i + p * kLanes), max.part[p]);
  }
  const float largest = MaxWide(max);
  const F offset = Set1(largest);
  Wide sum = SetWide(0.0f);
  for (int i = 0; i < count; i += kWideLanes) {
    for (int p = 0; p < kParts; ++p) {
      const F weight = ExpToZero(Sub(Load(scores + i + p * kLanes), offset));
      Store(scores + i + p * kLanes, weight);
      sum.part[p] = Add(sum.part[p], weight);
    }
  }
  *max_out = largest;
  *sum_out = SumWide(sum);
}

// ---- weighted sum of V -------------------------------------------------------------------------------------------------------

// Keys [begin, end) for kRows pairs and kVectors vectors of dimensions from d on; begin > 0 continues from `out`.
template <bool kHalf, int kRows, int kVectors>
inline void ValueTile(const SplitTask& task, const float* weights, int begin, int end, int d, float* out) {
  // With each row of V the first pairs fetch the same part of the next task's K row, once a cache line.
  constexpr int kBytes = kHalf ? 2 : 4;
  const bool fetch = task.next_k != nullptr && weights == task.scores && d * kBytes % 64 == 0;
  const uint8_t* next = fetch ? task.next_k + d * kBytes : nullptr;
  F sum[kRows][kVectors];
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) sum[r][c] = begin == 0 ? Zero() : Load(out + r * task.head_dim + d + c * kLanes);
  }
  for (int j = begin; j < end; ++j) {
    const uint8_t* row = SlotAddress(task.v, task.slots[j], task.slot_bytes);
    if (fetch) {
      const uint8_t* next_row = SlotAddress(next, task.next_slots[j], task.slot_bytes);
      for (int b = 0; b < kVectors * kLanes * kBytes; b += 64) __builtin_prefetch(next_row + b);
    }
    if constexpr (kRows < kVectors) {  // the shorter side stays in registers beside the sums
      F weight[kRows];
      for (int r = 0; r < kRows; ++r) weight[r] = Set1(weights[r * kSplitKeys + j]);
      for (int c = 0; c < kVectors; ++c) {
        const F value = LoadElements<kHalf>(row, d + c * kLanes);
        for (int r = 0; r < kRows; ++r) sum[r][c] = Fma(weight[r], value, sum[r][c]);
      }
    } else {
      F value[kVectors];
      for (int c = 0; c < kVectors; ++c) value[c] = LoadElements<kHalf>(row, d + c * kLanes);
      for (int r = 0; r < kRows; ++r) {
        const F weight = Set1(weights[r * kSplitKeys + j]);
        for (int c = 0; c < kVectors; ++c) sum[r][c] = Fma(weight, value[c], sum[r][c]);
      }
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kVectors; ++c) Store(out + r * task.head_dim + d + c * kLanes, sum[r][c]);
  }
}

template <bool kHalf, int kRows>
inline void ValueRows(const SplitTask& task, const float* weights, int begin, int end, float* out) {
  constexpr int kVectors = (kRows == 1 ? 64 : kRows <= 3 ? 32 : 16) / kLanes;
  int d = 0;
  for (; d + kVectors * kLanes <= task.head_dim; d += kVectors * kLanes) {
    ValueTile<kHalf, kRows, kVectors>(task, weights, begin, end, d, out);
  }
  for (; d + kLanes <= task.head_dim; d += kLanes) ValueTile<kHalf, kRows, 1>(task, weights, begin, end, d, out);
  for (; d < task.head_dim; ++d) {
    for (int r = 0; r < kRows; ++r) {
      float sum = begin == 0 ? 0.0f : out[r * task.head_dim + d];
      for (int j = begin; j < end; ++j) {
        const uint8_t* row = SlotAddress(task.v, task.slots[j], task.slot_bytes);
        sum = __builtin_fmaf(weights[r * kSplitKeys + j], LoadElement(row, d, kHalf), sum);
      }
      out[r * task.head_dim + d] = sum;
    }
  }
}

template <bool kHalf>
inline void ValueBlock(int rows, const SplitTask& task, const float* weights, int begin, int end, float* out) {
  switch (rows) {
    case 1: return ValueRows<kHalf, 1>(task, weights, begin, end, out);
    case 2: return ValueRows<kHalf, 2>(task, weights, begin, end, out);
    case 3: return ValueRows<kHalf, 3>(task, weights, begin, end, out);
    case 4: return ValueRows<kHalf, 4>(task, weights, begin, end, out);
    case 5: return ValueRows<kHalf, 5>(task, weights, begin, end, out);
    default: return ValueRows<kHalf, 6>(task, weights, begin, end, out);
  }
}

// The keys that all pairs of the block see together, then the rest of each: what a pair does not see never enters its sums.
inline void ValuePass(const SplitTask& task, int first_pair, int rows) {
  const float* weights = task.scores + static_cast<int64_t>(first_pair) * kSplitKeys;
  float* out = task.out + static_cast<int64_t>(first_pair) * task.head_dim;
  int common = task.keys;
  for (int r = 0; r < rows; ++r) {
    const int count = task.counts[(first_pair + r) / task.group];
    common = count < common ? count : common;
  }
  const auto run = task.half ? ValueBlock<true> : ValueBlock<false>;
  run(rows, task, weights, 0, common, out);
  for (int r = 0; r < rows; ++r) {
    const int count = task.counts[(first_pair + r) / task.group];
    if (count > common) run(1, task, weights + r * kSplitKeys, common, count, out + r * task.head_dim);
  }
}

inline void AttendSplit(const SplitTask& task) {
  const int pairs = task.rows * task.group;
  Ahead values{task.v, task.slots, task.keys, task.head_dim * (task.half ? 2 : 4), task.slot_bytes};
  for (int key = 0; key < task.keys; key += kKeyBlock) {
    const int count = task.keys - key < kKeyBlock ? task.keys - key : kKeyBlock;
    LoadKeys(task, task.slots + key, count);
    for (int pair = 0; pair < pairs; pair += kPairBlock) {
      const int rows = pairs - pair < kPairBlock ? pairs - pair : kPairBlock;
      ScoreBlock(rows, task.q + static_cast<int64_t>(pair) * task.head_dim, task.k_tile, count, task.head_dim,
                 task.scores + static_cast<int64_t>(pair) * kSplitKeys + key, &values);
    }
  }
  for (int pair = 0; pair < pairs; ++pair) {
    Weights(task.scores + static_cast<int64_t>(pair) * kSplitKeys, task.counts[pair / task.group], task.max + pair, task.sum + pair);
  }
  for (int pair = 0; pair < pairs; pair += kPairBlock) ValuePass(task, pair, pairs - pair < kPairBlock ? pairs - pair : kPairBlock);
}

}  // namespace
}  // namespace haast::kernels
