#include "engine/token_file.h"

#include <string_view>

#include "base/format.h"
#include "base/mapped_file.h"
#include "io/json.h"

namespace haast::engine {
namespace {

Result<std::vector<int32_t>> ReadSequence(std::string_view line, const std::string& where, const TokenLimits& limits) {
  HAAST_ASSIGN_OR_RETURN(const io::JsonDocument document, io::JsonDocument::Parse(line, where));
  const io::JsonObject root = document.root();
  root.Require("token_ids");
  const std::vector<int64_t> ids = root.Integers("token_ids", 0, limits.vocab_size - 1);
  HAAST_RETURN_IF_ERROR(root.status());
  const auto count = static_cast<int64_t>(ids.size());
  if (count < 1 || count > limits.longest) {
    return Err(ErrorCode::kInvalidFile, "{}: token_ids: expected 1 to {} tokens, for the model's context, got {}", where, limits.longest,
               count);
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

}  // namespace

Result<std::vector<std::vector<int32_t>>> ReadTokenFile(const std::string& path, const TokenLimits& limits) {
  HAAST_ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::vector<std::vector<int32_t>> sequences;
  int64_t line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    HAAST_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ReadSequence(line, fmt::format("{}:{}", path, line_number), limits));
    sequences.push_back(std::move(ids));
  }
  if (sequences.empty()) return Err(ErrorCode::kInvalidFile, "{}: expected lines of {{\"token_ids\": [1, 2, ...]}}, got none", path);
  return sequences;
}

}  // namespace haast::engine
