// One GGUF, or a split set: "name-00001-of-00003.gguf" and the files beside it (llama.cpp's gguf-split).
#include "base/format.h"
#include "io/gguf_model.h"
#include "io/model_parts.h"

namespace haast::io {
namespace {

constexpr char kSplitCount[] = "split.count", kSplitNumber[] = "split.no", kSplitTensors[] = "split.tensors.count";
constexpr int64_t kMaxShards = 10000;

// "dir/name-00001-of-00003.gguf" without its ending "-00001-of-00003.gguf"; nothing where it ends otherwise.
Result<std::string> StemOf(const std::string& path, int64_t count) {
  const std::string ending = fmt::format("-00001-of-{:05}.gguf", count);
  if (path.ends_with(ending)) return path.substr(0, path.size() - ending.size());
  return Err(ErrorCode::kInvalidFile, "{}: expected the first file of a set of {}, named \"...{}\", got another name; open that file", path,
             count, ending);
}

Status CheckShard(const GgufFile& shard, int64_t number, int64_t count) {
  const GgufMetadata& keys = shard.metadata;
  const auto must_be = [&](const char* key, int64_t expected) {
    const int64_t got = keys.Integer(key, -1, 0, kMaxShards);
    if (got != expected) keys.Fail(key, std::to_string(expected), std::to_string(got));
  };
  must_be(kSplitNumber, number);
  must_be(kSplitCount, count);
  return keys.status();
}

// Reads the other files of the set and gathers their tensors in `first`.
Status AddOthers(GgufFile* first, ModelParts* parts, int64_t count) {
  const std::string path = first->metadata.path();
  HAAST_ASSIGN_OR_RETURN(const std::string stem, StemOf(path, count));
  HAAST_RETURN_IF_ERROR(CheckShard(*first, 0, count));
  for (int64_t number = 1; number < count; ++number) {
    const std::string name = fmt::format("{}-{:05}-of-{:05}.gguf", stem, number + 1, count);
    HAAST_ASSIGN_OR_RETURN(base::MappedFile file, base::MappedFile::Open(name));
    HAAST_ASSIGN_OR_RETURN(GgufFile shard, ReadGguf(file.bytes(), name));
    HAAST_RETURN_IF_ERROR(CheckShard(shard, number, count));
    for (RawTensor& tensor : shard.tensors) first->tensors.push_back(std::move(tensor));
    parts->files.push_back(std::move(file));
  }
  const int64_t total = static_cast<int64_t>(first->tensors.size());
  const int64_t expected = first->metadata.Integer(kSplitTensors, total, 0, INT32_MAX);
  HAAST_RETURN_IF_ERROR(first->metadata.status());
  if (expected == total) return {};
  return Err(ErrorCode::kInvalidFile, "{}: expected {} tensors in the set, got {}", path, expected, total);
}

}  // namespace

Result<ModelParts> OpenGguf(base::MappedFile file) {
  ModelParts parts;
  HAAST_ASSIGN_OR_RETURN(GgufFile first, ReadGguf(file.bytes(), file.path()));
  parts.files.push_back(std::move(file));
  const int64_t count = first.metadata.Integer(kSplitCount, 1, 0, kMaxShards);
  HAAST_RETURN_IF_ERROR(first.metadata.status());
  if (count > 1) HAAST_RETURN_IF_ERROR(AddOthers(&first, &parts, count));
  parts.format = fmt::format("GGUF v{}", first.version);
  HAAST_ASSIGN_OR_RETURN(GgufModel model, Interpret(&first));
  parts.config = std::move(model.config);
  parts.text = std::move(model.text);
  parts.tensors = std::move(first.tensors);
  return parts;
}

}  // namespace haast::io
