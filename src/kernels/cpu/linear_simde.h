// AVX-512 intrinsics on a processor without them, for tests: SIMDe's, and those that its packaged release lacks, from AVX2
// halves. Included by linear_vec.h where HAAST_VEC_SIMDE is defined.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>

#include <immintrin.h>

#if !defined(__AVX2__) || !defined(__FMA__) || !defined(__F16C__)
#error "compile with -mavx2 -mfma -mf16c: without them the emulated fma would round twice"
#endif

namespace haast::kernels {
namespace {

inline simde__m512 JoinFloats(__m256 low, __m256 high) {
  simde__m512_private r;
  r.m256[0] = low;
  r.m256[1] = high;
  return simde__m512_from_private(r);
}
inline simde__m512i JoinInts(__m256i low, __m256i high) {
  simde__m512i_private r;
  r.m256i[0] = low;
  r.m256i[1] = high;
  return simde__m512i_from_private(r);
}
inline __m256i HalfOf(simde__m512i a, int half) { return simde__m512i_to_private(a).m256i[half]; }
inline __m256 HalfOf(simde__m512 a, int half) { return simde__m512_to_private(a).m256[half]; }

inline simde__m512 EmulatedCvtph(__m256i a) {
  return JoinFloats(_mm256_cvtph_ps(_mm256_castsi256_si128(a)), _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1)));
}
inline simde__m512i EmulatedCvtepu16(__m256i a) {
  return JoinInts(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(a)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1)));
}
inline simde__m512i EmulatedCvtepu8(__m128i a) { return JoinInts(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(_mm_bsrli_si128(a, 8))); }
inline simde__m512i EmulatedCvtepi8(__m128i a) { return JoinInts(_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(_mm_bsrli_si128(a, 8))); }
inline simde__m512 EmulatedToFloat(simde__m512i a) {
  return JoinFloats(_mm256_cvtepi32_ps(HalfOf(a, 0)), _mm256_cvtepi32_ps(HalfOf(a, 1)));
}
inline simde__m512i EmulatedRound(simde__m512 a) { return JoinInts(_mm256_cvtps_epi32(HalfOf(a, 0)), _mm256_cvtps_epi32(HalfOf(a, 1))); }

}  // namespace
}  // namespace haast::kernels

#define _mm512_cvtph_ps(a) EmulatedCvtph(a)
#define _mm512_cvtepu16_epi32(a) EmulatedCvtepu16(a)
#define _mm512_cvtepu8_epi32(a) EmulatedCvtepu8(a)
#define _mm512_cvtepi8_epi32(a) EmulatedCvtepi8(a)
#define _mm512_cvtepi32_ps(a) EmulatedToFloat(a)
#define _mm512_cvtps_epi32(a) EmulatedRound(a)
// The packaged release gives this name to the masked form.
#undef _mm512_madd_epi16
#define _mm512_madd_epi16(a, b) simde_mm512_madd_epi16(a, b)
