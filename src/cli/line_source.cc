#include "cli/line_source.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "cli/interrupt.h"
#include "cli/prompt_input.h"

namespace haast::cli {
namespace {

class PlainSource final : public LineSource {
 public:
  explicit PlainSource(int fd) : fd_(fd) {}

  Result<Line> Next() override {
    for (;;) {
      const size_t end = buffer_.find('\n', searched_);
      if (end != std::string::npos) return TakeLine(end);
      searched_ = buffer_.size();
      if (buffer_.size() > kMaxPromptBytes) {
        return Err(ErrorCode::kInvalidArgument, "standard input: expected lines of at most {} bytes, got more: shorten the text",
                   kMaxPromptBytes);
      }
      if (at_end_) return buffer_.empty() ? Line{LineKind::kEnd, ""} : TakeLine(buffer_.size());
      if (!InterruptScope::WaitReadable(fd_)) return Line{LineKind::kInterrupted, ""};
      char bytes[4096];
      const ssize_t got = ::read(fd_, bytes, sizeof(bytes));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return CannotRead("standard input");
      at_end_ = got == 0;
      buffer_.append(bytes, static_cast<size_t>(got));
    }
  }

 private:
  Line TakeLine(size_t end) {
    Line line{LineKind::kLine, buffer_.substr(0, end)};
    if (line.text.ends_with('\r')) line.text.pop_back();
    buffer_.erase(0, std::min(end + 1, buffer_.size()));
    searched_ = 0;
    return line;
  }

  const int fd_;
  std::string buffer_;   // read, not yet given out
  size_t searched_ = 0;  // no line break before this offset
  bool at_end_ = false;
};

}  // namespace

std::unique_ptr<LineSource> MakePlainSource(int fd) { return std::make_unique<PlainSource>(fd); }

}  // namespace haast::cli
