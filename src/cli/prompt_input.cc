#include "cli/prompt_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "base/printable.h"
#include "io/json.h"
#include "io/json_lines.h"
#include "text/utf8.h"

namespace haast::cli {
namespace {

// Where repairing the text first changes it: the first ill-formed part (or up to two bytes into it).
size_t FirstBadByte(const std::string& text) {
  const std::string repaired = text::ToValidUtf8(text);
  const auto [bad, unused] = std::mismatch(text.begin(), text.end(), repaired.begin(), repaired.end());
  return std::min(static_cast<size_t>(bad - text.begin()), text.size() - 1);
}

Result<std::string> FirstTurn(const io::JsonLine& line) {
  HAAST_ASSIGN_OR_RETURN(const std::string_view text, line.text);
  const Result<io::JsonDocument> document = io::JsonDocument::Parse(text, line.where);
  if (!document) {
    if (text.starts_with('{')) return tl::unexpected(document.error());  // what is wrong in it
    return Err(document.error().code, "{}: expected a JSON object, got {}", line.where, base::Label(text::ToValidUtf8(text)));
  }
  const io::JsonObject object = document->root();
  object.Require("turns");
  const std::vector<std::string> turns = object.Texts("turns");
  HAAST_RETURN_IF_ERROR(object.status());
  if (turns.empty() || turns[0].empty()) {
    return Err(ErrorCode::kInvalidFile, "{}: turns: expected a first text that is not empty, got {}", line.where,
               turns.empty() ? "an empty list" : "an empty text");
  }
  return turns[0];
}

}  // namespace

tl::unexpected<Error> CannotRead(const std::string& name) {
  return Err(ErrorCode::kIo, "{}: reading failed: {}: expected text", name, std::strerror(errno));
}

Result<std::string> ReadAll(int fd, const std::string& name, ErrorCode too_long) {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) return Err(ErrorCode::kCancelled, "{}: interrupted while reading", name);
    if (got < 0) return CannotRead(name);
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxPromptBytes) {
      return Err(too_long, "{}: expected at most {} bytes, got more: shorten the text", name, kMaxPromptBytes);
    }
  }
}

Result<std::string> ReadTextFile(const std::string& path, ErrorCode too_long) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Err(code, "{}: cannot be opened: {}: expected a readable text file", path, std::strerror(errno));
  }
  const Result<std::string> text = ReadAll(fd, path, too_long);
  ::close(fd);
  return text.map([](const std::string& all) { return std::string(base::WithoutByteOrderMark(all)); });
}

Status CheckPrompt(const std::string& text, const std::string& name) {
  if (text.empty()) return Err(ErrorCode::kInvalidArgument, "{}: the prompt is empty: expected at least one character", name);
  if (!text::IsValidUtf8(text)) {
    const size_t at = FirstBadByte(text);
    return Err(ErrorCode::kInvalidArgument, "{}: expected UTF-8 text, got byte 0x{:02x} at offset {}: convert it, for example with iconv",
               name, static_cast<unsigned char>(text[at]), at);
  }
  return {};
}

Result<std::vector<BenchPrompt>> ParseBenchPrompts(const std::string& text, const std::string& path, int64_t limit) {
  std::vector<BenchPrompt> prompts;
  HAAST_RETURN_IF_ERROR(io::ForEachJsonLine(text, path, kMaxPromptBytes, [&](const io::JsonLine& line) -> Status {
    if (limit > 0 && static_cast<int64_t>(prompts.size()) == limit) return {};
    HAAST_ASSIGN_OR_RETURN(std::string turn, FirstTurn(line));
    prompts.push_back({std::move(turn), line.where});
    return {};
  }));
  if (prompts.empty()) return Err(ErrorCode::kInvalidFile, "{}: expected lines of {{\"turns\": [\"text\"]}}, got none", path);
  return prompts;
}

Result<std::vector<BenchPrompt>> ReadBenchPrompts(const std::string& path, int64_t limit) {
  HAAST_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, ErrorCode::kInvalidFile));
  return ParseBenchPrompts(text, path, limit);
}

}  // namespace haast::cli
