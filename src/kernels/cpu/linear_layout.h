// How packed weights and rounded activations lie in memory. The same for every instruction set.
//
// A tile is 16 output rows (lanes) x all of K. Tiles follow each other; lanes beyond N are zero.
//
// Block formats: a tile is a sequence of blocks of 32 k. Numbers are unsigned; the amount subtracted from them (8, 128, 32)
// or the minimum is a correction with the sum of the activations. A *group* is 4 consecutive k of all 16 lanes: 64 bytes,
// lane r in bytes 4r .. 4r+3; a block has 8 groups.
//   4 bits   4 x 64 bytes; byte i of the c-th holds group 2c in its low and group 2c + 1 in its high nibble
//   5 bits   the same, then 64 bytes whose bit g is bit 4 of group g
//   6 bits   the same, then 2 x 64 bytes: bits 2(g % 4), +1 of the (g / 4)-th are bits 4 and 5 of group g
//   8 bits   8 x 64 bytes
// and behind them the lanes' scales (and minima), below.
//
// Floats: for each k the 16 lanes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace haast::kernels {

enum Layout : int {
  kNoLayout,
  kTileQ4_0,
  kTileQ4_1,
  kTileQ8_0,
  kTileQ4_K,
  kTileQ5_K,
  kTileQ6_K,
  kTileF32,
  kTileF16,
  kTileBF16,
  kNumLayouts
};

constexpr int kTileRows = 16;
constexpr int kBlock = 32;
constexpr int kSuperBlocks = 8;  // blocks of a K-quant super-block

struct TileFormat {
  int bits = 0;          // of a number; 0: floats
  int zero = 0;          // subtracted from every number
  bool min = false;      // scales are followed by minima
  int number_bytes = 0;  // of one block's numbers; floats: of one k
  int scale_bytes = 0;   // of one block's scales and minima
  int header_bytes = 0;  // before every 8 blocks: f16 scales (then negated f16 scales of the minima) of a super-block
};

// Forced inline, like all functions here: files compiled for different processors share this header, and the linker must not
// keep a copy that this processor cannot run.
[[gnu::always_inline]] constexpr TileFormat Format(Layout layout) {
  switch (layout) {
    case kTileQ4_0: return {.bits = 4, .zero = 8, .number_bytes = 256, .scale_bytes = 32};                        // f16 d
    case kTileQ4_1: return {.bits = 4, .min = true, .number_bytes = 256, .scale_bytes = 64};                      // f16 d, f16 m
    case kTileQ8_0: return {.bits = 8, .zero = 128, .number_bytes = 512, .scale_bytes = 32};                      // f16 d
    case kTileQ4_K: return {.bits = 4, .min = true, .number_bytes = 256, .scale_bytes = 32, .header_bytes = 64};  // u8 sc, u8 m
    case kTileQ5_K: return {.bits = 5, .min = true, .number_bytes = 320, .scale_bytes = 32, .header_bytes = 64};
    case kTileQ6_K: return {.bits = 6, .zero = 32, .number_bytes = 384, .scale_bytes = 32, .header_bytes = 32};  // 2 x i8 sc
    case kTileF32: return {.number_bytes = 64};
    case kTileF16:
    case kTileBF16: return {.number_bytes = 32};
    default: return {};
  }
}

// Bytes of one tile of `k` columns (a multiple of the format's block).
[[gnu::always_inline]] constexpr int64_t TileBytes(Layout layout, int64_t k) {
  const TileFormat format = Format(layout);
  if (format.bits == 0) return k * format.number_bytes;
  const int64_t blocks = k / kBlock;
  return blocks * (format.number_bytes + format.scale_bytes) + blocks / kSuperBlocks * format.header_bytes;
}

// Activations of `rows` rows (one register block) and 32 k. value = d * q; s = d * sum(q).
struct ActOffsets {
  int d, s, neg, neg_half, size;  // bytes from the block's start; q comes first, [rows][32] int8
};
[[gnu::always_inline]] constexpr ActOffsets ActLayout(int rows) {
  return {.d = 32 * rows, .s = 36 * rows, .neg = 40 * rows, .neg_half = 44 * rows, .size = 52 * rows};
}

// Rows that a workspace holds beyond its max_rows, for threads that prepare the same few rows each for itself.
constexpr int64_t kSpareRows = 16;

// Bytes of one prepared row: rounded (K a multiple of 32) or as floats.
[[gnu::always_inline]] constexpr int64_t QuantRowBytes(int64_t k) { return k / kBlock * ActLayout(1).size; }
[[gnu::always_inline]] constexpr int64_t FloatRowBytes(int64_t k) { return k * static_cast<int64_t>(sizeof(float)); }

}  // namespace haast::kernels
