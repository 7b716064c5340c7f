// Integer dot products of packed numbers (unsigned bytes once unpacked) with int8 activations, for AVX2 and AVX-512 with
// and without VNNI (HAAST_VEC_VNNI). Numbers are unpacked once and used for all rows of the register block.
//
// Without VNNI: `maddubs` adds the products of two neighbouring k in 16 bits. |q| <= 127, so one sum is at most
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
#if !defined(HAAST_VEC_SIMDE)
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

// Calls row(m, acc) for every row m, where acc = sum over k of (number - zero) * q[m] for the lanes of `part`; over all 32 k
// (kHalf -1) or 16 of them (0, 1).
#if defined(HAAST_VEC_VNNI)

// 32 registers: all rows' sums grow together.
template <Layout kLayout, int kRows, int kHalf, typename Fn>
[[gnu::always_inline]] inline void Dot(const uint8_t* w, int part, const uint8_t* act, Fn&& row) {
  constexpr int kBits = Format(kLayout).bits;
  I acc[kRows];
  for (int m = 0; m < kRows; ++m) {
    if constexpr (Format(kLayout).zero != 0) {
      acc[m] = Correction<kLayout, kRows, kHalf>(act, m);
    } else {
      acc[m] = SetI(0);
    }
  }
  Unroll<kHalf == 1 ? 2 : 0, kHalf == 0 ? 2 : 4>([&]<int kPair>() {
    I numbers[2];
    if constexpr (kBits == 8) {
      numbers[0] = LoadI(w + 128 * kPair + kPartBytes * part);
      numbers[1] = LoadI(w + 128 * kPair + 64 + kPartBytes * part);
    } else {
      UnpackPair<kBits, kPair>(w, part, numbers);
    }
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

}  // namespace
}  // namespace haast::kernels
