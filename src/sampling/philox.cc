#include "sampling/philox.h"

namespace haast::sampling {
namespace {

// Multipliers and Weyl increments of Philox4x32 (Salmon et al., SC 2011).
constexpr uint32_t kMultiplier0 = 0xD2511F53;
constexpr uint32_t kMultiplier1 = 0xCD9E8D57;
constexpr uint32_t kWeyl0 = 0x9E3779B9;
constexpr uint32_t kWeyl1 = 0xBB67AE85;
constexpr int kRounds = 10;

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

float Uniform(uint64_t seed, int64_t position, Stream stream) {
  const uint64_t p = static_cast<uint64_t>(position);
  const auto words = Philox4x32({static_cast<uint32_t>(p), static_cast<uint32_t>(p >> 32), static_cast<uint32_t>(stream), 0},
                                {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
  // 24 bits fit a float exactly: the largest value is 1 - 2^-24, never 1.
  return static_cast<float>(words[0] >> 8) * 0x1p-24f;
}

}  // namespace haast::sampling
