// Architecture variants against Hugging Face transformers: grouped heads, biases, tied embeddings, Llama 3 rope scaling, odd
// head sizes, sharded folders; and the same models as GGUF files.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/loaded_models.h"
#include "kv/kv_seq.h"
#include "support/tiny_cases.h"

namespace haast::testing {
namespace {

// fp32 on both sides, two or three layers of at most 240 wide sums: sqrt(21) * sqrt(240) * 2^-24 = 4e-6, relative, of logits up to 12.
constexpr double kTolerance = 5e-5;

// Largest difference between the golden logits and those of the model at `path`.
double WorstDifference(const std::string& path, const TinyCase& tiny, const nlohmann::json& goldens) {
  EngineOptions options;
  options.model = path;
  options.backend = "ref";
  options.kv_dtype = KvDtype::kF32;
  options.threads = 1;
  auto models = engine::LoadModels(&options);
  if (!models) {
    ADD_FAILURE() << models.error().message;
    return 1e9;
  }
  const std::vector<int32_t> ids = TinyCaseIds(tiny.llama);
  const auto rows = goldens["positions"].get<std::vector<int32_t>>();
  kv::KvSeq kv_seq(0);
  EXPECT_TRUE(kv_seq.Reserve(static_cast<int64_t>(ids.size()), models->pages.get()));
  const attention::SequenceRows sequence{kv_seq.pages(), 0, static_cast<int64_t>(ids.size()), {}};
  const int32_t owner = 0;
  exec::Batch batch{attention::ForwardMode::kExtend, {&sequence, 1}, {&owner, 1}, ids, nullptr, false, rows, false};
  const Status status = models->target_runner->Run(batch);
  EXPECT_TRUE(status) << status.error().message;
  const int stride = goldens["stride"].get<int>();
  double worst = 0.0;
  for (size_t r = 0; r < rows.size(); ++r) {
    const auto expected = goldens["cases"][tiny.name][r].get<std::vector<double>>();
    const std::span<const float> logits = models->target_runner->logits(static_cast<int64_t>(r));
    for (size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::fabs(expected[i] - logits[i * stride]));
  }
  return worst;
}

TEST(TinyGolden, LlamaVariantsEqualHuggingFaceInBothFormats) {
  std::ifstream file("tests/goldens/tiny_llama.json");
  ASSERT_TRUE(file);
  const nlohmann::json goldens = nlohmann::json::parse(file);
  TempDir dir;
  for (const TinyCase& tiny : TinyLlamaCases()) {
    ASSERT_TRUE(goldens["cases"].contains(tiny.name)) << tiny.name;
    EXPECT_LT(WorstDifference(WriteTinyFolder(tiny.llama, dir.Join(tiny.name)), tiny, goldens), kTolerance) << tiny.name << " folder";
    EXPECT_LT(WorstDifference(WriteTinyGguf(tiny.llama, dir.Join(tiny.name + ".gguf")), tiny, goldens), kTolerance) << tiny.name << " GGUF";
  }
}

}  // namespace
}  // namespace haast::testing
