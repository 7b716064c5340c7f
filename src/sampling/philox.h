// Counter-based random numbers: Philox4x32-10 (Salmon et al., SC 2011). The numbers of a position depend on the request's
// seed and the absolute position alone, never on the batch or on what was drawn before.
#pragma once

#include <array>
#include <cstdint>

namespace haast::sampling {

std::array<uint32_t, 4> Philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

// What a uniform is used for, so that two uses at one position never share it.
enum class Stream : uint32_t { kTarget = 0, kDraft = 1, kAccept = 2 };

// In [0, 1), 24 bits. `position` is the absolute position of the token that is sampled.
float Uniform(uint64_t seed, int64_t position, Stream stream);

}  // namespace haast::sampling
