// The product of 16 output rows with a register block of input rows, for every layout. The order is the same on every
// instruction set and for every number of rows: blocks of 32 k in ascending order; in each, sum = fma(minimum, s_activation,
// sum), then sum = fma(dot, d_weight * d_activation, sum), where dot is exact. Floats: one fma per k, ascending.
//
// Included by one file per instruction set after linear_vec.h and its `Dot`:
//   template <Layout, int kRows, int kHalf> void Dot(const uint8_t* w, int part, const uint8_t* act, Fn row);
// which calls row(m, acc) for every row m: acc = sum over k of (number - zero) * q[m], for the lanes of `part`; kHalf 0 or
// 1: over 16 k only; -1: over all 32.
#pragma once

#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/linear_vec.h"

namespace haast::kernels {
namespace {

template <int kRows>
struct Sums {
  F lane[kParts][kRows];
};

template <int kRows>
inline void Clear(Sums<kRows>& sums) {
  for (auto& part : sums.lane) {
    for (F& f : part) f = Zero();
  }
}

// Adds bias, then what `out` holds, and stores; `args` stand at this tile.
template <int kRows>
inline void StoreTile(const Sums<kRows>& sums, const TileArgs& args) {
  const bool whole = args.features >= kTileRows;
  for (int m = 0; m < kRows; ++m) {
    float* out = args.out + m * args.ld_out;
    Wide v;
    for (int p = 0; p < kParts; ++p) v.part[p] = sums.lane[p][m];
    if (args.bias != nullptr) {
      const Wide bias = whole ? LoadWide(args.bias) : LoadWideTail(args.bias, args.features);
      for (int p = 0; p < kParts; ++p) v.part[p] = Add(v.part[p], bias.part[p]);
    }
    if (args.accumulate) {
      const Wide old = whole ? LoadWide(out) : LoadWideTail(out, args.features);
      for (int p = 0; p < kParts; ++p) v.part[p] = Add(v.part[p], old.part[p]);
    }
    if (whole) {
      StoreWide(out, v);
    } else {
      StoreWideTail(out, v, args.features);
    }
  }
}

inline void NextTile(TileArgs& args, int tiles) {
  args.w += tiles * args.tile_bytes;
  args.out += tiles * kTileRows;
  if (args.bias != nullptr) args.bias += tiles * kTileRows;
  args.features -= tiles * kTileRows;
}

// Scale and (negative) minimum of the block at `w`, lanes of `part`.
template <Layout kLayout>
inline F ScaleOfBlock(const uint8_t* w, const uint8_t* header, int part, int half) {
  const uint8_t* scales = w + Format(kLayout).number_bytes;
  if constexpr (kLayout == kTileQ6_K) {
    return Mul(LoadHalf(header + 2 * kLanes * part), LoadI8(scales + kTileRows * half + kLanes * part));
  } else if constexpr (Format(kLayout).header_bytes != 0) {
    return Mul(LoadHalf(header + 2 * kLanes * part), LoadU8(scales + kLanes * part));
  } else {
    return LoadHalf(scales + 2 * kLanes * part);
  }
}
template <Layout kLayout>
inline F MinOfBlock(const uint8_t* w, const uint8_t* header, int part) {
  const uint8_t* scales = w + Format(kLayout).number_bytes;
  if constexpr (Format(kLayout).header_bytes != 0) {
    return Mul(LoadHalf(header + 2 * kTileRows + 2 * kLanes * part), LoadU8(scales + kTileRows + kLanes * part));
  } else {
    return LoadHalf(scales + 2 * kTileRows + 2 * kLanes * part);
  }
}

inline const float* Floats(const uint8_t* p) { return reinterpret_cast<const float*>(p); }

template <Layout kLayout, int kRows, int kHalf>
[[gnu::always_inline]] inline void AddScaled(const uint8_t* w, const uint8_t* header, int part, const uint8_t* act, F (&sum)[kRows]) {
  constexpr ActOffsets kAt = ActLayout(kRows);
  const F d = ScaleOfBlock<kLayout>(w, header, part, kHalf);
  F min;
  if constexpr (Format(kLayout).min) min = MinOfBlock<kLayout>(w, header, part);
  Dot<kLayout, kRows, kHalf>(w, part, act, [&](int m, I acc) {
    // All but the last step is independent of the dot product, which is late.
    if constexpr (Format(kLayout).min) sum[m] = Fma(min, Set1(Floats(act + kAt.s)[m]), sum[m]);
    sum[m] = Fma(ToFloat(acc), Mul(d, Set1(Floats(act + kAt.d)[m])), sum[m]);
  });
}

// All parts of one block; `act` comes back as it was.
template <Layout kLayout, int kRows>
[[gnu::always_inline]] inline void AddBlock(const uint8_t* w, const uint8_t* header, const uint8_t*& act, Sums<kRows>& sums) {
  for (int p = 0; p < kParts; ++p) {
    // Broadcasts are loads: to keep those of one part for the next would only spill registers.
    if constexpr (kParts > 1) asm("" : "+r"(act));
    if constexpr (kLayout == kTileQ6_K) {
      AddScaled<kLayout, kRows, 0>(w, header, p, act, sums.lane[p]);
      AddScaled<kLayout, kRows, 1>(w, header, p, act, sums.lane[p]);
    } else {
      AddScaled<kLayout, kRows, -1>(w, header, p, act, sums.lane[p]);
    }
  }
}

// How far ahead of the arithmetic weights are asked for: about the latency of memory times a thread's share of its rate. With AVX-512 the
// arithmetic is short and memory (a server's, above all) far: asked for in two steps, first into the second-level cache, which has room for
// more misses, all products of one row took 0.92 of the time. With AVX2 the second instruction cost a Zen 3 as much as it gained.
#if defined(HAAST_VEC_AVX512)
constexpr int kFarPrefetch = 8 << 10;  // 0: none
constexpr int kPrefetchBytes = 1024;
#else
constexpr int kFarPrefetch = 0;
constexpr int kPrefetchBytes = 2048;
#endif

template <Layout kLayout, int kRows>
void QuantTiles(const TileArgs& first) {
  constexpr TileFormat kFormat = Format(kLayout);
  constexpr int kBytes = kFormat.number_bytes + kFormat.scale_bytes;
  TileArgs args = first;
  for (int64_t t = 0; t < first.tiles; ++t, NextTile(args, 1)) {
    Sums<kRows> sums;
    Clear(sums);
    const uint8_t* w = args.w;
    const uint8_t* act = args.act;
    const uint8_t* header = w;
    for (int64_t b = 0; b < args.k / kBlock; ++b, w += kBytes, act += ActLayout(kRows).size) {
      if (kFormat.header_bytes != 0 && b % kSuperBlocks == 0) {
        header = w;
        w += kFormat.header_bytes;
      }
      for (int line = 0; line < kBytes; line += 64) {
        if constexpr (kFarPrefetch > 0) __builtin_prefetch(w + kFarPrefetch + line, 0, 2);
        __builtin_prefetch(w + kPrefetchBytes + line, 0, 3);
      }
      AddBlock<kLayout, kRows>(w, header, act, sums);
    }
    StoreTile(sums, args);
  }
}

template <Layout kLayout>
inline F LoadNumbers(const uint8_t* w, int part) {
  if constexpr (kLayout == kTileF32) return Load(Floats(w) + part * kLanes);
  if constexpr (kLayout == kTileF16) return LoadHalf(w + 2 * part * kLanes);
  if constexpr (kLayout == kTileBF16) return LoadBf16(w + 2 * part * kLanes);
}

// `kTiles` tiles at once: one row alone would wait for the latency of its single chain.
template <Layout kLayout, int kRows, int kTiles>
inline void FloatTile(const TileArgs& first) {
  constexpr int kBytes = Format(kLayout).number_bytes;
  Sums<kRows> sums[kTiles];
  for (auto& s : sums) Clear(s);
  const uint8_t* w = first.w;
  const float* act = Floats(first.act);
  for (int64_t i = 0; i < first.k; ++i, w += kBytes, act += kRows) {
    for (int t = 0; t < kTiles; ++t) {
      for (int p = 0; p < kParts; ++p) {
        const F numbers = LoadNumbers<kLayout>(w + t * first.tile_bytes, p);
        for (int m = 0; m < kRows; ++m) sums[t].lane[p][m] = Fma(Set1(act[m]), numbers, sums[t].lane[p][m]);
      }
    }
  }
  TileArgs args = first;
  for (int t = 0; t < kTiles; ++t, NextTile(args, 1)) StoreTile(sums[t], args);
}

template <Layout kLayout, int kRows>
void FloatTiles(const TileArgs& first) {
  constexpr int kTiles = kRows == 1 ? 4 : kRows <= 3 ? 2 : 1;
  TileArgs args = first;
  int64_t t = 0;
  for (; t + kTiles <= first.tiles; t += kTiles, NextTile(args, kTiles)) FloatTile<kLayout, kRows, kTiles>(args);
  for (; t < first.tiles; ++t, NextTile(args, 1)) FloatTile<kLayout, kRows, 1>(args);
}

template <int kRows>
inline void FillTable(IsaKernels& isa) {
  isa.tile[kTileQ4_0][kRows] = QuantTiles<kTileQ4_0, kRows>;
  isa.tile[kTileQ4_1][kRows] = QuantTiles<kTileQ4_1, kRows>;
  isa.tile[kTileQ8_0][kRows] = QuantTiles<kTileQ8_0, kRows>;
  isa.tile[kTileQ4_K][kRows] = QuantTiles<kTileQ4_K, kRows>;
  isa.tile[kTileQ5_K][kRows] = QuantTiles<kTileQ5_K, kRows>;
  isa.tile[kTileQ6_K][kRows] = QuantTiles<kTileQ6_K, kRows>;
  isa.tile[kTileF32][kRows] = FloatTiles<kTileF32, kRows>;
  isa.tile[kTileF16][kRows] = FloatTiles<kTileF16, kRows>;
  isa.tile[kTileBF16][kRows] = FloatTiles<kTileBF16, kRows>;
  if constexpr (kRows > 1) FillTable<kRows - 1>(isa);
}

// All kernels of this file's instruction set, for register blocks of 1 .. kGroup rows.
template <int kGroup>
inline IsaKernels MakeKernels(const char* name, bool emulated = false) {
  IsaKernels isa{};
  isa.name = name;
  isa.emulated = emulated;
  isa.group = kGroup;
  isa.prepare_quant[0] = PrepareQuant<Prologue::kNone>;
  isa.prepare_quant[1] = PrepareQuant<Prologue::kRmsNorm>;
  isa.prepare_quant[2] = PrepareQuant<Prologue::kSiluMul>;
  isa.prepare_float[0] = PrepareFloat<Prologue::kNone>;
  isa.prepare_float[1] = PrepareFloat<Prologue::kRmsNorm>;
  isa.prepare_float[2] = PrepareFloat<Prologue::kSiluMul>;
  isa.rms_norm_row = RmsNormRow;
  isa.silu_mul_row = SiluMulRow;
#if !defined(HAAST_VEC_PORTABLE)
  isa.dot_loop = DotLoop;
#endif
  FillTable<kGroup>(isa);
  return isa;
}

}  // namespace
}  // namespace haast::kernels
