#include "engine/swap_space.h"

#include <unistd.h>

#include "base/checksum.h"
#include "base/file_bytes.h"
#include "base/format.h"

namespace haast::engine {

SwapSpace::Entry::~Entry() {
  if (file_ >= 0) close(file_);
  space_.used_ -= size_;
}

Result<std::vector<uint8_t>> SwapSpace::Entry::Read() const {
  if (file_ < 0) return bytes_;
  std::vector<uint8_t> bytes(static_cast<size_t>(size_));
  HAAST_RETURN_IF_ERROR(base::ReadAll(file_, bytes, "swap file in " + space_.directory_));
  if (base::Checksum(bytes) != checksum_) {
    return Err(ErrorCode::kInvalidFile, "swap file in {}: its {} bytes were changed", space_.directory_, size_);
  }
  return bytes;
}

Result<std::unique_ptr<SwapSpace::Entry>> SwapSpace::Put(std::vector<uint8_t> bytes) {
  const int64_t size = static_cast<int64_t>(bytes.size());
  if (size > limit_ - used_) return Err(ErrorCode::kOutOfMemory, "swap space: {} bytes beside {} of {}", size, used_, limit_);
  auto entry = std::make_unique<Entry>(this, size);
  if (directory_.empty()) {
    entry->bytes_ = std::move(bytes);
    return entry;
  }
  HAAST_ASSIGN_OR_RETURN(entry->file_, base::OpenNamelessFile(directory_));
  HAAST_RETURN_IF_ERROR(base::WriteAll(entry->file_, bytes, "swap file in " + directory_));
  entry->checksum_ = base::Checksum(bytes);
  return entry;
}

}  // namespace haast::engine
