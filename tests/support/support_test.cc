// The makers that other tests rely on.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "kernels/ops.h"
#include "support/encode.h"
#include "support/random.h"
#include "support/tiny_gguf.h"

namespace haast::testing {
namespace {

uint64_t Fnv(const std::string& bytes) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

// What the engine's own decoder makes of an encoded row differs by no more than the format's step.
TEST(Encode, AgreesWithTheDecoder) {
  constexpr int64_t kColumns = 512;
  std::vector<float> values(kColumns), decoded(kColumns);
  Random random(3);
  for (float& value : values) value = random.Symmetric();
  // The largest step of each format for values in [-1, 1): half of it, and as much again for rounded scales.
  const std::pair<DType, float> formats[] = {{DType::kF32, 0.0f},        {DType::kF16, 0x1p-11f},   {DType::kBF16, 0x1p-8f},
                                             {DType::kQ8_0, 1.0f / 127}, {DType::kQ4_0, 1.0f / 7},  {DType::kQ4_1, 2.0f / 15},
                                             {DType::kQ4_K, 2.0f / 15},  {DType::kQ5_K, 2.0f / 31}, {DType::kQ6_K, 1.0f / 31}};
  for (const auto& [dtype, step] : formats) {
    const std::string bytes = Encode(values, dtype);
    ASSERT_EQ(static_cast<int64_t>(bytes.size()), BytesOf(dtype, kColumns));
    const TensorView view{bytes.data(), dtype, 2, {1, kColumns}};
    kernels::DequantiseRow(view, 0, decoded.data());
    float worst = 0;
    for (size_t i = 0; i < values.size(); ++i) worst = std::max(worst, std::fabs(values[i] - decoded[i]));
    EXPECT_LE(worst, step) << Info(dtype).name;
    if (dtype != DType::kF32) {
      EXPECT_GT(worst, 0) << Info(dtype).name;
    }
  }
}

TEST(Encode, ZerosStayZeros) {
  const std::vector<float> values(256, 0.0f);
  std::vector<float> decoded(256, 1.0f);
  for (const DType dtype : {DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const std::string bytes = Encode(values, dtype);
    const TensorView view{bytes.data(), dtype, 2, {1, 256}};
    kernels::DequantiseRow(view, 0, decoded.data());
    EXPECT_EQ(decoded, values) << Info(dtype).name;
  }
}

// The same settings give the same bytes everywhere; recorded results of other tests depend on them.
TEST(TinyModels, AreTheSameEverywhere) {
  TinyLlama model;
  EXPECT_EQ(Fnv(MakeTinyGguf(model).Bytes()), 0x3a94ea628b5d1c89u);
  model.seed = 2;
  EXPECT_EQ(Fnv(MakeTinyGguf(model).Bytes()), 0x2b2bd5e198976b89u);
}

TEST(TinyModels, ATensorDependsOnItsSeedAndNameAlone) {
  TinyLlama small, large;
  large.layers = 5;
  large.attention_bias = true;
  const std::vector<TinyTensor> a = MakeTinyLlama(small), b = MakeTinyLlama(large);
  for (const TinyTensor& tensor : a) {
    const auto same = std::find_if(b.begin(), b.end(), [&](const TinyTensor& other) { return other.name == tensor.name; });
    ASSERT_NE(same, b.end()) << tensor.name;
    EXPECT_EQ(same->values, tensor.values) << tensor.name;
  }
  EXPECT_NE(a[1].values, a[2].values);
}

TEST(TinyModels, DraftIdsAreAscendingTargetIds) {
  TinyEagle3 head;
  const std::vector<int64_t> ids = TinyDraftToTarget(head);
  ASSERT_EQ(ids.size(), 160u);
  for (size_t i = 1; i < ids.size(); ++i) EXPECT_LT(ids[i - 1], ids[i]);
  EXPECT_LT(ids.back(), head.target.vocab);
}

TEST(TempDir, LeavesNothingBehind) {
  std::string path;
  {
    TempDir dir;
    path = dir.path();
    std::filesystem::create_directories(dir.Join("a/b"));
    WriteFile(dir.Join("a/b/c"), "x");
    EXPECT_EQ(ReadFile(dir.Join("a/b/c")), "x");
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

}  // namespace
}  // namespace haast::testing
