// Vectors of floats with one meaning on every instruction set: PortableVec, Avx2Vec and Avx512Vec have the same operations, each
// lane of which gives the same bits. Kernels are templates over one of them, so that a result never depends on the processor.
//
// Include this only from translation units of one instruction set; every function here is forced inline, so that no copy
// compiled for a wider instruction set can be chosen by the linker for a narrower one.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#if defined(__AVX2__) || defined(__AVX512F__)
#include <immintrin.h>
#endif

#include "core/dtype.h"

#define HAAST_INLINE [[gnu::always_inline]] static inline

namespace haast::kernels {

// Sums and maxima over a row run in 16 interleaved chains (element i belongs to chain i % 16), which are then joined in a tree:
// i with i + 8, i + 4, i + 2, i + 1. Independent of kLanes, hence the constant.
inline constexpr int kChains = 16;

// x > y ? x : y; the second operand where either is NaN, as the x86 instruction does.
struct PortableVec {
  static constexpr int kLanes = 8;
  struct F {
    float lane[kLanes];
  };

  template <typename Fn>
  HAAST_INLINE F Map(Fn&& fn) {
    F result;
    for (int i = 0; i < kLanes; ++i) result.lane[i] = fn(i);
    return result;
  }

  HAAST_INLINE F Set1(float x) {
    return Map([&](int) { return x; });
  }
  HAAST_INLINE F Load(const float* p) {
    return Map([&](int i) { return p[i]; });
  }
  HAAST_INLINE void Store(float* p, F a) { std::memcpy(p, a.lane, sizeof(a.lane)); }
  HAAST_INLINE F LoadHalf(const uint16_t* p) {
    return Map([&](int i) { return HalfToFloat(p[i]); });
  }
  HAAST_INLINE void StoreHalf(uint16_t* p, F a) {
    for (int i = 0; i < kLanes; ++i) p[i] = FloatToHalf(a.lane[i]);
  }
  HAAST_INLINE F Add(F a, F b) {
    return Map([&](int i) { return a.lane[i] + b.lane[i]; });
  }
  HAAST_INLINE F Sub(F a, F b) {
    return Map([&](int i) { return a.lane[i] - b.lane[i]; });
  }
  HAAST_INLINE F Mul(F a, F b) {
    return Map([&](int i) { return a.lane[i] * b.lane[i]; });
  }
  HAAST_INLINE F Div(F a, F b) {
    return Map([&](int i) { return a.lane[i] / b.lane[i]; });
  }
  // a * b + c, rounded once.
  HAAST_INLINE F Fma(F a, F b, F c) {
    return Map([&](int i) { return std::fma(a.lane[i], b.lane[i], c.lane[i]); });
  }
  HAAST_INLINE F Max(F a, F b) {
    return Map([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
  }
  // a < b ? yes : no
  HAAST_INLINE F SelectLess(F a, F b, F yes, F no) {
    return Map([&](int i) { return a.lane[i] < b.lane[i] ? yes.lane[i] : no.lane[i]; });
  }
  // The bits of each lane shifted left by 23: an exponent field from a biased integer.
  HAAST_INLINE F ExponentFromLowBits(F a) {
    return Map([&](int i) {
      uint32_t bits;
      std::memcpy(&bits, &a.lane[i], sizeof(bits));
      bits <<= 23;
      float result;
      std::memcpy(&result, &bits, sizeof(result));
      return result;
    });
  }
  // Bit i set where lane i of a equals lane i of b (NaN equals nothing).
  HAAST_INLINE uint32_t EqualMask(F a, F b) {
    uint32_t mask = 0;
    for (int i = 0; i < kLanes; ++i) mask |= (a.lane[i] == b.lane[i] ? 1u : 0u) << i;
    return mask;
  }
  // Joins kChains chains (two vectors) as described above.
  HAAST_INLINE float SumChains(const F* chains) {
    float sum[8];
    for (int i = 0; i < 8; ++i) sum[i] = chains[0].lane[i] + chains[1].lane[i];
    for (int width = 4; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) sum[i] = sum[i] + sum[i + width];
    }
    return sum[0];
  }
  HAAST_INLINE float MaxChains(const F* chains) {
    float max[8];
    for (int i = 0; i < 8; ++i) max[i] = chains[0].lane[i] > chains[1].lane[i] ? chains[0].lane[i] : chains[1].lane[i];
    for (int width = 4; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) max[i] = max[i] > max[i + width] ? max[i] : max[i + width];
    }
    return max[0];
  }
};

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
struct Avx2Vec {
  static constexpr int kLanes = 8;
  using F = __m256;

  HAAST_INLINE F Set1(float x) { return _mm256_set1_ps(x); }
  HAAST_INLINE F Load(const float* p) { return _mm256_loadu_ps(p); }
  HAAST_INLINE void Store(float* p, F a) { _mm256_storeu_ps(p, a); }
  HAAST_INLINE F LoadHalf(const uint16_t* p) { return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
  HAAST_INLINE void StoreHalf(uint16_t* p, F a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  HAAST_INLINE F Add(F a, F b) { return _mm256_add_ps(a, b); }
  HAAST_INLINE F Sub(F a, F b) { return _mm256_sub_ps(a, b); }
  HAAST_INLINE F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
  HAAST_INLINE F Div(F a, F b) { return _mm256_div_ps(a, b); }
  HAAST_INLINE F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  HAAST_INLINE F Max(F a, F b) { return _mm256_max_ps(a, b); }
  HAAST_INLINE F SelectLess(F a, F b, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
  HAAST_INLINE F ExponentFromLowBits(F a) { return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), 23)); }
  HAAST_INLINE uint32_t EqualMask(F a, F b) {
    return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)));
  }
  HAAST_INLINE float SumChains(const F* chains) { return SumLanes(_mm256_add_ps(chains[0], chains[1])); }
  HAAST_INLINE float MaxChains(const F* chains) { return MaxLanes(_mm256_max_ps(chains[0], chains[1])); }

  HAAST_INLINE float SumLanes(__m256 a) {
    __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
  }
  HAAST_INLINE float MaxLanes(__m256 a) {
    __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    b = _mm_max_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
  }
};
#endif

#if defined(__AVX512F__) && defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
struct Avx512Vec {
  static constexpr int kLanes = 16;
  using F = __m512;

  HAAST_INLINE F Set1(float x) { return _mm512_set1_ps(x); }
  HAAST_INLINE F Load(const float* p) { return _mm512_loadu_ps(p); }
  HAAST_INLINE void Store(float* p, F a) { _mm512_storeu_ps(p, a); }
  HAAST_INLINE F LoadHalf(const uint16_t* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
  HAAST_INLINE void StoreHalf(uint16_t* p, F a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  HAAST_INLINE F Add(F a, F b) { return _mm512_add_ps(a, b); }
  HAAST_INLINE F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
  HAAST_INLINE F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
  HAAST_INLINE F Div(F a, F b) { return _mm512_div_ps(a, b); }
  HAAST_INLINE F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  HAAST_INLINE F Max(F a, F b) { return _mm512_max_ps(a, b); }
  HAAST_INLINE F SelectLess(F a, F b, F yes, F no) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes); }
  HAAST_INLINE F ExponentFromLowBits(F a) { return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), 23)); }
  HAAST_INLINE uint32_t EqualMask(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  HAAST_INLINE float SumChains(const F* chains) {
    return Avx2Vec::SumLanes(_mm256_add_ps(_mm512_castps512_ps256(chains[0]), High(chains[0])));
  }
  HAAST_INLINE float MaxChains(const F* chains) {
    return Avx2Vec::MaxLanes(_mm256_max_ps(_mm512_castps512_ps256(chains[0]), High(chains[0])));
  }

  HAAST_INLINE __m256 High(__m512 a) { return _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1)); }
};
#endif

// e^x within 2 units in the last place; exactly 1 at 0; 0 below -87, infinity above 88.7228, NaN of NaN.
// Cody-Waite reduction and the polynomial of the Cephes library's expf.
template <typename V>
[[gnu::always_inline]] inline typename V::F Exp(typename V::F x) {
  using F = typename V::F;
  // Adding 1.5 * 2^23 + 126 leaves round(x / ln 2) + 126, the exponent field of 2^(n - 1), in the low bits.
  const F magic = V::Set1(12582912.0f + 126.0f);
  const F shifted = V::Fma(x, V::Set1(1.44269504088896341f), magic);
  const F n = V::Sub(shifted, magic);
  F r = V::Fma(n, V::Set1(-0.693359375f), x);
  r = V::Fma(n, V::Set1(2.12194440e-4f), r);
  F p = V::Set1(1.9875691500e-4f);
  p = V::Fma(p, r, V::Set1(1.3981999507e-3f));
  p = V::Fma(p, r, V::Set1(8.3334519073e-3f));
  p = V::Fma(p, r, V::Set1(4.1665795894e-2f));
  p = V::Fma(p, r, V::Set1(1.6666665459e-1f));
  p = V::Fma(p, r, V::Set1(5.0000001201e-1f));
  p = V::Fma(p, V::Mul(r, r), V::Add(r, V::Set1(1.0f)));
  F result = V::Mul(p, V::ExponentFromLowBits(shifted));
  result = V::Add(result, result);
  result = V::SelectLess(x, V::Set1(-87.0f), V::Set1(0.0f), result);
  return V::SelectLess(V::Set1(88.7228f), x, V::Set1(std::numeric_limits<float>::infinity()), result);
}

// x / (1 + e^-x)
template <typename V>
[[gnu::always_inline]] inline typename V::F Silu(typename V::F x) {
  return V::Div(x, V::Add(V::Set1(1.0f), Exp<V>(V::Sub(V::Set1(0.0f), x))));
}

// 1 / sqrt(mean of squares + eps) of x[0..k): chains of fused products, joined by V::SumChains; elements beyond the last full
// 16 enter as zeros.
template <typename V>
[[gnu::always_inline]] inline float RmsScale(const float* x, int64_t k, float eps) {
  constexpr int kVectors = kChains / V::kLanes;
  typename V::F chains[kVectors];
  for (int v = 0; v < kVectors; ++v) chains[v] = V::Set1(0.0f);
  int64_t i = 0;
  for (; i + kChains <= k; i += kChains) {
    for (int v = 0; v < kVectors; ++v) {
      const typename V::F value = V::Load(x + i + v * V::kLanes);
      chains[v] = V::Fma(value, value, chains[v]);
    }
  }
  if (i < k) {
    float tail[kChains] = {};
    std::memcpy(tail, x + i, static_cast<size_t>(k - i) * sizeof(float));
    for (int v = 0; v < kVectors; ++v) {
      const typename V::F value = V::Load(tail + v * V::kLanes);
      chains[v] = V::Fma(value, value, chains[v]);
    }
  }
  return 1.0f / std::sqrt(V::SumChains(chains) / static_cast<float>(k) + eps);
}

}  // namespace haast::kernels
