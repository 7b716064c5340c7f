#include "base/checksum.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace haast::base {

uint64_t Checksum(std::span<const uint8_t> bytes, uint64_t seed) { return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed); }

}  // namespace haast::base
