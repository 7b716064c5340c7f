// Weights into tiles (linear_layout.h). Numbers and scales are moved, never changed: a packed weight multiplies as its source.
#include <sys/mman.h>

#include <cstring>
#include <vector>

#include "base/check.h"
#include "base/format.h"
#include "kernels/cpu/linear_kernels.h"

namespace haast::kernels {
namespace {

Layout LayoutOf(DType dtype) {
  switch (dtype) {
    case DType::kF32: return kTileF32;
    case DType::kF16: return kTileF16;
    case DType::kBF16: return kTileBF16;
    case DType::kQ4_0: return kTileQ4_0;
    case DType::kQ4_1: return kTileQ4_1;
    case DType::kQ8_0: return kTileQ8_0;
    case DType::kQ4_K: return kTileQ4_K;
    case DType::kQ5_K: return kTileQ5_K;
    case DType::kQ6_K: return kTileQ6_K;
    default: return kNoLayout;
  }
}

// 32 numbers of one row, unsigned.
using Numbers = uint8_t[kBlock];

uint32_t GroupWord(const Numbers& numbers, int group) {
  uint32_t word;
  std::memcpy(&word, numbers + 4 * group, sizeof(word));
  return word;
}

void OrWord(uint8_t* at, uint32_t bits) {
  uint32_t word;
  std::memcpy(&word, at, sizeof(word));
  word |= bits;
  std::memcpy(at, &word, sizeof(word));
}

// Puts one lane's numbers into a block that was zero.
void PutNumbers(const Numbers& numbers, int bits, int lane, uint8_t* block) {
  uint8_t* at = block + 4 * lane;
  for (int g = 0; g < 8; ++g) {
    const uint32_t word = GroupWord(numbers, g);
    if (bits == 8) {
      OrWord(at + 64 * g, word);
      continue;
    }
    OrWord(at + 64 * (g / 2), (word & 0x0f0f0f0f) << (4 * (g % 2)));
    if (bits == 5) OrWord(at + 256, ((word >> 4) & 0x01010101) << g);
    if (bits == 6) OrWord(at + 256 + 64 * (g / 4), ((word >> 4) & 0x03030303) << (2 * (g % 4)));
  }
}

void SplitNibbles(const uint8_t* nibbles, Numbers& numbers) {
  for (int i = 0; i < 16; ++i) {
    numbers[i] = nibbles[i] & 15;
    numbers[i + 16] = nibbles[i] >> 4;
  }
}

// The 6-bit scale and minimum of block `j` of a Q4_K or Q5_K super-block.
void KScale(const uint8_t* packed, int j, uint8_t* scale, uint8_t* min) {
  if (j < 4) {
    *scale = packed[j] & 63;
    *min = packed[j + 4] & 63;
  } else {
    *scale = static_cast<uint8_t>((packed[j + 4] & 15) | ((packed[j - 4] >> 6) << 4));
    *min = static_cast<uint8_t>((packed[j + 4] >> 4) | ((packed[j] >> 6) << 4));
  }
}

// One lane of one tile: `source` is the row in ggml's format.
class LanePacker {
 public:
  LanePacker(Layout layout, int lane, uint8_t* tile) : format_(Format(layout)), layout_(layout), lane_(lane), tile_(tile) {}

  void Pack(const uint8_t* source, int64_t blocks) {
    const int source_bytes = layout_ == kTileQ4_0 ? 18 : layout_ == kTileQ4_1 ? 20 : 34;
    if (format_.header_bytes == 0) {
      for (int64_t b = 0; b < blocks; ++b) PackBlock(source + b * source_bytes, BlockAt(b));
      return;
    }
    const int super_bytes = layout_ == kTileQ4_K ? 144 : layout_ == kTileQ5_K ? 176 : 210;
    for (int64_t s = 0; s < blocks / kSuperBlocks; ++s) {
      uint8_t* header = BlockAt(s * kSuperBlocks) - format_.header_bytes;
      const uint8_t* super = source + s * super_bytes;
      if (layout_ == kTileQ6_K) {
        PackSuper6(super, header, s);
      } else {
        PackSuper45(super, header, s);
      }
    }
  }

 private:
  uint8_t* BlockAt(int64_t b) const {
    return tile_ + b * (format_.number_bytes + format_.scale_bytes) + (b / kSuperBlocks + 1) * format_.header_bytes;
  }
  uint8_t* ScalesOf(uint8_t* block) const { return block + format_.number_bytes; }
  void PutHalf(uint8_t* scales, const uint8_t* half) const { std::memcpy(scales + 2 * lane_, half, 2); }

  void PackBlock(const uint8_t* source, uint8_t* block) const {
    Numbers numbers;
    PutHalf(ScalesOf(block), source);
    if (layout_ == kTileQ8_0) {
      for (int i = 0; i < kBlock; ++i) numbers[i] = source[2 + i] ^ 0x80;
    } else {
      if (format_.min) PutHalf(ScalesOf(block) + 2 * kTileRows, source + 2);
      SplitNibbles(source + (format_.min ? 4 : 2), numbers);
    }
    PutNumbers(numbers, format_.bits, lane_, block);
  }

  // Q4_K: f16 d, f16 dmin, 12 B scales, 128 B nibbles. Q5_K: the same with 32 B of fifth bits before the nibbles.
  void PackSuper45(const uint8_t* source, uint8_t* header, int64_t super) const {
    PutHalf(header, source);
    const uint8_t negated_min[2] = {source[2], static_cast<uint8_t>(source[3] ^ 0x80)};
    PutHalf(header + 2 * kTileRows, negated_min);
    const bool fifth = layout_ == kTileQ5_K;
    const uint8_t* nibbles = source + (fifth ? 48 : 16);
    for (int j = 0; j < kSuperBlocks; ++j) {
      Numbers numbers;
      for (int i = 0; i < kBlock; ++i) {
        numbers[i] = (nibbles[j / 2 * kBlock + i] >> (4 * (j % 2))) & 15;
        if (fifth) numbers[i] |= ((source[16 + i] >> j) & 1) << 4;
      }
      uint8_t* block = BlockAt(super * kSuperBlocks + j);
      PutNumbers(numbers, format_.bits, lane_, block);
      KScale(source + 4, j, ScalesOf(block) + lane_, ScalesOf(block) + kTileRows + lane_);
    }
  }

  // Q6_K: 128 B low nibbles, 64 B high pairs of bits, 16 int8 scales (of 16 numbers each), f16 d.
  void PackSuper6(const uint8_t* source, uint8_t* header, int64_t super) const {
    PutHalf(header, source + 208);
    for (int j = 0; j < kSuperBlocks; ++j) {
      const uint8_t* low = source + 64 * (j / 4) + kBlock * (j % 2);
      const uint8_t* high = source + 128 + 32 * (j / 4);
      const int low_shift = 4 * (j % 4 / 2);
      const int high_shift = 2 * (j % 4);
      Numbers numbers;
      for (int i = 0; i < kBlock; ++i) {
        numbers[i] = static_cast<uint8_t>(((low[i] >> low_shift) & 15) | (((high[i] >> high_shift) & 3) << 4));
      }
      uint8_t* block = BlockAt(super * kSuperBlocks + j);
      PutNumbers(numbers, format_.bits, lane_, block);
      for (int half = 0; half < 2; ++half) ScalesOf(block)[kTileRows * half + lane_] = source[192 + 2 * j + half];
    }
  }

  const TileFormat format_;
  const Layout layout_;
  const int lane_;
  uint8_t* const tile_;
};

void PackFloatLane(const uint8_t* source, int64_t k, int number_bytes, int lane, uint8_t* tile) {
  const int bytes = number_bytes / kTileRows;
  for (int64_t i = 0; i < k; ++i) std::memcpy(tile + i * number_bytes + lane * bytes, source + i * bytes, static_cast<size_t>(bytes));
}

// Matrices are smaller than a huge page, but their buffers lie side by side: once its neighbours are there, a huge page's worth
// of them can be put into one. Reading weights is bound by memory, and without this a tenth of it goes into page walks.
// A hint: systems that cannot do it change nothing, and neither do parts of the range that are not ours or not there.
void JoinPages(const Buffer& buffer) {
  constexpr uintptr_t kHugePage = uintptr_t{2} << 20;
  constexpr int kCollapse = 25;  // MADV_COLLAPSE of Linux 6.1, which older C libraries do not name
  const auto begin = reinterpret_cast<uintptr_t>(buffer.data());
  for (uintptr_t page = begin / kHugePage * kHugePage; page < begin + buffer.size(); page += kHugePage) {
    madvise(reinterpret_cast<void*>(page), kHugePage, kCollapse);
  }
}

}  // namespace

Result<PackedWeight> PackWeight(const TensorView& weight, const DType* quantise_to, base::ThreadPool& pool) {
  HAAST_CHECK(weight.rank == 2) << weight.ToString();
  const int64_t n = weight.shape[0];
  const int64_t k = weight.shape[1];
  DType dtype = weight.dtype;
  if (quantise_to != nullptr) {
    HAAST_CHECK(*quantise_to == DType::kQ8_0 || *quantise_to == DType::kQ4_1) << Info(*quantise_to).name;
    HAAST_CHECK(IsFloat(weight.dtype)) << weight.ToString();
    if (k % kBlock == 0) dtype = *quantise_to;
  }
  const bool rounded = dtype != weight.dtype;
  const Layout layout = LayoutOf(dtype);
  if (layout == kNoLayout) return Err(ErrorCode::kUnsupported, "weight {}: no product for this element type", weight.ToString());
  HAAST_CHECK(k % Info(dtype).block_elements == 0) << weight.ToString();

  const int64_t tiles = (n + kTileRows - 1) / kTileRows;
  const int64_t tile_bytes = TileBytes(layout, k);
  auto data = Buffer::Allocate(static_cast<size_t>(tiles * tile_bytes), "weights");
  if (!data) return tl::make_unexpected(data.error());
  const auto* source = static_cast<const uint8_t*>(weight.data);
  const int64_t source_bytes = BytesOf(weight.dtype, k);
  uint8_t* out = data->data();
  pool.Run([&](int thread, int threads) {
    std::vector<float> floats(rounded ? k : 0);
    std::vector<uint8_t> blocks(rounded ? BytesOf(dtype, k) : 0);
    const auto [begin, end] = base::Share(tiles, thread, threads);
    for (int64_t row = begin * kTileRows; row < end * kTileRows && row < n; ++row) {
      const uint8_t* numbers = source + row * source_bytes;
      if (rounded) {
        DequantiseRow(weight, row, floats.data());
        QuantiseRow(floats.data(), k, dtype, blocks.data());
        numbers = blocks.data();
      }
      uint8_t* tile = out + row / kTileRows * tile_bytes;
      const int lane = static_cast<int>(row % kTileRows);
      if (Format(layout).bits == 0) {
        PackFloatLane(numbers, k, Format(layout).number_bytes, lane, tile);
      } else {
        LanePacker(layout, lane, tile).Pack(numbers, k / kBlock);
      }
    }
  });
  JoinPages(*data);
  PackedWeight packed{.n = n, .k = k, .dtype = dtype, .layout = layout};
  packed.data = std::move(*data);
  packed.bytes_per_pass = tiles * tile_bytes;
  return packed;
}

}  // namespace haast::kernels
