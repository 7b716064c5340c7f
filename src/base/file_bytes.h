// Whole files as bytes.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "haast/result.h"

namespace haast::base {

// Reads a regular file of at most `limit` bytes. kNotFound, kIo or kInvalidFile name path and cause.
Result<std::vector<uint8_t>> ReadFileBytes(const std::string& path, int64_t limit);

// Replaces `path` as a whole: after a crash at any moment it holds the old bytes or the new ones. The bytes are on the disk
// when this returns. Writes "PATH.tmp.PID" beside it first, which is removed where something fails.
Status WriteFileAtomically(const std::string& path, std::span<const uint8_t> bytes);

// Writes and reads `bytes` at the beginning of an open file; the error names `what`.
Status WriteAll(int file, std::span<const uint8_t> bytes, const std::string& what);
Status ReadAll(int file, std::span<uint8_t> bytes, const std::string& what);

}  // namespace haast::base
