#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/format.h"
#include "base/printable.h"
#include "io/hf_config.h"
#include "io/hf_text.h"
#include "io/model_parts.h"
#include "io/safetensors.h"

namespace haast::io {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxJson = uint64_t{256} << 20;  // bytes; tokenizer.json files of 30 MB exist

Result<std::string> ReadText(const std::string& path) {
  HAAST_ASSIGN_OR_RETURN(const base::MappedFile file, base::MappedFile::Open(path));
  if (file.bytes().size() > kMaxJson) {
    return Err(ErrorCode::kInvalidFile, "{}: expected at most {} bytes, got {}", path, kMaxJson, file.bytes().size());
  }
  std::string text(base::WithoutByteOrderMark({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}));
  if (text.empty()) return Err(ErrorCode::kInvalidFile, "{}: expected text, got an empty file: fetch it again", path);
  return text;
}

// Empty where the file is missing.
Result<std::string> ReadOptionalText(const std::string& path) {
  Result<std::string> text = ReadText(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::string();
  return text;
}

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The shards that an index names. A name that is no plain file name could lead out of the folder.
Result<std::set<std::string>> ShardsOf(const JsonObject& index) {
  std::set<std::string> shards;
  index.Require("weight_map");
  const auto map = index.Object("weight_map");
  HAAST_RETURN_IF_ERROR(index.status());
  for (const auto& member : map->members()) {
    std::string_view shard;
    const bool text = member.value.get(shard) == simdjson::SUCCESS;
    const bool plain = text && shard.find('/') == shard.npos && shard.find('\0') == shard.npos && shard.ends_with(".safetensors");
    if (!plain) {
      return Err(ErrorCode::kInvalidFile, "{}: tensor {}: expected the name of a .safetensors file in this folder, got {}", index.path(),
                 base::Label(member.key), Describe(member.value));
    }
    shards.emplace(shard);
  }
  return shards;
}

// Every tensor that the index promises is there.
Status CheckPromised(const JsonObject& index, const std::vector<RawTensor>& tensors) {
  std::set<std::string_view> names;
  for (const RawTensor& tensor : tensors) names.insert(tensor.name);
  for (const auto& member : index.Object("weight_map")->members()) {
    if (!names.contains(member.key)) {
      return Err(ErrorCode::kInvalidFile, "{}: tensor {}: expected it in {}, got no such tensor there", index.path(),
                 base::Label(member.key), Describe(member.value));
    }
  }
  return {};
}

// Readers may use any tensor through a pointer to its elements.
Status Align(RawTensor* tensor, ModelParts* parts) {
  TensorView& view = tensor->view;
  const auto address = reinterpret_cast<uintptr_t>(view.data);
  if (address % static_cast<uintptr_t>(Info(view.dtype).block_bytes) == 0) return {};
  const size_t size = static_cast<size_t>(view.bytes());
  HAAST_ASSIGN_OR_RETURN(Buffer copy, Buffer::Allocate(size, base::Label(tensor->name).c_str()));
  std::memcpy(copy.data(), view.data, size);
  view.data = copy.data();
  parts->copies.push_back(std::move(copy));
  return {};
}

Status AddShard(const std::string& path, ModelParts* parts) {
  HAAST_ASSIGN_OR_RETURN(base::MappedFile file, base::MappedFile::Open(path));
  HAAST_ASSIGN_OR_RETURN(std::vector<RawTensor> tensors, ReadSafetensors(file.bytes(), path));
  parts->files.push_back(std::move(file));
  for (RawTensor& tensor : tensors) {
    HAAST_RETURN_IF_ERROR(Align(&tensor, parts));
    parts->tensors.push_back(std::move(tensor));
  }
  return {};
}

Status AddShards(const std::string& folder, ModelParts* parts) {
  const std::string single = folder + "/model.safetensors", index_path = folder + "/model.safetensors.index.json";
  if (Exists(single)) return AddShard(single, parts);
  Result<std::string> text = ReadText(index_path);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    const bool torch = Exists(folder + "/pytorch_model.bin") || Exists(folder + "/pytorch_model.bin.index.json");
    return Err(ErrorCode::kNotFound, "{}: expected model.safetensors or model.safetensors.index.json, got neither{}", folder,
               torch ? "; pytorch_model.bin is not read: save the model as safetensors" : "");
  }
  if (!text) return tl::make_unexpected(text.error());
  HAAST_ASSIGN_OR_RETURN(const JsonDocument index, JsonDocument::Parse(*text, index_path));
  HAAST_ASSIGN_OR_RETURN(const std::set<std::string> shards, ShardsOf(index.root()));
  for (const std::string& shard : shards) HAAST_RETURN_IF_ERROR(AddShard(folder + "/" + shard, parts));
  return CheckPromised(index.root(), parts->tensors);
}

// config.json and the text files of `folder`.
Status ReadSettings(const std::string& folder, ModelParts* parts) {
  parts->format = "safetensors";
  HfTextFiles files;
  files.folder = folder;
  if (!Exists(folder + "/config.json")) {
    return Err(ErrorCode::kNotFound,
               "{}: expected a model folder with config.json, got none; give a folder as Hugging Face publishes it, or a GGUF file",
               folder);
  }
  HAAST_ASSIGN_OR_RETURN(files.config_json, ReadText(folder + "/config.json"));
  HAAST_ASSIGN_OR_RETURN(parts->config, ParseHfConfig(files.config_json, folder + "/config.json"));
  if (parts->config.name.empty()) parts->config.name = fs::path(folder).filename().string();
  HAAST_ASSIGN_OR_RETURN(files.generation_config_json, ReadOptionalText(folder + "/generation_config.json"));
  HAAST_ASSIGN_OR_RETURN(files.tokenizer_json, ReadOptionalText(folder + "/tokenizer.json"));
  HAAST_ASSIGN_OR_RETURN(files.tokenizer_config_json, ReadOptionalText(folder + "/tokenizer_config.json"));
  HAAST_ASSIGN_OR_RETURN(files.chat_template_jinja, ReadOptionalText(folder + "/chat_template.jinja"));
  HAAST_ASSIGN_OR_RETURN(parts->text, ParseHfText(std::move(files)));
  return {};
}

// Settings against tensors: the embedding's shape, and a head's own output rows where the config does not count them.
Status Reconcile(const std::string& folder, ModelParts* parts) {
  ModelConfig& config = parts->config;
  // EAGLE-1 heads have a Llama config; only their fc tells them from a model.
  const bool has_fc = std::any_of(parts->tensors.begin(), parts->tensors.end(), [](const RawTensor& t) { return t.name == "fc.weight"; });
  if (config.architecture == "llama" && has_fc) config.architecture = "eagle";
  for (const RawTensor& tensor : parts->tensors) {
    const TensorView& view = tensor.view;
    const bool head_rows = config.eagle3 && config.eagle3->draft_vocab_size == 0 && tensor.name == "lm_head.weight" && view.rank == 2;
    if (head_rows) config.eagle3->draft_vocab_size = view.shape[0];
    if (config.eagle3 || tensor.name != "model.embed_tokens.weight") continue;
    if (!view.HasShape({config.vocab_size, config.hidden_size})) {
      return Err(ErrorCode::kInvalidFile, "{}: tensor {}: expected [{}, {}] (vocab_size, hidden_size of config.json), got {}", folder,
                 base::Label(tensor.name), config.vocab_size, config.hidden_size, view.ToString());
    }
  }
  return {};
}

std::string WithoutSlash(std::string folder) {
  while (folder.size() > 1 && folder.back() == '/') folder.pop_back();
  return folder;
}

}  // namespace

Result<ModelParts> OpenFolder(const std::string& path) {
  const std::string folder = WithoutSlash(path);
  ModelParts parts;
  HAAST_RETURN_IF_ERROR(ReadSettings(folder, &parts));
  HAAST_RETURN_IF_ERROR(AddShards(folder, &parts));
  HAAST_RETURN_IF_ERROR(Reconcile(folder, &parts));
  return parts;
}

Result<ModelParts> OpenSafetensors(const std::string& path) {
  if (!Exists(path)) return Err(ErrorCode::kNotFound, "{}: expected a safetensors file, got no file of that name", path);
  const fs::path parent = fs::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  ModelParts parts;
  HAAST_RETURN_IF_ERROR(ReadSettings(folder, &parts));
  HAAST_RETURN_IF_ERROR(AddShard(path, &parts));
  HAAST_RETURN_IF_ERROR(Reconcile(folder, &parts));
  return parts;
}

}  // namespace haast::io
