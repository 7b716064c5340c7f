#include "io/json_lines.h"

#include "base/format.h"
#include "base/printable.h"

namespace haast::io {

Status JsonLines::Take(std::string_view bytes) {
  for (size_t end = bytes.find('\n'); end != std::string_view::npos; end = bytes.find('\n')) {
    const std::string_view rest = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (begun_.empty()) {
      HAAST_RETURN_IF_ERROR(EndLine(rest));
      continue;
    }
    too_long_ |= begun_.size() + rest.size() > max_line_bytes_;
    if (!too_long_) begun_.append(rest);
    HAAST_RETURN_IF_ERROR(EndLine(begun_));
  }
  too_long_ |= begun_.size() + bytes.size() > max_line_bytes_;
  if (too_long_) {
    begun_.clear();
  } else {
    begun_.append(bytes);
  }
  return {};
}

Status JsonLines::Finish() { return begun_.empty() && !too_long_ ? Status() : EndLine(begun_); }

Status JsonLines::EndLine(std::string_view line) {
  ++count_;
  const bool too_long = too_long_ || line.size() > max_line_bytes_;
  const std::string_view text = base::WithoutByteOrderMark(line);
  const bool marked = text.size() < line.size();
  const bool blank = !too_long && text.find_first_not_of(" \t\r") == std::string_view::npos;
  Status status;
  if (!blank || (marked && count_ > 1)) {
    JsonLine out{count_, fmt::format("{}:{}", path_, count_), text};
    if (too_long)
      out.text = Err(ErrorCode::kInvalidFile, "{}: expected lines of at most {} bytes, got a longer one", out.where, max_line_bytes_);
    if (blank) {
      out.text =
          Err(ErrorCode::kInvalidFile,
              "{}: expected a JSON object, got a byte-order mark alone, which belongs at the beginning of a file: leave it out", out.where);
    }
    status = on_line_(out);
  }
  begun_.clear();
  too_long_ = false;
  return status;
}

Status ForEachJsonLine(std::string_view text, const std::string& path, int64_t max_line_bytes,
                       const std::function<Status(const JsonLine&)>& on_line) {
  JsonLines lines(path, max_line_bytes, on_line);
  HAAST_RETURN_IF_ERROR(lines.Take(text));
  return lines.Finish();
}

}  // namespace haast::io
