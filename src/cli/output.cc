#include "cli/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "base/knobs.h"

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

bool Output::WriteText(std::string_view text) { return is_terminal_ ? Write(WithoutControls(text)) : Write(text); }

bool Output::reader_gone() const { return errno_ == EPIPE; }

Status Output::status() const {
  if (errno_ == 0) return {};
  const char* name = fd_ == STDERR_FILENO ? "standard error" : "standard output";
  return Err(ErrorCode::kIo, "{}: writing failed: {}", name, std::strerror(errno_));
}

std::string WithoutControls(std::string_view text) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string clean;
  clean.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool c0 = (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7F;
    if (c0 || c1) {
      clean += kReplacement;
      i += c1 ? 1 : 0;
    } else {
      clean += text[i];
    }
  }
  return clean;
}

}  // namespace haast::cli
