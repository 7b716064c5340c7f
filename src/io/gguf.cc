#include "io/gguf.h"

#include <algorithm>
#include <array>

#include "base/format.h"
#include "base/printable.h"
#include "io/byte_reader.h"

namespace haast::io {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMaxName = 65535;                             // bytes of a key or tensor name
constexpr int kMaxArrayNesting = 4;                              // of arrays in arrays, which no key of ours uses
constexpr uint64_t kMaxValues = 1 << 16, kMaxTensors = 1 << 20;  // far above any published file
constexpr uint64_t kMinValue = 8 + 4 + 1;                        // key length, type, one byte
constexpr uint64_t kMinTensor = 8 + 4 + 8 + 4 + 8;               // name length, rank, one dimension, type, offset

// Bytes of one value of a fixed width; 0 for strings, arrays and unknown types.
uint64_t WidthOf(uint32_t type) {
  static constexpr std::array<uint64_t, 13> kWidths = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < kWidths.size() ? kWidths[type] : 0;
}

bool IsKnown(uint32_t type) { return type <= static_cast<uint32_t>(GgufType::kF64); }

std::optional<DType> TensorType(uint32_t number) {
  switch (number) {
    case 0: return DType::kF32;
    case 1: return DType::kF16;
    case 2: return DType::kQ4_0;
    case 3: return DType::kQ4_1;
    case 8: return DType::kQ8_0;
    case 12: return DType::kQ4_K;
    case 13: return DType::kQ5_K;
    case 14: return DType::kQ6_K;
    case 24: return DType::kI8;
    case 26: return DType::kI32;
    case 27: return DType::kI64;
    case 30: return DType::kBF16;
    default: return std::nullopt;
  }
}

// Names of the types that are left out, for the refusal.
std::string TensorTypeName(uint32_t number) {
  static const std::map<uint32_t, const char*> kNames = {{6, "Q5_0"},    {7, "Q5_1"},     {9, "Q8_1"},    {10, "Q2_K"},    {11, "Q3_K"},
                                                         {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"}, {19, "IQ1_S"},
                                                         {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},  {23, "IQ4_XS"},  {25, "I16"},
                                                         {28, "F64"},    {29, "IQ1_M"},   {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"}};
  const auto found = kNames.find(number);
  return found == kNames.end() ? fmt::format("type {}", number) : found->second;
}

class GgufReader {
 public:
  GgufReader(std::span<const uint8_t> bytes, const std::string& path) : bytes_(bytes), reader_(bytes), path_(path) {}

  Result<GgufFile> Read() {
    GgufFile file{0, GgufMetadata(path_), {}};
    HAAST_RETURN_IF_ERROR(ReadHeader(&file.version));
    for (uint64_t i = 0; i < value_count_; ++i) HAAST_RETURN_IF_ERROR(ReadPair(&file.metadata));
    HAAST_ASSIGN_OR_RETURN(const uint64_t alignment, Alignment(file.metadata));
    for (uint64_t i = 0; i < tensor_count_; ++i) HAAST_RETURN_IF_ERROR(ReadTensor(&file.tensors, alignment));
    HAAST_RETURN_IF_ERROR(Locate(&file.tensors, alignment));
    HAAST_RETURN_IF_ERROR(CheckDistinct(file.tensors, path_));
    return file;
  }

 private:
  tl::unexpected<Error> CutShort(const char* what) const {
    return Err(ErrorCode::kInvalidFile, "{}: {} at byte {} of {}: expected more bytes than the file holds; it is cut short or damaged",
               path_, what, reader_.position(), bytes_.size());
  }

  Status ReadHeader(uint32_t* version) {
    if (!IsGguf(bytes_)) return Err(ErrorCode::kInvalidFile, "{}: expected a file that begins with \"GGUF\", got another format", path_);
    reader_.Run(kMagic.size());
    *version = reader_.Number<uint32_t>();
    tensor_count_ = reader_.Number<uint64_t>();
    value_count_ = reader_.Number<uint64_t>();
    if (!reader_.ok()) return CutShort("header");
    if ((*version & 0xffff) == 0 && *version != 0) {
      return Err(ErrorCode::kUnsupported, "{}: expected a little-endian GGUF, got a big-endian one; convert it on a little-endian machine",
                 path_);
    }
    if (*version != 2 && *version != 3) {
      return Err(ErrorCode::kUnsupported, "{}: expected GGUF version 2 or 3, got {}; convert the model anew", path_, *version);
    }
    // Before anything is allocated for them: every entry takes bytes of the file.
    const uint64_t most_values = std::min(kMaxValues, reader_.remaining() / kMinValue);
    const uint64_t most_tensors = std::min(kMaxTensors, reader_.remaining() / kMinTensor);
    if (value_count_ > most_values || tensor_count_ > most_tensors) {
      return Err(ErrorCode::kInvalidFile, "{}: expected at most {} keys and {} tensors in {} bytes, got {} keys and {} tensors", path_,
                 most_values, most_tensors, bytes_.size(), value_count_, tensor_count_);
    }
    return {};
  }

  // Names are repeated in messages, so they must be fit to print.
  Status CheckName(std::string_view name) const {
    const bool printable = std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
    if (printable && !name.empty() && name.size() <= kMaxName) return {};
    return Err(ErrorCode::kInvalidFile, "{}: name before byte {}: expected 1 to {} printable ASCII characters, got {} bytes that are not",
               path_, reader_.position(), kMaxName, name.size());
  }

  Status ReadPair(GgufMetadata* metadata) {
    const std::string_view key = reader_.String();
    const uint32_t type = reader_.Number<uint32_t>();
    if (!reader_.ok()) return CutShort("key");
    HAAST_RETURN_IF_ERROR(CheckName(key));
    HAAST_ASSIGN_OR_RETURN(const GgufValue value, ReadValue(key, type));
    if (!metadata->Add(key, value))
      return Err(ErrorCode::kInvalidFile, "{}: expected keys of different names, got two of {}", path_, base::Label(key));
    return {};
  }

  Result<GgufValue> ReadValue(std::string_view key, uint32_t type) {
    GgufValue value;
    value.type = static_cast<GgufType>(type);
    if (value.type == GgufType::kString) {
      const std::string_view text = reader_.String();
      value.bytes = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
    } else if (value.type == GgufType::kArray) {
      const uint32_t element = reader_.Number<uint32_t>();
      value.count = reader_.Number<uint64_t>();
      const uint64_t begin = reader_.position();
      HAAST_RETURN_IF_ERROR(SkipArray(key, element, value.count, 1));
      value.element = static_cast<GgufType>(element);
      value.bytes = reader_.Since(begin);
    } else if (IsKnown(type)) {
      value.bytes = reader_.Run(WidthOf(type));
    } else {
      return UnknownType(key, type);
    }
    if (!reader_.ok()) return CutShort("value");
    return value;
  }

  tl::unexpected<Error> UnknownType(std::string_view key, uint32_t type) const {
    return Err(ErrorCode::kInvalidFile, "{}: key {}: expected a value type from 0 to 12, got {}", path_, base::Label(key), type);
  }

  Status SkipArray(std::string_view key, uint32_t element, uint64_t count, int nesting) {
    if (!reader_.ok()) return CutShort("array");
    if (!IsKnown(element)) return UnknownType(key, element);
    if (nesting > kMaxArrayNesting)
      return Err(ErrorCode::kUnsupported, "{}: key {}: expected arrays nested {} deep at most", path_, base::Label(key), kMaxArrayNesting);
    const uint64_t width = WidthOf(element);
    const uint64_t least = width > 0 ? width : sizeof(uint64_t);  // of a string or array: its length
    if (count > reader_.remaining() / least) {
      return Err(ErrorCode::kInvalidFile, "{}: key {}: expected an array that fits the {} bytes left in the file, got {} elements", path_,
                 key, reader_.remaining(), count);
    }
    if (width > 0) {
      reader_.Run(count * width);
      return {};
    }
    for (uint64_t i = 0; i < count; ++i) {
      if (element == static_cast<uint32_t>(GgufType::kString)) {
        reader_.String();
      } else {
        const uint32_t inner = reader_.Number<uint32_t>();
        const uint64_t inner_count = reader_.Number<uint64_t>();
        HAAST_RETURN_IF_ERROR(SkipArray(key, inner, inner_count, nesting + 1));
      }
      if (!reader_.ok()) return CutShort("array");
    }
    return {};
  }

  static Result<uint64_t> Alignment(const GgufMetadata& metadata) {
    const int64_t alignment = metadata.Integer("general.alignment", 32, 8, 1 << 20);
    if (alignment % 8 != 0) metadata.Fail("general.alignment", "a multiple of 8", std::to_string(alignment));
    HAAST_RETURN_IF_ERROR(metadata.status());
    return static_cast<uint64_t>(alignment);
  }

  Status ReadTensor(std::vector<RawTensor>* tensors, uint64_t alignment) {
    RawTensor tensor;
    const std::string_view name = reader_.String();
    const uint32_t rank = reader_.Number<uint32_t>();
    if (!reader_.ok()) return CutShort("tensor entry");
    HAAST_RETURN_IF_ERROR(CheckName(name));
    tensor.name = name;
    if (rank > tensor.view.shape.size()) {
      return Err(ErrorCode::kUnsupported, "{}: tensor {}: expected at most {} dimensions, got {}", path_, base::Label(name),
                 tensor.view.shape.size(), rank);
    }
    std::array<int64_t, 4> shape{};  // stored with the contiguous dimension first
    for (uint32_t i = 0; i < rank; ++i) {
      const uint64_t dim = reader_.Number<uint64_t>();
      shape[rank - 1 - i] = dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) ? -1 : static_cast<int64_t>(dim);
    }
    const uint32_t type = reader_.Number<uint32_t>();
    tensor.begin = reader_.Number<uint64_t>();
    if (!reader_.ok()) return CutShort("tensor entry");
    const auto dtype = TensorType(type);
    if (!dtype) {
      return Err(ErrorCode::kUnsupported,
                 "{}: tensor {}: expected F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K or Q6_K, got {}; quantise the model anew", path_,
                 name, TensorTypeName(type));
    }
    if (tensor.begin % alignment != 0) {
      return Err(ErrorCode::kInvalidFile, "{}: tensor {}: expected an offset that is a multiple of {}, got {}", path_, base::Label(name),
                 alignment, tensor.begin);
    }
    HAAST_RETURN_IF_ERROR(SetShape(&tensor, std::span(shape).first(rank), *dtype, path_));
    tensors->push_back(std::move(tensor));
    return {};
  }

  // The data section begins at the next multiple of the alignment behind the entries.
  Status Locate(std::vector<RawTensor>* tensors, uint64_t alignment) {
    const uint64_t begin = (reader_.position() + alignment - 1) / alignment * alignment;
    const uint64_t size = begin <= bytes_.size() ? bytes_.size() - begin : 0;
    for (RawTensor& tensor : *tensors) {
      const uint64_t needed = static_cast<uint64_t>(tensor.view.bytes());
      if (tensor.begin > size || needed > size - tensor.begin) {
        return Err(ErrorCode::kInvalidFile,
                   "{}: tensor {}: expected {} bytes at offset {} inside a data section of {}; the file is cut short or damaged", path_,
                   tensor.name, needed, tensor.begin, size);
      }
      tensor.view.data = bytes_.data() + begin + tensor.begin;
    }
    return {};
  }

  std::span<const uint8_t> bytes_;
  ByteReader reader_;
  const std::string& path_;
  uint64_t tensor_count_ = 0;
  uint64_t value_count_ = 0;
};

}  // namespace

bool IsGguf(std::span<const uint8_t> bytes) {
  return bytes.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), bytes.begin());
}

Result<GgufFile> ReadGguf(std::span<const uint8_t> bytes, const std::string& path) { return GgufReader(bytes, path).Read(); }

}  // namespace haast::io
