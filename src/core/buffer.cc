#include "core/buffer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "base/format.h"

namespace haast {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

int64_t MachineBytes() { return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, size_);
}

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

Result<Buffer> Buffer::Allocate(size_t bytes, const char* what, BufferUse use) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  const size_t machine = static_cast<size_t>(MachineBytes());
  void* data = bytes > machine ? MAP_FAILED : mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Err(ErrorCode::kOutOfMemory,
               "{}: cannot allocate {} MiB (the machine has {} MiB); use a smaller model, or lower max_context or kv_tokens", what,
               bytes >> 20, machine >> 20);
  }
  if (bytes >= kHugePage) madvise(data, bytes, use == BufferUse::kDense ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  buffer.data_ = static_cast<uint8_t*>(data);
  buffer.size_ = bytes;
  return buffer;
}

void Buffer::Poison() {
  if (data_ != nullptr) std::memset(data_, 0x7f, size_);
}

}  // namespace haast
