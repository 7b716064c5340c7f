// The input side of `linear`, one row at a time: prologue, rounding to 8 bits, interleaving of register blocks. Included by
// one file per instruction set; see linear_vec.h.
#pragma once

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/linear_vec.h"

namespace haast::kernels {
namespace {

// ---- integer reductions (exact, so any order) and narrow stores ----

#if defined(HAAST_VEC_PORTABLE)
inline int MaxLane(const I& a) {
  int result = a.v[0];
  for (int i = 1; i < 16; ++i) result = a.v[i] > result ? a.v[i] : result;
  return result;
}
inline int SumLanes(const I& a) {
  int result = 0;
  for (int i = 0; i < 16; ++i) result += a.v[i];
  return result;
}
inline void StoreBytes(int8_t* p, const I (&a)[kParts]) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a[0].v[i]);
}
inline float Sqrt(float x) { return __builtin_sqrtf(x); }
#elif defined(HAAST_VEC_NEON)
inline int MaxLane(I a) { return vmaxvq_s32(a); }
inline int SumLanes(I a) { return vaddvq_s32(a); }
inline void StoreBytes(int8_t* p, const I (&a)[kParts]) {
  const int16x8_t low = vcombine_s16(vqmovn_s32(a[0]), vqmovn_s32(a[1]));
  const int16x8_t high = vcombine_s16(vqmovn_s32(a[2]), vqmovn_s32(a[3]));
  vst1q_s8(p, vcombine_s8(vqmovn_s16(low), vqmovn_s16(high)));
}
inline float Sqrt(float x) { return __builtin_sqrtf(x); }
#else
inline int MaxLane(__m256i a) {
  __m128i b = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  b = _mm_max_epi32(b, _mm_shuffle_epi32(b, 0x4e));
  b = _mm_max_epi32(b, _mm_shuffle_epi32(b, 0xb1));
  return _mm_cvtsi128_si32(b);
}
inline int SumLanes(__m256i a) {
  __m128i b = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0x4e));
  b = _mm_add_epi32(b, _mm_shuffle_epi32(b, 0xb1));
  return _mm_cvtsi128_si32(b);
}
inline float Sqrt(float x) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }
#if defined(HAAST_VEC_AVX512)
inline int MaxLane(__m512i a) { return MaxLane(_mm256_max_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1))); }
inline int SumLanes(__m512i a) { return SumLanes(_mm256_add_epi32(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1))); }
inline void StoreBytes(int8_t* p, const I (&a)[kParts]) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(a[0])); }
#else
inline void StoreBytes(int8_t* p, const I (&a)[kParts]) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a[0], a[1]), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}
#endif
#endif

// ---- prologues ----

// Four chains of 16 lanes; the 16 elements at i belong to chain (i / 16) % 4.
inline float RmsScale(const float* x, float eps, int64_t k) {
  Wide sum[4];
  for (Wide& s : sum) {
    for (F& f : s.part) f = Zero();
  }
  int chain = 0;
  int64_t i = 0;
  for (; i + kWideLanes <= k; i += kWideLanes, chain = (chain + 1) % 4) {
    for (int p = 0; p < kParts; ++p) {
      const F v = Load(x + i + p * kLanes);
      sum[chain].part[p] = Fma(v, v, sum[chain].part[p]);
    }
  }
  if (i < k) {
    const Wide v = LoadWideTail(x + i, k - i);
    for (int p = 0; p < kParts; ++p) sum[chain].part[p] = Fma(v.part[p], v.part[p], sum[chain].part[p]);
  }
  for (int p = 0; p < kParts; ++p) {
    sum[0].part[p] = Add(Add(sum[0].part[p], sum[1].part[p]), Add(sum[2].part[p], sum[3].part[p]));
  }
  return 1.0f / Sqrt(SumWide(sum[0]) / static_cast<float>(k) + eps);
}

inline F Silu(F x) { return Div(x, Add(Set1(1.0f), Exp(Sub(Zero(), x)))); }

// The row that enters the product: `Get(i)` is its 16 elements at i, `Tail(i, count)` fewer of them.
struct RowReader {
  const float* x;
  const float* other = nullptr;  // norm weight or up
  float scale = 1.0f;            // of the norm

  template <Prologue kPrologue>
  Wide Apply(Wide a, const Wide& b) const {
    for (int p = 0; p < kParts; ++p) {
      if constexpr (kPrologue == Prologue::kRmsNorm) a.part[p] = Mul(Mul(a.part[p], Set1(scale)), b.part[p]);
      if constexpr (kPrologue == Prologue::kSiluMul) a.part[p] = Mul(Silu(a.part[p]), b.part[p]);
    }
    return a;
  }
  template <Prologue kPrologue>
  Wide Get(int64_t i) const {
    if constexpr (kPrologue == Prologue::kNone) return LoadWide(x + i);
    return Apply<kPrologue>(LoadWide(x + i), LoadWide(other + i));
  }
  template <Prologue kPrologue>
  Wide Tail(int64_t i, int64_t count) const {
    if constexpr (kPrologue == Prologue::kNone) return LoadWideTail(x + i, count);
    return Apply<kPrologue>(LoadWideTail(x + i, count), LoadWideTail(other + i, count));
  }
};

template <Prologue kPrologue>
inline RowReader Reader(const PrepareArgs& args) {
  const LinearInput& in = *args.input;
  RowReader reader{.x = in.x + args.row * in.ld_x};
  if constexpr (kPrologue == Prologue::kRmsNorm) {
    reader.other = in.norm_weight;
    reader.scale = RmsScale(reader.x, in.eps, args.k);
  }
  if constexpr (kPrologue == Prologue::kSiluMul) reader.other = in.up + args.row * in.ld_x;
  return reader;
}

template <Prologue kPrologue>
inline void WriteRow(const RowReader& reader, int64_t k, float* out) {
  int64_t i = 0;
  for (; i + kWideLanes <= k; i += kWideLanes) StoreWide(out + i, reader.template Get<kPrologue>(i));
  if (i < k) StoreWideTail(out + i, reader.template Tail<kPrologue>(i, k - i), k - i);
}

inline void RmsNormRow(const float* x, const float* weight, float eps, int64_t k, float* out) {
  WriteRow<Prologue::kRmsNorm>({.x = x, .other = weight, .scale = RmsScale(x, eps, k)}, k, out);
}
inline void SiluMulRow(const float* x, const float* up, int64_t k, float* out) {
  WriteRow<Prologue::kSiluMul>({.x = x, .other = up}, k, out);
}

// ---- the two prepared forms ----

struct QuantScale {
  float d;  // value = d * q
  float inverse;
};

// Largest magnitude to 127. Its bits are compared as integers, so NaN counts as the largest and poisons the block. Blocks
// so small that the inverse overflows become 0.
inline QuantScale ScaleOf(int magnitude_bits) {
  float largest;
  std::memcpy(&largest, &magnitude_bits, sizeof(largest));
  if (largest < 1e-36f) return {0.0f, 0.0f};
  return {largest / 127.0f, 127.0f / largest};
}

template <Prologue kPrologue>
void PrepareQuant(const PrepareArgs& args) {
  const RowReader reader = Reader<kPrologue>(args);
  const ActOffsets at = ActLayout(args.group);
  uint8_t* out = args.out + args.begin / kBlock * at.size;
  for (int64_t i = args.begin; i < args.end; i += kBlock, out += at.size) {
    const Wide y[2] = {reader.template Get<kPrologue>(i), reader.template Get<kPrologue>(i + kWideLanes)};
    const I magnitude = SetI(0x7fffffff);
    I largest = SetI(0);
    for (const Wide& half : y) {
      for (const F& f : half.part) largest = MaxI(largest, AndI(Bits(f), magnitude));
    }
    const QuantScale scale = ScaleOf(MaxLane(largest));
    int sum[2];
    for (int h = 0; h < 2; ++h) {
      I q[kParts];
      for (int p = 0; p < kParts; ++p) q[p] = MaxI(Round(Mul(y[h].part[p], Set1(scale.inverse))), SetI(-127));
      StoreBytes(reinterpret_cast<int8_t*>(out) + args.member * kBlock + h * kWideLanes, q);
      I total = q[0];
      for (int p = 1; p < kParts; ++p) total = AddI(total, q[p]);
      sum[h] = SumLanes(total);
    }
    const float s = scale.d * static_cast<float>(sum[0] + sum[1]);
    const int32_t neg[3] = {-(sum[0] + sum[1]), -sum[0], -sum[1]};
    std::memcpy(out + at.d + 4 * args.member, &scale.d, 4);
    std::memcpy(out + at.s + 4 * args.member, &s, 4);
    std::memcpy(out + at.neg + 4 * args.member, &neg[0], 4);
    std::memcpy(out + at.neg_half + 8 * args.member, &neg[1], 8);
  }
}

template <Prologue kPrologue>
void PrepareFloat(const PrepareArgs& args) {
  const RowReader reader = Reader<kPrologue>(args);
  float* out = reinterpret_cast<float*>(args.out) + args.member;
  for (int64_t i = args.begin; i < args.end; i += kWideLanes) {
    const int64_t count = args.end - i < kWideLanes ? args.end - i : kWideLanes;
    const Wide y = count == kWideLanes ? reader.template Get<kPrologue>(i) : reader.template Tail<kPrologue>(i, count);
    alignas(64) float lanes[kWideLanes];
    StoreWide(lanes, y);
    for (int64_t j = 0; j < count; ++j) out[(i + j) * args.group] = lanes[j];
  }
}

}  // namespace
}  // namespace haast::kernels
