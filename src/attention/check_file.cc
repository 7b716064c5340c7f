#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "attention/dump_checker.h"
#include "base/format.h"

namespace haast {

Result<CheckReport> CheckMetadata(int fd, const std::string& name, const CheckOptions& options) {
  attention::DumpChecker checker(options);
  io::JsonLines lines(name, options.max_line_bytes, [&](const io::JsonLine& line) {
    checker.CheckLine(line);
    return Status();
  });
  std::string buffer(size_t{1} << 20, '\0');
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got == 0) break;
    if (got < 0 && errno == EINTR) return Err(ErrorCode::kCancelled, "{}: interrupted while reading", name);
    if (got < 0) return Err(ErrorCode::kIo, "{}: reading failed: {}: expected a file of launch metadata", name, std::strerror(errno));
    HAAST_RETURN_IF_ERROR(lines.Take(std::string_view(buffer).substr(0, static_cast<size_t>(got))));
  }
  HAAST_RETURN_IF_ERROR(lines.Finish());
  CheckReport& report = checker.report();
  report.lines = lines.count();
  if (report.launches == 0 && report.unreadable_lines == 0) {
    return Err(ErrorCode::kInvalidFile, "{}: expected one launch a line, got none", name);
  }
  return std::move(report);
}

}  // namespace haast
