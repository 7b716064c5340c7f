#include "io/model_file.h"

#include <algorithm>
#include <filesystem>

#include "base/format.h"
#include "base/printable.h"
#include "io/gguf.h"
#include "io/model_parts.h"

namespace haast::io {

struct ModelFile::Impl {
  std::string path;
  ModelParts parts;
  std::vector<NamedTensor> tensors;  // sorted by name
};

namespace {

constexpr const char* kServed = "a GGUF file, a .safetensors file or a folder of a model or head with config.json";

Result<ModelParts> OpenParts(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return OpenFolder(path);
  if (path.ends_with(".safetensors")) return OpenSafetensors(path);
  Result<base::MappedFile> file = base::MappedFile::Open(path);
  if (!file) return Err(file.error().code, "{}: expected {}", file.error().message, kServed);
  if (IsGguf(file->bytes())) return OpenGguf(std::move(*file));
  return Err(ErrorCode::kInvalidFile, "{}: expected {}, got {} bytes of another format", path, kServed, file->bytes().size());
}

// Names are distinct within a file; here they must be across files and after translation.
Result<std::vector<NamedTensor>> Sorted(std::vector<RawTensor> raw, const std::string& path) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(raw.size());
  for (RawTensor& tensor : raw) tensors.push_back({std::move(tensor.name), tensor.view});
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].name == tensors[i - 1].name) {
      return Err(ErrorCode::kInvalidFile, "{}: expected tensors of different names, got two of {}", path, base::Label(tensors[i].name));
    }
  }
  return tensors;
}

}  // namespace

ModelFile::ModelFile(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelFile::~ModelFile() = default;
ModelFile::ModelFile(ModelFile&&) noexcept = default;
ModelFile& ModelFile::operator=(ModelFile&&) noexcept = default;

Result<ModelFile> ModelFile::Open(const std::string& path) {
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  HAAST_ASSIGN_OR_RETURN(impl->parts, OpenParts(path));
  HAAST_ASSIGN_OR_RETURN(impl->tensors, Sorted(std::move(impl->parts.tensors), path));
  return ModelFile(std::move(impl));
}

const std::string& ModelFile::path() const { return impl_->path; }
const std::string& ModelFile::format() const { return impl_->parts.format; }
const ModelConfig& ModelFile::config() const { return impl_->parts.config; }
const TextAssets& ModelFile::text() const { return impl_->parts.text; }
const std::vector<NamedTensor>& ModelFile::tensors() const { return impl_->tensors; }

int64_t ModelFile::file_bytes() const {
  int64_t total = 0;
  for (const base::MappedFile& file : impl_->parts.files) total += static_cast<int64_t>(file.bytes().size());
  return total;
}

const TensorView* ModelFile::Find(const std::string& name) const {
  const auto& tensors = impl_->tensors;
  const auto found =
      std::lower_bound(tensors.begin(), tensors.end(), name, [](const NamedTensor& a, const std::string& b) { return a.name < b; });
  return found != tensors.end() && found->name == name ? &found->view : nullptr;
}

void ModelFile::DropPages(const TensorView& view) const {
  const auto* begin = static_cast<const uint8_t*>(view.data);
  for (const base::MappedFile& file : impl_->parts.files) {
    const auto bytes = file.bytes();
    if (begin >= bytes.data() && begin < bytes.data() + bytes.size()) return file.DropPages(begin, static_cast<size_t>(view.bytes()));
  }
}

}  // namespace haast::io
