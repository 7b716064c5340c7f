// A small generator with the same numbers everywhere: SplitMix64 (Steele, Lea, Flood 2014), keyed by seed and name.
#pragma once

#include <cstdint>
#include <string_view>

namespace haast::testing {

class Random {
 public:
  explicit Random(uint64_t seed, std::string_view name = "") : state_(seed * 0x9e3779b97f4a7c15u) {
    for (char c : name) state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // In [-1, 1), a multiple of 2^-23: exact in fp32.
  float Symmetric() { return static_cast<float>(static_cast<int64_t>(Next() >> 40) - (1 << 23)) / static_cast<float>(1 << 23); }

 private:
  uint64_t state_;
};

}  // namespace haast::testing
