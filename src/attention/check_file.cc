#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "attention/dump_checker.h"
#include "base/format.h"

namespace haast {
namespace {

// Cuts a stream of bytes into lines; of a line over the limit only its length is kept.
class LineCutter {
 public:
  LineCutter(attention::DumpChecker* checker, int64_t limit) : checker_(*checker), limit_(static_cast<size_t>(limit)) {}

  void Take(std::string_view bytes) {
    for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
      Append(bytes.substr(0, end));
      EndLine();
      bytes.remove_prefix(end + 1);
    }
    Append(bytes);
  }

  // The last line may lack its break.
  void Finish() {
    if (!line_.empty() || too_long_) EndLine();
  }

 private:
  void Append(std::string_view part) {
    too_long_ |= line_.size() + part.size() > limit_;
    if (too_long_) {
      line_.clear();
    } else {
      line_.append(part);
    }
  }

  void EndLine() {
    if (too_long_) {
      checker_.LineTooLong();
    } else {
      checker_.CheckLine(line_);
    }
    line_.clear();
    too_long_ = false;
  }

  attention::DumpChecker& checker_;
  const size_t limit_;
  std::string line_;
  bool too_long_ = false;
};

}  // namespace

Result<CheckReport> CheckMetadata(int fd, const std::string& name, const CheckOptions& options) {
  attention::DumpChecker checker(name, options);
  LineCutter cutter(&checker, options.max_line_bytes);
  std::string buffer(size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) break;
    if (got < 0 && errno == EINTR) return Err(ErrorCode::kCancelled, "{}: interrupted while reading", name);
    if (got < 0) return Err(ErrorCode::kIo, "{}: reading failed: {}: expected a file of launch metadata", name, std::strerror(errno));
    cutter.Take(std::string_view(buffer).substr(0, static_cast<size_t>(got)));
  }
  cutter.Finish();
  CheckReport& report = checker.report();
  if (report.launches == 0 && report.unreadable_lines == 0) {
    return Err(ErrorCode::kInvalidFile, "{}: expected one launch a line, got an empty file", name);
  }
  return std::move(report);
}

}  // namespace haast
