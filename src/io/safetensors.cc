#include "io/safetensors.h"

#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "base/format.h"
#include "base/printable.h"
#include "io/json.h"

namespace haast::io {
namespace {

namespace dom = simdjson::dom;

constexpr uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation

std::optional<DType> ElementType(std::string_view name) {
  static const std::map<std::string_view, DType> kTypes = {{"F32", DType::kF32},  {"F16", DType::kF16}, {"BF16", DType::kBF16},
                                                           {"I8", DType::kI8},    {"I32", DType::kI32}, {"I64", DType::kI64},
                                                           {"BOOL", DType::kBool}};
  const auto found = kTypes.find(name);
  return found == kTypes.end() ? std::nullopt : std::optional(found->second);
}

tl::unexpected<Error> Malformed(const std::string& path, const std::string& name, const char* expected, const std::string& got) {
  return Err(ErrorCode::kInvalidFile, "{}: tensor {}: expected {}, got {}", path, base::Label(name), expected, got);
}

// A list of whole numbers of at least zero.
std::optional<std::vector<int64_t>> Counts(dom::object entry, const char* key) {
  dom::array list;
  if (entry[key].get(list) != simdjson::SUCCESS) return std::nullopt;
  std::vector<int64_t> result;
  for (dom::element item : list) {
    int64_t value = 0;
    if (item.get(value) != simdjson::SUCCESS || value < 0) return std::nullopt;
    result.push_back(value);
  }
  return result;
}

Result<RawTensor> ReadEntry(std::string_view name, dom::element value, std::span<const uint8_t> data, const std::string& path) {
  RawTensor tensor;
  tensor.name = name;
  dom::object entry;
  std::string_view type;
  if (value.get(entry) != simdjson::SUCCESS || entry["dtype"].get(type) != simdjson::SUCCESS) {
    return Malformed(path, tensor.name, "an object with dtype, shape and data_offsets", Describe(value));
  }
  auto shape = Counts(entry, "shape");
  if (!shape) return Malformed(path, tensor.name, "a shape of whole numbers", "another one");
  const auto offsets = Counts(entry, "data_offsets");
  if (!offsets || offsets->size() != 2) return Malformed(path, tensor.name, "data_offsets of two whole numbers", "others");
  const auto dtype = ElementType(type);
  if (!dtype) {
    return Err(ErrorCode::kUnsupported,
               "{}: tensor {}: expected one of F32, F16, BF16, I8, I32, I64, BOOL, got {}; convert the model to BF16", path,
               base::Label(tensor.name), base::Label(type));
  }
  if (shape->empty()) shape->push_back(1);
  HAAST_ASSIGN_OR_RETURN(const uint64_t size, SetShape(&tensor, *shape, *dtype, path));
  const uint64_t begin = static_cast<uint64_t>((*offsets)[0]), end = static_cast<uint64_t>((*offsets)[1]);
  if (begin > end || end > data.size() || end - begin != size) {
    return Malformed(path, tensor.name, fmt::format("{} bytes inside a data section of {}", size, data.size()).c_str(),
                     fmt::format("data_offsets [{}, {}]", begin, end));
  }
  tensor.begin = begin;
  tensor.view.data = data.data() + begin;
  return tensor;
}

// Distinct tensors inside the data cover it exactly when their sizes add up to it.
Status CheckCovered(const std::vector<RawTensor>& tensors, uint64_t data_size, const std::string& path) {
  HAAST_RETURN_IF_ERROR(CheckDistinct(tensors, path));
  uint64_t total = 0;
  for (const RawTensor& tensor : tensors) total += static_cast<uint64_t>(tensor.view.bytes());
  if (total == data_size) return {};
  return Err(ErrorCode::kInvalidFile,
             "{}: expected tensors that fill the data section of {} bytes, got {} bytes of tensors; the file is damaged", path, data_size,
             total);
}

}  // namespace

Result<std::vector<RawTensor>> ReadSafetensors(std::span<const uint8_t> bytes, const std::string& path) {
  uint64_t header_size = 0;
  if (bytes.size() < sizeof(header_size)) {
    return Err(ErrorCode::kInvalidFile, "{}: expected a safetensors file of at least 8 bytes, got {}", path, bytes.size());
  }
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  const uint64_t rest = bytes.size() - sizeof(header_size);
  if (header_size > rest || header_size > kMaxHeader) {
    return Err(ErrorCode::kInvalidFile,
               "{}: expected a safetensors header of at most {} bytes, got {}; the file is cut short or of another format", path,
               std::min(rest, kMaxHeader), header_size);
  }
  const auto text = bytes.subspan(sizeof(header_size), header_size);
  const auto data = bytes.subspan(sizeof(header_size) + header_size);
  HAAST_ASSIGN_OR_RETURN(const JsonDocument header, JsonDocument::Parse({reinterpret_cast<const char*>(text.data()), text.size()}, path));
  std::vector<RawTensor> tensors;
  for (const auto& member : header.root().members()) {
    if (member.key == "__metadata__") continue;
    HAAST_ASSIGN_OR_RETURN(RawTensor tensor, ReadEntry(member.key, member.value, data, path));
    tensors.push_back(std::move(tensor));
  }
  HAAST_RETURN_IF_ERROR(CheckCovered(tensors, data.size(), path));
  return tensors;
}

}  // namespace haast::io
