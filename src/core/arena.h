// Bump allocation out of one buffer: activations of one step. Reset frees all; nothing is freed singly.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "core/buffer.h"

namespace haast {

class Arena {
 public:
  Arena() = default;
  explicit Arena(Buffer buffer) : buffer_(std::move(buffer)) {}

  // `count` elements of T, 64-byte aligned, uninitialised. The caller sized the arena for its largest step.
  template <typename T>
  T* Take(int64_t count) {
    const size_t begin = (used_ + 63) / 64 * 64;
    const size_t end = begin + static_cast<size_t>(count) * sizeof(T);
    HAAST_CHECK(end <= buffer_.size()) << "arena of " << buffer_.size() << " bytes, " << end << " needed";
    used_ = end;
    return reinterpret_cast<T*>(buffer_.data() + begin);
  }

  // Gives back everything taken since mark().
  using Mark = size_t;
  Mark mark() const { return used_; }
  void Rewind(Mark mark) {
    HAAST_CHECK(mark <= used_) << "rewind to " << mark << " of " << used_;
    used_ = mark;
  }

  void Reset() {
    used_ = 0;
#ifdef HAAST_CHECKED
    buffer_.Poison();
#endif
  }
  size_t size() const { return buffer_.size(); }

 private:
  Buffer buffer_;
  size_t used_ = 0;
};

}  // namespace haast
