// Where the state of preempted requests waits: host memory, or files that have no name and go with the process.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "haast/result.h"

namespace haast::engine {

class SwapSpace {
 public:
  // What one request left. Gives its part of the space back when it goes; the space outlives it.
  class Entry {
   public:
    Entry(SwapSpace* space, int64_t size) : space_(*space), size_(size) { space_.used_ += size_; }
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // The bytes as they were put; kIo or kInvalidFile where the file system lost or changed them.
    Result<std::vector<uint8_t>> Read() const;

   private:
    friend class SwapSpace;
    SwapSpace& space_;
    const int64_t size_;
    std::vector<uint8_t> bytes_;  // in host memory
    int file_ = -1;               // or here
    uint64_t checksum_ = 0;       // of the file's bytes
  };

  // `directory` empty: host memory. At most `limit` bytes.
  SwapSpace(std::string directory, int64_t limit) : directory_(std::move(directory)), limit_(limit) {}

  // kOutOfMemory beyond the limit, kIo with path and cause.
  Result<std::unique_ptr<Entry>> Put(std::vector<uint8_t> bytes);
  int64_t used() const { return used_; }

 private:
  const std::string directory_;
  const int64_t limit_;
  int64_t used_ = 0;
};

}  // namespace haast::engine
