// Float and int32 vectors with one spelling for every instruction set. The including file chooses by defining exactly one
// of HAAST_VEC_PORTABLE, HAAST_VEC_AVX2, HAAST_VEC_AVX512, HAAST_VEC_NEON before the include (and has the matching -m flags).
//
// Everything is in an unnamed namespace: files compiled with different flags must not share inline functions, or the
// linker may keep the copy that this processor cannot run. For the same reason such a file includes no std templates.
//
// Same bits everywhere: `Fma` rounds once on every set, `Wide` is 16 lanes on every set, and reductions over lanes are one
// fixed tree (`Wide`) or exact (integers).
#pragma once

#include <cstdint>
#include <cstring>

#if defined(HAAST_VEC_AVX512) && defined(__GNUC__) && !defined(__clang__)
// GCC 12's own header starts masked intrinsics from a deliberately uninitialised register (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#if defined(HAAST_VEC_SIMDE)
#include "kernels/cpu/linear_simde.h"
#elif defined(HAAST_VEC_NEON)
#include <arm_neon.h>
#elif !defined(HAAST_VEC_PORTABLE)
#include <immintrin.h>
#endif

#if defined(HAAST_VEC_PORTABLE)
#include "core/dtype.h"
#endif

namespace haast::kernels {
namespace {

#if defined(HAAST_VEC_AVX512)

constexpr int kLanes = 16;
using F = __m512;
using I = __m512i;
inline F Zero() { return _mm512_setzero_ps(); }
inline F Set1(float x) { return _mm512_set1_ps(x); }
inline F Load(const float* p) { return _mm512_loadu_ps(p); }
inline void Store(float* p, F a) { _mm512_storeu_ps(p, a); }
inline F Add(F a, F b) { return _mm512_add_ps(a, b); }
inline F Sub(F a, F b) { return _mm512_sub_ps(a, b); }
inline F Mul(F a, F b) { return _mm512_mul_ps(a, b); }
inline F Div(F a, F b) { return _mm512_div_ps(a, b); }
inline F Fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
// a > b ? a : b and a < b ? a : b: b where either is NaN.
inline F Max(F a, F b) { return _mm512_max_ps(a, b); }
inline F Min(F a, F b) { return _mm512_min_ps(a, b); }
inline F LoadHalf(const void* p) { return _mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
inline F LoadBf16(const void* p) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p))), 16));
}
inline F LoadU8(const void* p) { return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))); }
inline F LoadI8(const void* p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p)))); }
inline I SetI(int x) { return _mm512_set1_epi32(x); }
inline I AddI(I a, I b) { return _mm512_add_epi32(a, b); }
inline I MaxI(I a, I b) { return _mm512_max_epi32(a, b); }
inline I AndI(I a, I b) { return _mm512_and_si512(a, b); }
template <int kBits>
inline I ShiftLeft(I a) {
  return _mm512_slli_epi32(a, kBits);
}
inline I Bits(F a) { return _mm512_castps_si512(a); }
inline F FromBits(I a) { return _mm512_castsi512_ps(a); }
inline F ToFloat(I a) { return _mm512_cvtepi32_ps(a); }
// Round to nearest even; INT_MIN where the value does not fit or is NaN.
inline I Round(F a) { return _mm512_cvtps_epi32(a); }

#elif defined(HAAST_VEC_AVX2)

constexpr int kLanes = 8;
using F = __m256;
using I = __m256i;
inline F Zero() { return _mm256_setzero_ps(); }
inline F Set1(float x) { return _mm256_set1_ps(x); }
inline F Load(const float* p) { return _mm256_loadu_ps(p); }
inline void Store(float* p, F a) { _mm256_storeu_ps(p, a); }
inline F Add(F a, F b) { return _mm256_add_ps(a, b); }
inline F Sub(F a, F b) { return _mm256_sub_ps(a, b); }
inline F Mul(F a, F b) { return _mm256_mul_ps(a, b); }
inline F Div(F a, F b) { return _mm256_div_ps(a, b); }
inline F Fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
inline F Max(F a, F b) { return _mm256_max_ps(a, b); }
inline F Min(F a, F b) { return _mm256_min_ps(a, b); }
inline F LoadHalf(const void* p) { return _mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(p))); }
inline F LoadBf16(const void* p) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(p))), 16));
}
inline F LoadU8(const void* p) { return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)))); }
inline F LoadI8(const void* p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(p)))); }
inline I SetI(int x) { return _mm256_set1_epi32(x); }
inline I AddI(I a, I b) { return _mm256_add_epi32(a, b); }
inline I MaxI(I a, I b) { return _mm256_max_epi32(a, b); }
inline I AndI(I a, I b) { return _mm256_and_si256(a, b); }
template <int kBits>
inline I ShiftLeft(I a) {
  return _mm256_slli_epi32(a, kBits);
}
inline I Bits(F a) { return _mm256_castps_si256(a); }
inline F FromBits(I a) { return _mm256_castsi256_ps(a); }
inline F ToFloat(I a) { return _mm256_cvtepi32_ps(a); }
inline I Round(F a) { return _mm256_cvtps_epi32(a); }

#elif defined(HAAST_VEC_NEON)

constexpr int kLanes = 4;
using F = float32x4_t;
using I = int32x4_t;
inline F Zero() { return vdupq_n_f32(0.0f); }
inline F Set1(float x) { return vdupq_n_f32(x); }
inline F Load(const float* p) { return vld1q_f32(p); }
inline void Store(float* p, F a) { vst1q_f32(p, a); }
inline F Add(F a, F b) { return vaddq_f32(a, b); }
inline F Sub(F a, F b) { return vsubq_f32(a, b); }
inline F Mul(F a, F b) { return vmulq_f32(a, b); }
inline F Div(F a, F b) { return vdivq_f32(a, b); }
inline F Fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
inline F Max(F a, F b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline F Min(F a, F b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline uint32x2_t Load8Bytes(const void* p) {
  uint32x2_t x;
  std::memcpy(&x, p, sizeof(x));
  return x;
}
inline F LoadHalf(const void* p) { return vcvt_f32_f16(vreinterpret_f16_u32(Load8Bytes(p))); }
inline F LoadBf16(const void* p) { return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u32(Load8Bytes(p)), 16)); }
inline uint32x2_t Load4Bytes(const void* p) {
  uint32_t x;
  std::memcpy(&x, p, sizeof(x));
  return vdup_n_u32(x);
}
inline F LoadU8(const void* p) { return vcvtq_f32_u32(vmovl_u16(vget_low_u16(vmovl_u8(vreinterpret_u8_u32(Load4Bytes(p)))))); }
inline F LoadI8(const void* p) { return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u32(Load4Bytes(p)))))); }
inline I SetI(int x) { return vdupq_n_s32(x); }
inline I AddI(I a, I b) { return vaddq_s32(a, b); }
inline I MaxI(I a, I b) { return vmaxq_s32(a, b); }
inline I AndI(I a, I b) { return vandq_s32(a, b); }
template <int kBits>
inline I ShiftLeft(I a) {
  return vshlq_n_s32(a, kBits);
}
inline I Bits(F a) { return vreinterpretq_s32_f32(a); }
inline F FromBits(I a) { return vreinterpretq_f32_s32(a); }
inline F ToFloat(I a) { return vcvtq_f32_s32(a); }
inline I Round(F a) {
  const uint32x4_t fits = vandq_u32(vcgeq_f32(a, vdupq_n_f32(-2147483648.0f)), vcltq_f32(a, vdupq_n_f32(2147483648.0f)));
  return vbslq_s32(fits, vcvtnq_s32_f32(a), vdupq_n_s32(INT32_MIN));
}

#elif defined(HAAST_VEC_PORTABLE)

constexpr int kLanes = 16;
struct F {
  float v[16];
};
struct I {
  int32_t v[16];
};
template <typename Fn>
inline F MapF(Fn fn) {
  F r;
  for (int i = 0; i < 16; ++i) r.v[i] = fn(i);
  return r;
}
template <typename Fn>
inline I MapI(Fn fn) {
  I r;
  for (int i = 0; i < 16; ++i) r.v[i] = fn(i);
  return r;
}
inline F Set1(float x) {
  return MapF([&](int) { return x; });
}
inline F Zero() { return Set1(0.0f); }
inline F Load(const float* p) {
  F r;
  std::memcpy(&r, p, sizeof(r));
  return r;
}
inline void Store(float* p, const F& a) { std::memcpy(p, &a, sizeof(a)); }
inline F Add(const F& a, const F& b) {
  return MapF([&](int i) { return a.v[i] + b.v[i]; });
}
inline F Sub(const F& a, const F& b) {
  return MapF([&](int i) { return a.v[i] - b.v[i]; });
}
inline F Mul(const F& a, const F& b) {
  return MapF([&](int i) { return a.v[i] * b.v[i]; });
}
inline F Div(const F& a, const F& b) {
  return MapF([&](int i) { return a.v[i] / b.v[i]; });
}
inline F Fma(const F& a, const F& b, const F& c) {
  return MapF([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
inline F Max(const F& a, const F& b) {
  return MapF([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline F Min(const F& a, const F& b) {
  return MapF([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline uint16_t Load16(const void* p, int i) {
  uint16_t x;
  std::memcpy(&x, static_cast<const uint8_t*>(p) + 2 * i, sizeof(x));
  return x;
}
inline F LoadHalf(const void* p) {
  return MapF([&](int i) { return HalfToFloat(Load16(p, i)); });
}
inline F LoadBf16(const void* p) {
  return MapF([&](int i) {
    const uint32_t bits = static_cast<uint32_t>(Load16(p, i)) << 16;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return x;
  });
}
inline F LoadU8(const void* p) {
  return MapF([&](int i) { return static_cast<float>(static_cast<const uint8_t*>(p)[i]); });
}
inline F LoadI8(const void* p) {
  return MapF([&](int i) { return static_cast<float>(static_cast<const int8_t*>(p)[i]); });
}
inline I SetI(int x) {
  return MapI([&](int) { return x; });
}
inline I AddI(const I& a, const I& b) {
  return MapI([&](int i) { return a.v[i] + b.v[i]; });
}
inline I MaxI(const I& a, const I& b) {
  return MapI([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline I AndI(const I& a, const I& b) {
  return MapI([&](int i) { return a.v[i] & b.v[i]; });
}
template <int kBits>
inline I ShiftLeft(const I& a) {
  return MapI([&](int i) { return static_cast<int32_t>(static_cast<uint32_t>(a.v[i]) << kBits); });
}
inline I Bits(const F& a) {
  I r;
  std::memcpy(&r, &a, sizeof(r));
  return r;
}
inline F FromBits(const I& a) {
  F r;
  std::memcpy(&r, &a, sizeof(r));
  return r;
}
inline F ToFloat(const I& a) {
  return MapF([&](int i) { return static_cast<float>(a.v[i]); });
}
inline I Round(const F& a) {
  return MapI([&](int i) {
    const float x = a.v[i];
    if (!(x >= -2147483648.0f && x < 2147483648.0f)) return INT32_MIN;
    return static_cast<int32_t>(__builtin_nearbyintf(x));
  });
}

#else
#error "define HAAST_VEC_PORTABLE, HAAST_VEC_AVX2, HAAST_VEC_AVX512 or HAAST_VEC_NEON"
#endif

// 16 lanes on every instruction set.
constexpr int kWideLanes = 16;
constexpr int kParts = kWideLanes / kLanes;

struct Wide {
  F part[kParts];
};

inline Wide LoadWide(const float* p) {
  Wide r;
  for (int i = 0; i < kParts; ++i) r.part[i] = Load(p + i * kLanes);
  return r;
}
inline void StoreWide(float* p, const Wide& a) {
  for (int i = 0; i < kParts; ++i) Store(p + i * kLanes, a.part[i]);
}
inline Wide SetWide(float x) {
  Wide r;
  for (int i = 0; i < kParts; ++i) r.part[i] = Set1(x);
  return r;
}
// The first `count` lanes, the others `rest`.
inline Wide LoadWideTail(const float* p, int64_t count, float rest = 0.0f) {
  alignas(64) float lanes[kWideLanes];
  StoreWide(lanes, SetWide(rest));
  std::memcpy(lanes, p, static_cast<size_t>(count) * sizeof(float));
  return LoadWide(lanes);
}
inline void StoreWideTail(float* p, const Wide& a, int64_t count) {
  alignas(64) float lanes[kWideLanes];
  StoreWide(lanes, a);
  std::memcpy(p, lanes, static_cast<size_t>(count) * sizeof(float));
}
// fn(lane i, lane i + 8), then + 4, + 2, + 1.
template <typename Fn>
inline float ReduceWide(const Wide& a, Fn fn) {
  alignas(64) float lanes[kWideLanes];
  StoreWide(lanes, a);
  for (int step = 8; step > 0; step /= 2) {
    for (int i = 0; i < step; ++i) lanes[i] = fn(lanes[i], lanes[i + step]);
  }
  return lanes[0];
}
inline float SumWide(const Wide& a) {
  return ReduceWide(a, [](float x, float y) { return x + y; });
}

// e^x with a relative error below 2^-22; x is clamped to [-87.3, 88.3], NaN stays NaN. Cody-Waite reduction by ln 2 in two
// parts, then the Taylor polynomial of degree 7 on [-ln2/2, ln2/2] (truncation 5e-9).
inline F Exp(F x) {
  x = Max(Set1(-87.3f), Min(Set1(88.3f), x));
  const F magic = Set1(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer, to nearest even
  const F n = Sub(Add(Mul(x, Set1(1.44269504f)), magic), magic);
  F r = Fma(n, Set1(-0.693359375f), x);
  r = Fma(n, Set1(2.12194440e-4f), r);
  F p = Set1(1.98412698e-4f);
  p = Fma(p, r, Set1(1.38888889e-3f));
  p = Fma(p, r, Set1(8.33333333e-3f));
  p = Fma(p, r, Set1(4.16666667e-2f));
  p = Fma(p, r, Set1(1.66666667e-1f));
  p = Fma(p, r, Set1(0.5f));
  p = Fma(p, r, Set1(1.0f));
  p = Fma(p, r, Set1(1.0f));
  // n is in [-126, 127]: 2^n is a normal number.
  return Mul(p, FromBits(ShiftLeft<23>(AddI(Round(n), SetI(127)))));
}

}  // namespace
}  // namespace haast::kernels
