// Integer dot products of packed numbers (unsigned bytes once unpacked) with int8 activations, for AVX2, AVX-512 with and
// without VNNI (HAAST_VEC_VNNI), NEON with dot products and with matrix products (HAAST_VEC_I8MM). Numbers are unpacked once
// and used for all rows of the register block.
//
// AVX without VNNI: `maddubs` adds the products of two neighbouring k in 16 bits. |q| <= 127, so one sum is at most
// 2 * 127 * (2^bits - 1): 3810, 7874, 16002 for 4, 5, 6 bits. Hence 8, 4, 2 groups add up exactly in 16 bits before they are
// widened. 8-bit numbers are split into two nibbles.
#pragma once

#include "kernels/cpu/linear_layout.h"
#include "kernels/cpu/linear_vec.h"

namespace haast::kernels {
namespace {

#if defined(HAAST_VEC_AVX512)
inline I LoadI(const uint8_t* p) { return _mm512_loadu_si512(p); }
inline I SetBytes(int x) { return _mm512_set1_epi8(static_cast<char>(x)); }
inline I SetWords(int x) { return _mm512_set1_epi16(static_cast<short>(x)); }
inline I Or(I a, I b) { return _mm512_or_si512(a, b); }
inline I AddWords(I a, I b) { return _mm512_add_epi16(a, b); }
inline I MaddBytes(I numbers, I q) { return _mm512_maddubs_epi16(numbers, q); }
inline I MaddWords(I a, I b) { return _mm512_madd_epi16(a, b); }
#if defined(HAAST_VEC_VNNI)
inline I DotAdd(I acc, I numbers, I q) { return _mm512_dpbusd_epi32(acc, numbers, q); }
#endif
template <int kBits>
inline I ShiftWords(I a) {
  if constexpr (kBits > 0) return _mm512_slli_epi16(a, kBits);
  if constexpr (kBits < 0) return _mm512_srli_epi16(a, -kBits);
  if constexpr (kBits == 0) return a;
}
#elif defined(HAAST_VEC_NEON)
inline I LoadI(const uint8_t* p) { return vreinterpretq_s32_u8(vld1q_u8(p)); }
inline I SetBytes(int x) { return vreinterpretq_s32_u8(vdupq_n_u8(static_cast<uint8_t>(x))); }
inline I Or(I a, I b) { return vorrq_s32(a, b); }
inline I DotAdd(I acc, I numbers, I q) { return vdotq_s32(acc, vreinterpretq_s8_s32(numbers), vreinterpretq_s8_s32(q)); }
template <int kBits>
inline I ShiftWords(I a) {
  if constexpr (kBits > 0) return vreinterpretq_s32_s16(vshlq_n_s16(vreinterpretq_s16_s32(a), kBits));
  if constexpr (kBits < 0) return vreinterpretq_s32_u16(vshrq_n_u16(vreinterpretq_u16_s32(a), -kBits));
  if constexpr (kBits == 0) return a;
}
#else
inline I LoadI(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline I SetBytes(int x) { return _mm256_set1_epi8(static_cast<char>(x)); }
inline I SetWords(int x) { return _mm256_set1_epi16(static_cast<short>(x)); }
inline I Or(I a, I b) { return _mm256_or_si256(a, b); }
inline I AddWords(I a, I b) { return _mm256_add_epi16(a, b); }
inline I MaddBytes(I numbers, I q) { return _mm256_maddubs_epi16(numbers, q); }
inline I MaddWords(I a, I b) { return _mm256_madd_epi16(a, b); }
template <int kBits>
inline I ShiftWords(I a) {
  if constexpr (kBits > 0) return _mm256_slli_epi16(a, kBits);
  if constexpr (kBits < 0) return _mm256_srli_epi16(a, -kBits);
  if constexpr (kBits == 0) return a;
}
#endif

// Four int8 activations (or one int32) in every lane.
inline I Broadcast(const uint8_t* p) {
  int32_t x;
  std::memcpy(&x, p, sizeof(x));
  return SetI(x);
}

// Keeps compilers from re-associating sums, which they do for parallelism and pay for with spilled registers.
[[gnu::always_inline]] inline void Pin([[maybe_unused]] I& sum) {
#if !defined(HAAST_VEC_SIMDE) && !defined(HAAST_VEC_NEON)
  asm("" : "+v"(sum));
#endif
}

// fn.operator()<kFrom>(), ..., fn.operator()<kTo - 1>().
template <int kFrom, int kTo, typename Fn>
[[gnu::always_inline]] inline void Unroll(Fn&& fn) {
  if constexpr (kFrom < kTo) {
    fn.template operator()<kFrom>();
    Unroll<kFrom + 1, kTo>(fn);
  }
}

constexpr int kPartBytes = 4 * kLanes;

// The numbers of groups 2 * kPair and 2 * kPair + 1 (4 to 6 bits).
template <int kBits, int kPair>
[[gnu::always_inline]] inline void UnpackPair(const uint8_t* w, int part, I (&numbers)[2]) {
  const I nibbles = LoadI(w + 64 * kPair + kPartBytes * part);
  numbers[0] = AndI(nibbles, SetBytes(15));
  numbers[1] = AndI(ShiftWords<-4>(nibbles), SetBytes(15));
  constexpr int kGroup = 2 * kPair;
  if constexpr (kBits == 5) {
    const I high = LoadI(w + 256 + kPartBytes * part);
    numbers[0] = Or(numbers[0], AndI(ShiftWords<4 - kGroup>(high), SetBytes(0x10)));
    numbers[1] = Or(numbers[1], AndI(ShiftWords<3 - kGroup>(high), SetBytes(0x10)));
  }
  if constexpr (kBits == 6) {
    const I high = LoadI(w + 256 + 64 * (kGroup / 4) + kPartBytes * part);
    numbers[0] = Or(numbers[0], AndI(ShiftWords<4 - 2 * (kGroup % 4)>(high), SetBytes(0x30)));
    numbers[1] = Or(numbers[1], AndI(ShiftWords<2 - 2 * (kGroup % 4)>(high), SetBytes(0x30)));
  }
}

constexpr int Log2(int x) { return x <= 1 ? 0 : 1 + Log2(x / 2); }

// -zero * sum(q): what makes unsigned numbers signed.
template <Layout kLayout, int kRows, int kHalf>
[[gnu::always_inline]] inline I Correction(const uint8_t* act, int m) {
  constexpr ActOffsets kAt = ActLayout(kRows);
  const int at = kHalf < 0 ? kAt.neg + 4 * m : kAt.neg_half + 8 * m + 4 * kHalf;
  return ShiftLeft<Log2(Format(kLayout).zero)>(Broadcast(act + at));
}

// The numbers of groups 2 * kPair and 2 * kPair + 1 as the instruction for dot products takes them.
template <int kBits, int kPair>
[[gnu::always_inline]] inline void LoadPair(const uint8_t* w, int part, I (&numbers)[2]) {
  if constexpr (kBits != 8) return UnpackPair<kBits, kPair>(w, part, numbers);
  for (int i = 0; i < 2; ++i) {
    numbers[i] = LoadI(w + 128 * kPair + 64 * i + kPartBytes * part);
#if defined(HAAST_VEC_NEON)
    numbers[i] = veorq_s32(numbers[i], SetBytes(0x80));  // signed: number - 128, which needs no correction
#endif
  }
}

// Where the sum of one row starts.
template <Layout kLayout, int kRows, int kHalf>
[[gnu::always_inline]] inline I StartOf(const uint8_t* act, int m) {
#if defined(HAAST_VEC_NEON)
  if constexpr (Format(kLayout).bits == 8) return SetI(0);
#endif
  if constexpr (Format(kLayout).zero != 0) return Correction<kLayout, kRows, kHalf>(act, m);
  return SetI(0);
}

// Calls row(m, acc) for every row m, where acc = sum over k of (number - zero) * q[m] for the lanes of `part`; over all 32 k
// (kHalf -1) or 16 of them (0, 1).
#if defined(HAAST_VEC_I8MM)

// 8 k of two rows in one register.
[[gnu::always_inline]] inline int8x16_t TwoRows(const uint8_t* q) {
  return vcombine_s8(vld1_s8(reinterpret_cast<const int8_t*>(q)), vld1_s8(reinterpret_cast<const int8_t*>(q) + kBlock));
}

// smmla adds [2 lanes, 8 k] x [8 k, 2 rows] = {lane 0 row 0, lane 0 row 1, lane 1 row 0, lane 1 row 1}; the last of an odd
// number of rows goes by dot products.
template <Layout kLayout, int kRows, int kHalf, typename Fn>
[[gnu::always_inline]] inline void Dot(const uint8_t* w, int part, const uint8_t* act, Fn&& row) {
  constexpr int kPairs = kRows / 2;
  constexpr bool kOdd = kRows % 2 != 0;
  I low[kPairs + 1];   // lanes 0 and 1 of the part
  I high[kPairs + 1];  // lanes 2 and 3
  for (int r = 0; r < kPairs; ++r) low[r] = high[r] = SetI(0);
  low[kPairs] = SetI(0);
  Unroll<kHalf == 1 ? 2 : 0, kHalf == 0 ? 2 : 4>([&]<int kPair>() {
    I numbers[2];
    LoadPair<Format(kLayout).bits, kPair>(w, part, numbers);
    const int8x16_t first = vreinterpretq_s8_s32(vzip1q_s32(numbers[0], numbers[1]));
    const int8x16_t second = vreinterpretq_s8_s32(vzip2q_s32(numbers[0], numbers[1]));
    for (int r = 0; r < kPairs; ++r) {
      const int8x16_t q = TwoRows(act + 2 * r * kBlock + 8 * kPair);
      low[r] = vmmlaq_s32(low[r], first, q);
      high[r] = vmmlaq_s32(high[r], second, q);
    }
    if constexpr (kOdd) {
      const uint8_t* q = act + (kRows - 1) * kBlock + 8 * kPair;
      low[kPairs] = DotAdd(DotAdd(low[kPairs], numbers[0], Broadcast(q)), numbers[1], Broadcast(q + 4));
    }
  });
  for (int r = 0; r < kPairs; ++r) {
    row(2 * r, AddI(vuzp1q_s32(low[r], high[r]), StartOf<kLayout, kRows, kHalf>(act, 2 * r)));
    row(2 * r + 1, AddI(vuzp2q_s32(low[r], high[r]), StartOf<kLayout, kRows, kHalf>(act, 2 * r + 1)));
  }
  if constexpr (kOdd) row(kRows - 1, AddI(low[kPairs], StartOf<kLayout, kRows, kHalf>(act, kRows - 1)));
}

#elif defined(HAAST_VEC_VNNI) || defined(HAAST_VEC_NEON)

// 32 registers: all rows' sums grow together.
template <Layout kLayout, int kRows, int kHalf, typename Fn>
[[gnu::always_inline]] inline void Dot(const uint8_t* w, int part, const uint8_t* act, Fn&& row) {
  I acc[kRows];
  for (int m = 0; m < kRows; ++m) acc[m] = StartOf<kLayout, kRows, kHalf>(act, m);
  Unroll<kHalf == 1 ? 2 : 0, kHalf == 0 ? 2 : 4>([&]<int kPair>() {
    I numbers[2];
    LoadPair<Format(kLayout).bits, kPair>(w, part, numbers);
    for (int m = 0; m < kRows; ++m) {
      acc[m] = DotAdd(acc[m], numbers[0], Broadcast(act + m * kBlock + 8 * kPair));
      acc[m] = DotAdd(acc[m], numbers[1], Broadcast(act + m * kBlock + 8 * kPair + 4));
    }
  });
  for (int m = 0; m < kRows; ++m) row(m, acc[m]);
}

#else

// 16 registers: the block's numbers stay in eight of them and rows follow each other, so that the scaling of one row
// overlaps with the products of the next.

// 8-bit numbers, 16 k at a time: four groups as low and high nibbles. The sums of the first half wait in memory.
template <int kRows, typename Fn>
[[gnu::always_inline]] inline void DotBytes(const uint8_t* w, int part, const uint8_t* act, Fn&& row) {
  I low[kRows];
  I high[kRows];
  Unroll<0, 2>([&]<int kHalf>() {
    I numbers[4][2];
    for (int g = 0; g < 4; ++g) {
      const I bytes = LoadI(w + 64 * (4 * kHalf + g) + kPartBytes * part);
      numbers[g][0] = AndI(bytes, SetBytes(15));
      numbers[g][1] = AndI(ShiftWords<-4>(bytes), SetBytes(15));
    }
    Unroll<0, kRows>([&]<int m>() {
      Unroll<0, 4>([&]<int kGroup>() {
        const I q = Broadcast(act + m * kBlock + 16 * kHalf + 4 * kGroup);
        const I l = MaddBytes(numbers[kGroup][0], q);
        const I h = MaddBytes(numbers[kGroup][1], q);
        low[m] = kHalf == 0 && kGroup == 0 ? l : AddWords(low[m], l);
        high[m] = kHalf == 0 && kGroup == 0 ? h : AddWords(high[m], h);
        Pin(low[m]);
        Pin(high[m]);
      });
      if constexpr (kHalf == 1) row(m, AddI(MaddWords(low[m], SetWords(1)), MaddWords(high[m], SetWords(16))));
    });
  });
}

template <int kBits, int kRows, int kHalf, typename Fn>
[[gnu::always_inline]] inline void DotNibbles(const uint8_t* w, int part, const uint8_t* act, Fn&& row) {
  constexpr int kPairsInWords = kBits == 4 ? 4 : kBits == 5 ? 2 : 1;  // exact in 16 bits, see above
  constexpr int kFirst = kHalf == 1 ? 2 : 0;
  constexpr int kLast = kHalf == 0 ? 2 : 4;
  I numbers[4][2];
  Unroll<kFirst, kLast>([&]<int kPair>() { UnpackPair<kBits, kPair>(w, part, numbers[kPair]); });
  Unroll<0, kRows>([&]<int m>() {
    I acc;
    I words;
    Unroll<kFirst, kLast>([&]<int kPair>() {
      const I a = MaddBytes(numbers[kPair][0], Broadcast(act + m * kBlock + 8 * kPair));
      const I b = MaddBytes(numbers[kPair][1], Broadcast(act + m * kBlock + 8 * kPair + 4));
      words = kPair % kPairsInWords == 0 ? AddWords(a, b) : AddWords(words, AddWords(a, b));
      Pin(words);
      if constexpr (kPair % kPairsInWords == kPairsInWords - 1) {
        const I sum = MaddWords(words, SetWords(1));
        acc = kPair == kFirst + kPairsInWords - 1 ? sum : AddI(acc, sum);
      }
    });
    row(m, acc);
  });
}

template <Layout kLayout, int kRows, int kHalf, typename Fn>
[[gnu::always_inline]] inline void Dot(const uint8_t* w, int part, const uint8_t* act, Fn&& row) {
  const auto correct = [&](int m, I acc) {
    if constexpr (Format(kLayout).zero != 0) acc = AddI(acc, Correction<kLayout, kRows, kHalf>(act, m));
    row(m, acc);
  };
  if constexpr (Format(kLayout).bits == 8) {
    DotBytes<kRows>(w, part, act, correct);
  } else {
    DotNibbles<Format(kLayout).bits, kRows, kHalf>(w, part, act, correct);
  }
}

#endif

// Ops::dot_loop: one step of one of several independent chains.
[[gnu::always_inline]] inline I DotStep(I acc, I numbers, I q) {
#if defined(HAAST_VEC_I8MM)
  return vmmlaq_s32(acc, vreinterpretq_s8_s32(numbers), vreinterpretq_s8_s32(q));
#elif defined(HAAST_VEC_VNNI) || defined(HAAST_VEC_NEON)
  return DotAdd(acc, numbers, q);
#else
  return AddWords(acc, MaddBytes(numbers, q));
#endif
}

inline int64_t DotLoop(int64_t rounds) {
#if defined(HAAST_VEC_I8MM)
  constexpr int kOperations = 64;
#else
  constexpr int kOperations = 2 * 4 * kLanes;
#endif
  constexpr int kChains = 8;
  I acc[kChains];
  Unroll<0, kChains>([&]<int i>() { acc[i] = SetI(i); });
  I numbers = SetBytes(3);
  const I q = SetBytes(5);
  for (int64_t round = 0; round < rounds; ++round) {
    Unroll<0, kChains>([&]<int i>() {
      Pin(numbers);  // else one product would serve all chains
      acc[i] = DotStep(acc[i], numbers, q);
      Pin(acc[i]);
    });
  }
  I sum = acc[0];
  Unroll<1, kChains>([&]<int i>() { sum = AddI(sum, acc[i]); });
  int32_t lane;
  std::memcpy(&lane, &sum, sizeof(lane));
  [[maybe_unused]] const volatile int32_t sink = lane;
  return rounds * kChains * kOperations;
}

}  // namespace
}  // namespace haast::kernels
