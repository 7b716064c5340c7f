// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). The numbers of a position depend on the request's
// seed and the absolute position alone, never on the batch or on what was drawn before.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace haast::sampling {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// What numbers are used for, so that two uses at one position never share them.
enum class Stream : uint32_t { kBlockTime = 0, kTokenTime = 1, kDraftBlockTime = 2, kDraftTokenTime = 3, kAcceptance = 4 };

// The four words of item `index` at `position`, the absolute position of the token that is sampled.
std::array<uint32_t, 4> RandomWords(uint64_t seed, int64_t position, Stream stream, uint32_t index);

// Words 0 and 1 of many items at once, for less than they cost one by one: word 0 is the high half. indices and words: [n].
void RandomPairs(uint64_t seed, int64_t position, Stream stream, std::span<const uint32_t> indices, std::span<uint64_t> words);

// Words 0 and 1 of RandomWords as one number, word 0 the high half.
inline uint64_t PairOf(const std::array<uint32_t, 4>& words) { return uint64_t{words[0]} << 32 | words[1]; }

// An odd multiple of 2^-53 in (0, 1), from the high 52 bits of a pair of words: 0 and 1 never occur, 1 - x is exact.
double OpenUniform(uint64_t words);

}  // namespace haast::sampling
