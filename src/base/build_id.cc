#include "base/build_id.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "base/format.h"

namespace haast::base {
namespace {

// The GNU build id among the notes of one segment: {name size, description size, type, name, description}, each padded to 4 bytes.
std::string FindBuildId(std::span<const uint8_t> notes) {
  const auto padded = [](size_t size) { return (size + 3) / 4 * 4; };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes.data(), sizeof(header));
    notes = notes.subspan(sizeof(header));
    const size_t description = padded(header.n_namesz), end = description + padded(header.n_descsz);
    if (end > notes.size()) return {};
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(notes.data(), "GNU", 4) == 0) {
      return fmt::format("{:02x}", fmt::join(notes.subspan(description, header.n_descsz), ""));
    }
    notes = notes.subspan(end);
  }
  return {};
}

// The first object is the program itself.
int ReadProgram(dl_phdr_info* info, size_t, void* id) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const uint8_t*>(info->dlpi_addr + segment.p_vaddr);
    const std::string found = FindBuildId({begin, segment.p_memsz});
    if (!found.empty()) *static_cast<std::string*>(id) = found;
  }
  return 1;
}

std::string MakeBuildId() {
  std::string id;
  dl_iterate_phdr(ReadProgram, &id);
  return id.empty() ? std::string("compiler ") + __VERSION__ : id;
}

}  // namespace

const std::string& BuildId() {
  static const std::string id = MakeBuildId();
  return id;
}

}  // namespace haast::base
