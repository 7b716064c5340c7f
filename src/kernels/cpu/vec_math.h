// What attention and the row operations need beyond linear_vec.h, under the same rule: one meaning, the same bits, on every
// instruction set. The including file has chosen the set as linear_vec.h says.
#pragma once

#include "kernels/cpu/linear_vec.h"

namespace haast::kernels {
namespace {

constexpr float kInfinity = __builtin_inff();

#if defined(HAAST_VEC_AVX512)

// a < b ? yes : no
inline F SelectLess(F a, F b, F yes, F no) { return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), no, yes); }
// Bit i: lane i of a equals lane i of b; NaN equals nothing.
inline uint32_t EqualMask(F a, F b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
// Rounds to nearest even.
inline void StoreHalf(uint16_t* p, F a) {
  const __m256 low = _mm512_castps512_ps256(a);
  const __m256 high = _mm256_castpd_ps(_mm512_extractf64x4_pd(_mm512_castps_pd(a), 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#elif defined(HAAST_VEC_AVX2)

inline F SelectLess(F a, F b, F yes, F no) { return _mm256_blendv_ps(no, yes, _mm256_cmp_ps(a, b, _CMP_LT_OQ)); }
inline uint32_t EqualMask(F a, F b) { return static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ))); }
inline void StoreHalf(uint16_t* p, F a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}

#elif defined(HAAST_VEC_NEON)

inline F SelectLess(F a, F b, F yes, F no) { return vbslq_f32(vcltq_f32(a, b), yes, no); }
inline uint32_t EqualMask(F a, F b) {
  const uint32x4_t bits = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(vceqq_f32(a, b), bits));
}
inline void StoreHalf(uint16_t* p, F a) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(a))); }

#else

inline F SelectLess(const F& a, const F& b, const F& yes, const F& no) {
  return MapF([&](int i) { return a.v[i] < b.v[i] ? yes.v[i] : no.v[i]; });
}
inline uint32_t EqualMask(const F& a, const F& b) {
  uint32_t mask = 0;
  for (int i = 0; i < kLanes; ++i) mask |= (a.v[i] == b.v[i] ? 1u : 0u) << i;
  return mask;
}
inline void StoreHalf(uint16_t* p, const F& a) {
  for (int i = 0; i < kLanes; ++i) p[i] = FloatToHalf(a.v[i]);
}

#endif

// x > y ? x : y over the lanes.
inline float MaxWide(const Wide& a) {
  return ReduceWide(a, [](float x, float y) { return x > y ? x : y; });
}

// e^x for weights of a softmax: within 4 * 2^-23 (2 * 2^-23 above -20), exactly 1 at 0, exactly 0 below -87, so that what is masked
// with -infinity has no weight at all; infinity above 88.3, NaN of NaN. One reduction by ln 2 and a polynomial of degree 5 with the
// least largest relative error on [-ln2/2, ln2/2]: about half the work of Exp, which reaches further.
inline F ExpToZero(F x) {
  // Adding 1.5 * 2^23 + 127 leaves round(x / ln 2) + 127, the exponent field of 2^n, in the low bits.
  const F magic = Set1(12582912.0f + 127.0f);
  const F shifted = Fma(x, Set1(1.44269504f), magic);
  const F r = Fma(Sub(shifted, magic), Set1(-0.693147181f), x);
  F p = Set1(8.2902293652e-03f);
  p = Fma(p, r, Set1(4.1898392141e-02f));
  p = Fma(p, r, Set1(1.6667640209e-01f));
  p = Fma(p, r, Set1(4.9999144673e-01f));
  p = Fma(p, r, Set1(9.9999970198e-01f));
  p = Fma(p, r, Set1(1.0f));
  return SelectLess(x, Set1(-87.0f), Zero(), Mul(p, FromBits(ShiftLeft<23>(Bits(shifted)))));
}

inline float ExpToZero(float x) {
  alignas(64) float lanes[kLanes];
  Store(lanes, ExpToZero(Set1(x)));
  return lanes[0];
}

}  // namespace
}  // namespace haast::kernels
