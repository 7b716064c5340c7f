// A 64-bit checksum (XXH3) against damage by accident.
#pragma once

#include <cstdint>
#include <span>

namespace haast::base {

uint64_t Checksum(std::span<const uint8_t> bytes, uint64_t seed = 0);

}  // namespace haast::base
