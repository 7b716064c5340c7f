#include "sampling/philox.h"

#include <algorithm>

#include "base/check.h"

namespace haast::sampling {
namespace {

// Multipliers and Weyl increments of Philox4x32 (Salmon et al., SC 2011).
constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

// Items side by side, so that a compiler may use vector registers.
constexpr size_t kLanes = 16;
using Lanes = std::array<uint32_t, kLanes>;

}  // namespace

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t product0 = uint64_t{kMultiplier0} * counter[0];
    const uint64_t product1 = uint64_t{kMultiplier1} * counter[2];
    counter = {static_cast<uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(product1),
               static_cast<uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::array<uint32_t, 4> RandomWords(uint64_t seed, int64_t position, Stream stream, uint32_t index) {
  const uint64_t p = static_cast<uint64_t>(position);
  return Philox4x32({static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), static_cast<uint32_t>(stream), index},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

void RandomPairs(uint64_t seed, int64_t position, Stream stream, std::span<const uint32_t> indices, std::span<uint64_t> words) {
  HAAST_CHECK(indices.size() == words.size()) << indices.size() << " indices, " << words.size() << " pairs";
  for (size_t begin = 0; begin < indices.size(); begin += kLanes) {
    const size_t count = std::min<size_t>(kLanes, indices.size() - begin);
    Lanes c0, c1, c2, c3;
    for (size_t i = 0; i < kLanes; ++i) {
      c0[i] = static_cast<uint32_t>(position);
      c1[i] = static_cast<uint32_t>(static_cast<uint64_t>(position) >> 32);
      c2[i] = static_cast<uint32_t>(stream);
      c3[i] = indices[begin + std::min(i, count - 1)];
    }
    uint32_t key0 = static_cast<uint32_t>(seed);
    uint32_t key1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < kRounds; ++round, key0 += kWeyl0, key1 += kWeyl1) {
      for (size_t i = 0; i < kLanes; ++i) {
        const uint64_t product0 = uint64_t{kMultiplier0} * c0[i];
        const uint64_t product1 = uint64_t{kMultiplier1} * c2[i];
        c0[i] = static_cast<uint32_t>(product1 >> 32) ^ c1[i] ^ key0;
        c1[i] = static_cast<uint32_t>(product1);
        c2[i] = static_cast<uint32_t>(product0 >> 32) ^ c3[i] ^ key1;
        c3[i] = static_cast<uint32_t>(product0);
      }
    }
    for (size_t i = 0; i < count; ++i) words[begin + i] = uint64_t{c0[i]} << 32 | c1[i];
  }
}

double OpenUniform(uint64_t words) { return static_cast<double>(2 * (words >> 12) + 1) * 0x1p-53; }

}  // namespace haast::sampling
