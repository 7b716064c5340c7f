// Any bytes as a saved session: as they come, and with a right header and checksum around them.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "engine/archive.h"
#include "engine/session_file.h"

using namespace haast::engine;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> bytes(data, size);
  static_cast<void>(DecodeSession(bytes, "fuzz"));
  std::vector<uint8_t> sealed;
  ArchiveWriter writer(&sealed);
  writer.Raw("HAASTSES", 8);
  writer(kSessionVersion, static_cast<uint64_t>(size));
  writer.Raw(data, size);
  writer(haast::base::Checksum(sealed));
  const auto session = DecodeSession(sealed, "fuzz");
  if (!session) return 0;
  // What was read is written back as it was.
  HAAST_CHECK(EncodeSession(*session) == sealed) << size << " bytes of fields";
  return 0;
}
