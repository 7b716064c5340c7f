#include "engine/token_file.h"

#include <string_view>

#include "base/format.h"
#include "base/mapped_file.h"
#include "io/json.h"
#include "io/json_lines.h"

namespace haast::engine {
namespace {

constexpr int64_t kMaxLineBytes = int64_t{64} << 20;

Result<std::vector<int32_t>> ReadSequence(const io::JsonLine& line, const TokenLimits& limits) {
  HAAST_ASSIGN_OR_RETURN(const std::string_view text, line.text);
  HAAST_ASSIGN_OR_RETURN(const io::JsonDocument document, io::JsonDocument::Parse(text, line.where));
  const io::JsonObject root = document.root();
  root.Require("token_ids");
  const std::vector<int64_t> ids = root.Integers("token_ids", 0, limits.vocab_size - 1);
  HAAST_RETURN_IF_ERROR(root.status());
  const auto count = static_cast<int64_t>(ids.size());
  if (count < 1 || count > limits.longest) {
    return Err(ErrorCode::kInvalidFile, "{}: token_ids: expected 1 to {} tokens, for the model's context, got {}", line.where,
               limits.longest, count);
  }
  return std::vector<int32_t>(ids.begin(), ids.end());
}

}  // namespace

Result<std::vector<std::vector<int32_t>>> ReadTokenFile(const std::string& path, const TokenLimits& limits) {
  HAAST_ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  std::vector<std::vector<int32_t>> sequences;
  HAAST_RETURN_IF_ERROR(io::ForEachJsonLine(text, path, kMaxLineBytes, [&](const io::JsonLine& line) -> Status {
    HAAST_ASSIGN_OR_RETURN(std::vector<int32_t> ids, ReadSequence(line, limits));
    sequences.push_back(std::move(ids));
    return {};
  }));
  if (sequences.empty()) return Err(ErrorCode::kInvalidFile, "{}: expected lines of {{\"token_ids\": [1, 2, ...]}}, got none", path);
  return sequences;
}

}  // namespace haast::engine
