#include "base/file_bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/format.h"

namespace haast::base {
namespace {

class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  ~OpenFile() {
    if (file_ >= 0) close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int get() const { return file_; }

 private:
  const int file_;
};

tl::unexpected<Error> IoError(const std::string& path, const char* verb) {
  return Err(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: cannot {}: {}", path, verb, std::strerror(errno));
}

// The folder's entry must reach the disk too, else the file may be gone after a crash.
Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const OpenFile file(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0 || fsync(file.get()) != 0) return IoError(folder, "sync the folder");
  return {};
}

Status WriteAndSync(const std::string& path, std::span<const uint8_t> bytes) {
  const OpenFile file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) return IoError(path, "create");
  HAAST_RETURN_IF_ERROR(WriteAll(file.get(), bytes, path));
  if (fsync(file.get()) != 0) return IoError(path, "sync");
  return {};
}

}  // namespace

Status WriteAll(int file, std::span<const uint8_t> bytes, const std::string& what) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = pwrite(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return IoError(what, "write");
    done += static_cast<size_t>(count);
  }
  return {};
}

Status ReadAll(int file, std::span<uint8_t> bytes, const std::string& what) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(what, "read");
    if (count == 0) return Err(ErrorCode::kIo, "{}: ends after {} of {} bytes", what, done, bytes.size());
    done += static_cast<size_t>(count);
  }
  return {};
}

Result<std::vector<uint8_t>> ReadFileBytes(const std::string& path, int64_t limit) {
  const OpenFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return IoError(path, "open");
  struct stat info;
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return Err(ErrorCode::kIo, "{}: expected a regular file", path);
  if (info.st_size > limit) {
    return Err(ErrorCode::kInvalidFile, "{}: has {} bytes, expected at most {}", path, static_cast<int64_t>(info.st_size), limit);
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(info.st_size));
  HAAST_RETURN_IF_ERROR(ReadAll(file.get(), bytes, path));
  return bytes;
}

Status WriteFileAtomically(const std::string& path, std::span<const uint8_t> bytes) {
  // A rename would replace a device, a FIFO or a link by a file.
  struct stat info;
  if (lstat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Err(ErrorCode::kIo, "{}: expected a regular file or a new one: give another path", path);
  }
  const std::string temporary = fmt::format("{}.tmp.{}", path, getpid());
  Status status = WriteAndSync(temporary, bytes);
  if (status && std::rename(temporary.c_str(), path.c_str()) != 0) status = IoError(path, "replace");
  if (!status) {
    unlink(temporary.c_str());
    return status;
  }
  return SyncFolderOf(path);
}

}  // namespace haast::base
