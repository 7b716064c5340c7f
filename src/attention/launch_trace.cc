#include "attention/launch_trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "attention/launch_dump.h"
#include "base/file_bytes.h"
#include "base/format.h"

namespace haast::attention {

Result<std::unique_ptr<LaunchTrace>> LaunchTrace::Open(const std::string& path) {
  // Without O_NONBLOCK a FIFO would wait for its reader, be there one or not.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0644);
  if (fd < 0) {
    struct stat info;
    if (errno == ENXIO && ::stat(path.c_str(), &info) == 0) {
      return Err(ErrorCode::kIo, "{}: launch metadata cannot be written there: expected a file, or a FIFO that is being read, got {}{}",
                 path, base::FileKind(info.st_mode),
                 S_ISFIFO(info.st_mode) ? " without a reader: start that first" : ": give another path");
    }
    return Err(ErrorCode::kIo,
               "{}: launch metadata cannot be written there: {}: expected a path in a folder that can be written: give another path", path,
               std::strerror(errno));
  }
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);  // a slow reader is waited for
  return std::unique_ptr<LaunchTrace>(new LaunchTrace(path, fd));
}

LaunchTrace::~LaunchTrace() { ::close(fd_); }

void LaunchTrace::Write(const char* model, const ForwardMetadata& metadata, const LaunchShape& shape) {
  if (!status_) return;
  line_.clear();
  WriteLaunch(model, metadata, shape, &line_);
  for (size_t written = 0; written < line_.size();) {
    const ssize_t count = ::write(fd_, line_.data() + written, line_.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      status_ = Err(ErrorCode::kIo, "{}: writing launch metadata failed after {} whole launches: {}; the rest of the run is not traced",
                    path_, launches_, std::strerror(errno));
      return;
    }
    written += static_cast<size_t>(count);
  }
  ++launches_;
}

}  // namespace haast::attention
