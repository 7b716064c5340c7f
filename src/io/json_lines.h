// JSON Lines: a JSON object a line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "haast/result.h"

namespace haast::io {

struct JsonLine {
  int64_t number = 0;             // in its file, from 1
  std::string where;              // "PATH:NUMBER", which begins messages
  Result<std::string_view> text;  // without its line break, valid until the next line; kInvalidFile where it cannot be a JSON object
};

// Cuts a stream of bytes into its lines. A byte-order mark before the first one and blank lines are skipped; of a line over the limit only
// the number is kept.
class JsonLines {
 public:
  // `on_line` hears each line in order; what it refuses ends the reading.
  JsonLines(std::string path, int64_t max_line_bytes, std::function<Status(const JsonLine&)> on_line)
      : path_(std::move(path)), max_line_bytes_(static_cast<size_t>(max_line_bytes)), on_line_(std::move(on_line)) {}

  // The next bytes of the stream, cut anywhere.
  Status Take(std::string_view bytes);
  // The stream's end: its last line may lack a break.
  Status Finish();
  // So far, blank ones too.
  int64_t count() const { return count_; }

 private:
  Status EndLine(std::string_view line);

  const std::string path_;
  const size_t max_line_bytes_;
  const std::function<Status(const JsonLine&)> on_line_;
  int64_t count_ = 0;
  std::string begun_;      // what came of the line that has not ended
  bool too_long_ = false;  // that line: begun_ is empty
};

// All lines of `text`, the whole of a file.
Status ForEachJsonLine(std::string_view text, const std::string& path, int64_t max_line_bytes,
                       const std::function<Status(const JsonLine&)>& on_line);

}  // namespace haast::io
