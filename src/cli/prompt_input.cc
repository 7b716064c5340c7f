#include "cli/prompt_input.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/printable.h"
#include "text/utf8.h"

namespace haast::cli {
namespace {

using nlohmann::json;

// Where repairing the text first changes it: the first ill-formed part (or up to two bytes into it).
size_t FirstBadByte(const std::string& text) {
  const std::string repaired = text::ToValidUtf8(text);
  const auto [bad, unused] = std::mismatch(text.begin(), text.end(), repaired.begin(), repaired.end());
  return std::min(static_cast<size_t>(bad - text.begin()), text.size() - 1);
}

Result<std::string> FirstTurn(const std::string& line, const std::string& where) {
  const json object = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object())
    return Err(ErrorCode::kInvalidFile, "{}: expected a JSON object, got {}", where, base::Label(text::ToValidUtf8(line)));
  const auto turns = object.find("turns");
  if (turns == object.end() || !turns->is_array() || turns->empty() || !(*turns)[0].is_string()) {
    return Err(ErrorCode::kInvalidFile, "{}: expected \"turns\": [\"text\", ...] with at least one text, got {}", where,
               turns == object.end() ? "no \"turns\"" : base::Label(turns->dump()));
  }
  std::string turn = (*turns)[0].get<std::string>();
  if (turn.empty()) return Err(ErrorCode::kInvalidFile, "{}: the first of \"turns\" is empty: expected a prompt", where);
  return turn;
}

}  // namespace

Result<std::string> ReadAll(int fd, const std::string& name) {
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof(buffer));
    if (got == 0) return text;
    if (got < 0 && errno == EINTR) return Err(ErrorCode::kCancelled, "{}: interrupted while reading", name);
    if (got < 0) return Err(ErrorCode::kIo, "{}: reading failed: {}", name, std::strerror(errno));
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxPromptBytes) {
      return Err(ErrorCode::kInvalidArgument, "{}: expected at most {} bytes, got more: shorten the text", name, kMaxPromptBytes);
    }
  }
}

Result<std::string> ReadTextFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Err(code, "{}: cannot be opened: {}: expected a readable text file", path, std::strerror(errno));
  }
  const Result<std::string> text = ReadAll(fd, path);
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
  size_t begin = 0;
  for (int64_t line_number = 1; begin < text.size(); ++line_number) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    HAAST_ASSIGN_OR_RETURN(std::string turn, FirstTurn(line, fmt::format("{}:{}", path, line_number)));
    prompts.push_back({std::move(turn)});
    if (limit > 0 && static_cast<int64_t>(prompts.size()) == limit) break;
  }
  if (prompts.empty()) return Err(ErrorCode::kInvalidFile, "{}: expected lines of {{\"turns\": [\"text\"]}}, got none", path);
  return prompts;
}

Result<std::vector<BenchPrompt>> ReadBenchPrompts(const std::string& path, int64_t limit) {
  HAAST_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  return ParseBenchPrompts(text, path, limit);
}

}  // namespace haast::cli
