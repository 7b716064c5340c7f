// Memory that one object owns: 64-byte aligned, zeroed by the system, never grown behind the owner's back.
#pragma once

#include <cstddef>
#include <cstdint>

#include "haast/result.h"

namespace haast {

// How the memory will be used. A huge page is cleared whole at its first touch, so sparse use of large buffers (a KV pool
// of which few pages are in use) would clear, and keep, far more than it needs.
enum class BufferUse { kDense, kSparse };

int64_t MachineBytes();  // physical memory

class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  // `bytes` of zeroed memory (0 is valid); large dense ones ask the system for huge pages. `what` names it in the error.
  // Fails with kOutOfMemory, the number of bytes and the remedy, also where the system would overcommit beyond the
  // machine's memory.
  static Result<Buffer> Allocate(size_t bytes, const char* what, BufferUse use = BufferUse::kDense);

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(data_);
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_);
  }
  size_t size() const { return size_; }

  // Checked builds: fills the memory with 0x7f bytes, so that stale contents cannot be mistaken for fresh ones.
  void Poison();

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace haast
