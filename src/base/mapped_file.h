// A file mapped read-only into memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "haast/result.h"

namespace haast::base {

class MappedFile {
 public:
  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  // Maps a regular file; an empty one is valid and has no bytes. The bytes stay valid while this object lives and
  // nobody truncates the file.
  static Result<MappedFile> Open(const std::string& path);

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // Tells the system that the pages of this range are not needed soon (they can be read again from the file).
  void DropPages(const void* begin, size_t size) const;

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

}  // namespace haast::base
