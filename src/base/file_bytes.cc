#include "base/file_bytes.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
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

tl::unexpected<Error> CannotKeep(const std::string& path, const char* expected = "a path in a folder that can be written") {
  const int cause = errno;
  const char* remedy = cause == ENOENT                      ? "create the folder, or give another path"
                       : cause == ENOSPC || cause == EDQUOT ? "free some space, or give a path on another disk"
                       : cause == EACCES || cause == EPERM  ? "allow writing to the folder, or give another path"
                                                            : "give another path";
  return Err(cause == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo, "{}: cannot be written: {}: expected {}: {}", path,
             std::strerror(cause), expected, remedy);
}

// The folder's entry must reach the disk too, else the file may be gone after a crash.
Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  const OpenFile file(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0 || fsync(file.get()) != 0) return CannotKeep(path);
  return {};
}

bool IsNamed(int file, const std::string& path) {
  struct stat ours, named;
  return fstat(file, &ours) == 0 && lstat(path.c_str(), &named) == 0 && ours.st_dev == named.st_dev && ours.st_ino == named.st_ino;
}

// The file of that name, made or taken over, locked for this process alone; `flags`: LOCK_NB or 0. -1, with errno, where it cannot be
// made, or (EWOULDBLOCK) another one has it.
int OpenLocked(const std::string& path, int flags) {
  for (;;) {
    const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    if (file < 0) return -1;
    int status = 0;
    while ((status = flock(file, LOCK_EX | flags)) != 0 && errno == EINTR) {
    }  // a file system without locks: only the writers' order is left to chance
    const bool busy = status != 0 && errno == EWOULDBLOCK;
    if (!busy && IsNamed(file, path)) return file;
    close(file);  // whoever had the lock before renamed or removed it: no longer ours to write
    if (busy) {
      errno = EWOULDBLOCK;
      return -1;
    }
  }
}

// The file beside `path` that becomes it: created or taken over, locked by this object and empty. Removed at the end, unless Publish
// gave it the path's name.
class PartFile {
 public:
  explicit PartFile(const std::string& path) : path_(path), part_(path + kPartSuffix) {}
  ~PartFile() {
    if (file_ < 0) return;
    if (!published_) unlink(part_.c_str());
    close(file_);
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  Status Open() {
    // A rename would replace a device, a FIFO or a link by a file.
    struct stat info;
    const bool there = lstat(path_.c_str(), &info) == 0;
    if (path_.empty() || (there && !S_ISREG(info.st_mode))) {
      return Err(ErrorCode::kIo, "{}: expected a regular file or a new one, got {}: give another path", path_,
                 there ? FileKind(info.st_mode) : "an empty path");
    }
    file_ = OpenLocked(part_, 0);
    return file_ >= 0 && ftruncate(file_, 0) == 0 ? Status() : CannotKeep(path_);
  }

  Status Write(std::span<const uint8_t> bytes) {
    if (!WriteAll(file_, bytes, path_) || fsync(file_) != 0) return CannotKeep(path_);
    return {};
  }

  Status Publish() {
    if (std::rename(part_.c_str(), path_.c_str()) != 0) return CannotKeep(path_);
    published_ = true;
    return SyncFolderOf(path_);
  }

 private:
  const std::string path_;
  const std::string part_;
  int file_ = -1;
  bool published_ = false;
};

}  // namespace

const char* FileKind(mode_t mode) {
  if (S_ISREG(mode)) return "a file";
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISLNK(mode)) return "a link";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

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
  if (fstat(file.get(), &info) != 0) return IoError(path, "read");
  if (!S_ISREG(info.st_mode)) return Err(ErrorCode::kIo, "{}: expected a regular file, got {}", path, FileKind(info.st_mode));
  if (info.st_size > limit) {
    return Err(ErrorCode::kInvalidFile, "{}: has {} bytes, expected at most {}", path, static_cast<int64_t>(info.st_size), limit);
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(info.st_size));
  HAAST_RETURN_IF_ERROR(ReadAll(file.get(), bytes, path));
  return bytes;
}

Status WriteFileAtomically(const std::string& path, std::span<const uint8_t> bytes) {
  PartFile part(path);
  HAAST_RETURN_IF_ERROR(part.Open());
  HAAST_RETURN_IF_ERROR(part.Write(bytes));
  return part.Publish();
}

Status CheckReplaceable(const std::string& path) {
  PartFile part(path);
  return part.Open();
}

Result<FileLock> FileLock::Take(const std::string& path) {
  const int file = OpenLocked(path, LOCK_NB);
  if (file < 0 && errno == EWOULDBLOCK) return Err(ErrorCode::kIo, "{}: is locked by another process", path);
  return FileLock(path, file);
}

FileLock::~FileLock() {
  if (file_ < 0) return;
  struct stat info;  // whatever else has that name is somebody's
  if (fstat(file_, &info) == 0 && S_ISREG(info.st_mode) && info.st_size == 0 && info.st_nlink == 1) unlink(path_.c_str());
  close(file_);
}

Result<int> OpenNamelessFile(const std::string& folder) {
  std::string path = folder + "/haast-XXXXXX";
  const int file = mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return CannotKeep(folder, "a folder that can be written");
  unlink(path.c_str());
  return file;
}

}  // namespace haast::base
