// Writes every launch of an engine to a file, as `haast check` reads it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "attention/metadata.h"
#include "attention/metadata_check.h"
#include "haast/result.h"

namespace haast::attention {

class LaunchTrace {
 public:
  // Makes or empties `path`; a FIFO that is being read and a device are written as they are. The error says why it cannot be written.
  static Result<std::unique_ptr<LaunchTrace>> Open(const std::string& path);
  ~LaunchTrace();
  LaunchTrace(const LaunchTrace&) = delete;
  LaunchTrace& operator=(const LaunchTrace&) = delete;

  // One line, handed to the operating system before this returns: the launch that ends the process is in the file. After a
  // failure nothing is written any more.
  void Write(const char* model, const ForwardMetadata& metadata, const LaunchShape& shape);

  int64_t launches() const { return launches_; }
  // The first failure, with the path and the number of launches that are whole.
  const Status& status() const { return status_; }

 private:
  LaunchTrace(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
  int64_t launches_ = 0;
  std::string line_;  // kept for its memory
  Status status_;
};

}  // namespace haast::attention
