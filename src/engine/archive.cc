#include "engine/archive.h"

namespace haast::engine {

// Not inline: g++ 12 sees overflows in the inlined growth of a vector of bytes.
void ArchiveWriter::Raw(const void* data, size_t size) {
  const auto* begin = static_cast<const uint8_t*>(data);
  bytes_.insert(bytes_.end(), begin, begin + size);
}

}  // namespace haast::engine
