// Whole files as bytes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "haast/result.h"

namespace haast::base {

// What a path that is no regular file leads to, for messages: "a folder", "a FIFO", ...
const char* FileKind(mode_t mode);

// Reads a regular file of at most `limit` bytes. kNotFound, kIo or kInvalidFile name path and cause.
Result<std::vector<uint8_t>> ReadFileBytes(const std::string& path, int64_t limit);

inline constexpr const char* kPartSuffix = ".haast-part";

// Replaces `path` as a whole: after a crash at any moment it holds the old bytes or the new ones. The bytes are on the disk
// when this returns. They are written beside it first, to PATH.haast-part: one name, so that what a killed process left there is
// taken over by the next write, and a lock on it, so that writers wait for each other. Errors are CheckReplaceable's.
Status WriteFileAtomically(const std::string& path, std::span<const uint8_t> bytes);

// Whether WriteFileAtomically can create its file beside `path`, and take its place: before the work whose result it is to keep.
// kNotFound or kIo name path, expected, cause and remedy. A part that a killed process left is removed.
Status CheckReplaceable(const std::string& path);

// A file that this object alone has locked: made where missing, removed at the end (if empty, as it was made). The kernel takes the lock
// back when the process ends, however it does: what a killed one left is taken over.
class FileLock {
 public:
  // Waits for nobody: kIo where another one has it. Where the file cannot be made, or the file system has no locks, it locks nothing.
  static Result<FileLock> Take(const std::string& path);
  ~FileLock();
  FileLock(FileLock&& other) noexcept : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}
  FileLock& operator=(FileLock&&) = delete;

 private:
  FileLock(std::string path, int file) : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;  // -1: nothing
};

// An open, empty file in `folder` that has no name there: it goes with whoever has it open. kNotFound or kIo name folder, cause,
// expected and remedy.
Result<int> OpenNamelessFile(const std::string& folder);

// Writes and reads `bytes` at the beginning of an open file; the error names `what`.
Status WriteAll(int file, std::span<const uint8_t> bytes, const std::string& what);
Status ReadAll(int file, std::span<uint8_t> bytes, const std::string& what);

}  // namespace haast::base
