#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "base/knobs.h"
#include "base/printable.h"

namespace haast::cli {

Output::Output(int fd) : fd_(fd), is_terminal_(isatty(fd) == 1), colour_(is_terminal_ && !base::KnobNoColor()) {}

bool Output::Write(std::string_view bytes) {
  while (errno_ == 0 && !bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<size_t>(written));
    } else if (errno != EINTR) {
      errno_ = errno;
    }
  }
  return errno_ == 0;
}

bool Output::WriteText(std::string_view text) { return Write(base::WithoutControls(text)); }

bool Output::reader_gone() const { return errno_ == EPIPE; }

Status Output::status() const {
  if (errno_ == 0) return {};
  const char* name = fd_ == STDERR_FILENO ? "standard error" : "standard output";
  return Err(ErrorCode::kIo, "{}: writing failed: {}", name, std::strerror(errno_));
}

}  // namespace haast::cli
