#include "io/safetensors_writer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "io/safetensors.h"

namespace haast::io {
namespace {

TEST(SafetensorsImage, IsReadBack) {
  auto image = SafetensorsImage::Create(
      {{"a", DType::kI64, {3}}, {"b", DType::kI32, {2, 1}}, {"c", DType::kBF16, {2, 3}}, {"d", DType::kF16, {1, 4}}});
  ASSERT_TRUE(image) << image.error().message;
  for (int64_t i = 0; i < 3; ++i) reinterpret_cast<int64_t*>(image->data(0))[i] = 10 + i;
  reinterpret_cast<int32_t*>(image->data(1))[1] = -7;
  std::fill_n(image->data(2), 12, uint8_t{0x3f});
  const auto tensors = ReadSafetensors(image->bytes(), "made");
  ASSERT_TRUE(tensors) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 4u);
  const char* const expected[] = {"a [3] I64", "b [2, 1] I32", "c [2, 3] BF16", "d [1, 4] F16"};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*tensors)[i].name + " " + (*tensors)[i].view.ToString(), expected[i]);
    EXPECT_EQ((*tensors)[i].view.data, image->data(i));
  }
  EXPECT_EQ(static_cast<const int64_t*>((*tensors)[0].view.data)[2], 12);
  EXPECT_EQ(static_cast<const int32_t*>((*tensors)[1].view.data)[0], 0) << "what is not filled is zero";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(image->data(0)) % 8, 0u);
}

TEST(SafetensorsImage, WithoutTensorsIsAFileToo) {
  const auto image = SafetensorsImage::Create({});
  ASSERT_TRUE(image);
  EXPECT_TRUE(ReadSafetensors(image->bytes(), "made"));
}

TEST(SafetensorsImage, TooMuchMemoryIsAnError) {
  const auto image = SafetensorsImage::Create({{"a", DType::kI64, {int64_t{1} << 50}}});
  ASSERT_FALSE(image);
  EXPECT_EQ(image.error().code, ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace haast::io
