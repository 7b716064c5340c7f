#include "io/safetensors.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"
#include "support/gguf_writer.h"
#include "support/safetensors_writer.h"

namespace haast::io {
namespace {

using testing::SafetensorsBytes;

constexpr char kPath[] = "model.safetensors";

Result<std::vector<RawTensor>> Read(const std::string& bytes) {
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());  // of exactly that size
  return ReadSafetensors(copy, kPath);
}

TEST(Safetensors, ReadsEveryTypeAndAScalar) {
  const std::string bytes = SafetensorsBytes({{"a", "F32", {2, 3}, std::string(24, 'a')},
                                              {"b", "BF16", {4}, std::string(8, 'b')},
                                              {"c", "F16", {1, 2}, std::string(4, 'c')},
                                              {"d", "I64", {2}, std::string(16, 'd')},
                                              {"e", "I32", {}, std::string(4, 'e')},
                                              {"f", "BOOL", {3}, std::string(3, 'f')},
                                              {"g", "I8", {1}, std::string(1, 'g')}});
  const std::vector<uint8_t> copy(bytes.begin(), bytes.end());
  const auto tensors = ReadSafetensors(copy, kPath);
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 7u);
  const char* const expected[] = {"[2, 3] F32", "[4] BF16", "[1, 2] F16", "[2] I64", "[1] I32", "[3] BOOL", "[1] I8"};
  for (size_t i = 0; i < 7; ++i) {
    const RawTensor& tensor = (*tensors)[i];
    EXPECT_EQ(tensor.name, std::string(1, static_cast<char>('a' + i)));
    EXPECT_EQ(tensor.view.ToString(), expected[i]);
    const auto* first = static_cast<const char*>(tensor.view.data);
    EXPECT_EQ(std::string(first, first + tensor.view.bytes()),
              std::string(static_cast<size_t>(tensor.view.bytes()), static_cast<char>('a' + i)));
  }
}

struct CorruptCase {
  const char* what;
  std::string header;
  size_t data;  // bytes
  ErrorCode code;
  std::vector<std::string> parts;
};

void PrintTo(const CorruptCase& test, std::ostream* out) { *out << test.what; }

class CorruptSafetensors : public ::testing::TestWithParam<CorruptCase> {};

TEST_P(CorruptSafetensors, IsRefusedByName) {
  const auto result = Read(SafetensorsBytes(GetParam().header, std::string(GetParam().data, '\0')));
  EXPECT_ERROR(result, GetParam().code, kPath);
  for (const std::string& part : GetParam().parts) EXPECT_ERROR(result, GetParam().code, part);
}

std::string Entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

constexpr auto kInvalid = ErrorCode::kInvalidFile;

const CorruptCase kCases[] = {
    {"no JSON", "hello", 0, kInvalid, {"JSON"}},
    {"empty header", "", 0, kInvalid, {"JSON"}},
    {"a list", "[]", 0, kInvalid, {"JSON object"}},
    {"not UTF-8", "{\"\xff\":1}", 0, kInvalid, {"JSON"}},
    {"deep", std::string(100000, '['), 0, kInvalid, {"at most 64 levels"}},
    {"deep member", R"({"t":)" + std::string(70, '[') + std::string(70, ']') + "}", 0, kInvalid, {"at most 64 levels"}},
    {"entry a number", R"({"t":1})", 0, kInvalid, {"tensor t", "dtype, shape and data_offsets", "got 1"}},
    {"no dtype", R"({"t":{"shape":[1],"data_offsets":[0,4]}})", 4, kInvalid, {"tensor t"}},
    {"no shape", R"({"t":{"dtype":"F32","data_offsets":[0,4]}})", 4, kInvalid, {"tensor t", "shape"}},
    {"no offsets", R"({"t":{"dtype":"F32","shape":[1]}})", 4, kInvalid, {"tensor t", "data_offsets"}},
    {"type not served", Entry("F8_E4M3", "[4]", "[0,4]"), 4, ErrorCode::kUnsupported, {"tensor t", "F8_E4M3", "BF16"}},
    {"negative dimension", Entry("F32", "[-1]", "[0,4]"), 4, kInvalid, {"tensor t", "shape"}},
    {"fractional dimension", Entry("F32", "[1.5]", "[0,4]"), 4, kInvalid, {"tensor t", "shape"}},
    {"zero dimension", Entry("F32", "[0,4]", "[0,0]"), 0, kInvalid, {"tensor t", "[0, 4]"}},
    {"five dimensions", Entry("F32", "[1,1,1,1,1]", "[0,4]"), 4, ErrorCode::kUnsupported, {"tensor t", "got 5"}},
    {"dimensions wrap", Entry("F32", "[4294967296,4294967296]", "[0,0]"), 0, kInvalid, {"tensor t", "2^56"}},
    {"dimension beyond int64", Entry("F32", "[18446744073709551615]", "[0,4]"), 4, kInvalid, {"tensor t", "shape"}},
    {"dimension beyond uint64", Entry("F32", "[99999999999999999999]", "[0,4]"), 4, kInvalid, {"JSON"}},
    {"three offsets", Entry("F32", "[1]", "[0,4,8]"), 8, kInvalid, {"tensor t", "two whole numbers"}},
    {"negative offset", Entry("F32", "[1]", "[-4,0]"), 4, kInvalid, {"tensor t", "two whole numbers"}},
    {"offsets reversed", Entry("F32", "[1]", "[4,0]"), 4, kInvalid, {"tensor t", "[4, 0]"}},
    {"outside", Entry("F32", "[2]", "[0,8]"), 4, kInvalid, {"tensor t", "8 bytes inside a data section of 4"}},
    {"far outside", Entry("F32", "[1]", "[9223372036854775803,9223372036854775807]"), 4, kInvalid, {"tensor t"}},
    {"size and shape", Entry("F32", "[2]", "[0,4]"), 4, kInvalid, {"tensor t", "8 bytes", "[0, 4]"}},
    {"data left over", Entry("F32", "[1]", "[0,4]"), 8, kInvalid, {"data section of 8 bytes, got 4"}},
    {"gap", Entry("F32", "[1]", "[4,8]"), 8, kInvalid, {"data section of 8 bytes, got 4"}},
    {"overlap",
     R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     12,
     kInvalid,
     {"a and b overlap"}},
    {"name twice",
     R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
     8,
     kInvalid,
     {"two of a"}},
};
INSTANTIATE_TEST_SUITE_P(Cases, CorruptSafetensors, ::testing::ValuesIn(kCases));

TEST(Safetensors, HeaderLengthsAreChecked) {
  EXPECT_ERROR(Read("1234567"), kInvalid, kPath, "at least 8 bytes, got 7");
  const std::string header = Entry("F32", "[1]", "[0,4]");
  for (const uint64_t length : {uint64_t{header.size()} + 5, uint64_t{1} << 40, UINT64_MAX, UINT64_MAX - 7}) {
    EXPECT_ERROR(Read(testing::LittleEndian(length) + header + "...."), kInvalid, kPath, std::to_string(length));
  }
  EXPECT_ERROR(Read(testing::LittleEndian(uint64_t{100'000'001}) + std::string(100'000'001, ' ')), kInvalid, "at most 100000000 bytes");
}

TEST(Safetensors, AFileCutAnywhereIsRefused) {
  const std::string bytes = SafetensorsBytes({{"a", "F32", {2, 3}, std::string(24, 'a')}, {"b", "BF16", {4}, std::string(8, 'b')}});
  ASSERT_TRUE(Read(bytes));
  for (size_t size = 0; size < bytes.size(); ++size) ASSERT_FALSE(Read(bytes.substr(0, size))) << size;
  EXPECT_FALSE(Read(bytes + "x"));
}

TEST(Safetensors, AnyChangedByteIsSurvived) {
  const std::string bytes = SafetensorsBytes({{"a", "F32", {2, 3}, std::string(24, 'a')}, {"b", "BF16", {4}, std::string(8, 'b')}});
  size_t refused = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int value = 0; value < 256; value += 5) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(value);
      refused += !Read(changed);
    }
  }
  EXPECT_GT(refused, 3000u);
}

}  // namespace
}  // namespace haast::io
