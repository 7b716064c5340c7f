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

// Draft extend over all pairs, then a draft step on the head's own output.
TEST(TinyGolden, Eagle1HeadEqualsItsLayersInTransformers) {
  std::ifstream file("tests/goldens/tiny_llama.json");
  const nlohmann::json goldens = nlohmann::json::parse(file);
  const TinyLlama target = TinyLlamaCases().front().llama;
  TempDir dir;
  EngineOptions options;
  options.model = WriteTinyFolder(target, dir.Join("model"));
  options.draft = WriteTinyEagle1(target, 2, /*echo=*/false, dir.Join("head"));
  options.backend = "ref";
  options.kv_dtype = KvDtype::kF32;
  options.threads = 1;
  auto models = engine::LoadModels(&options);
  ASSERT_TRUE(models) << models.error().message;
  const std::vector<int32_t> ids = TinyCaseIds(target);
  const int64_t n = static_cast<int64_t>(ids.size());
  kv::KvSeq kv_seq(0);
  ASSERT_TRUE(kv_seq.Reserve(n + 1, models->pages.get()));
  const int32_t owner = 0;
  const attention::SequenceRows whole{kv_seq.pages(), 0, n, {}};
  exec::Batch prefill{attention::ForwardMode::kExtend, {&whole, 1}, {&owner, 1}, ids, nullptr, false, {}, true};
  ASSERT_TRUE(models->target_runner->Run(prefill));
  const attention::SequenceRows pairs{kv_seq.pages(), 0, n - 1, {}};
  const std::vector<int32_t> rows = {0, 99, 199, 298};
  exec::Batch extend{attention::ForwardMode::kDraftExtend, {&pairs, 1}, {&owner, 1}, std::span(ids).subspan(1),
                     models->target_runner->taps(0),       true,        rows,        false};
  ASSERT_TRUE(models->draft_runner->Run(extend));
  std::vector<std::vector<float>> logits;
  for (int64_t r = 0; r < 4; ++r) logits.emplace_back(models->draft_runner->logits(r).begin(), models->draft_runner->logits(r).end());
  const std::vector<float> carried(models->draft_runner->carried(3), models->draft_runner->carried(4));
  const attention::SequenceRows step{kv_seq.pages(), n - 1, 1, {}};
  const std::vector<int32_t> next = {5};
  const std::vector<int32_t> only = {0};
  exec::Batch decode{attention::ForwardMode::kDraftDecode, {&step, 1}, {&owner, 1}, next, carried.data(), false, only, false};
  ASSERT_TRUE(models->draft_runner->Run(decode));
  logits.emplace_back(models->draft_runner->logits(0).begin(), models->draft_runner->logits(0).end());
  const int stride = goldens["stride"].get<int>();
  for (size_t r = 0; r < logits.size(); ++r) {
    const auto expected = goldens["eagle1"][r].get<std::vector<double>>();
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(logits[r][i * stride], expected[i], kTolerance) << "row " << r << ", " << i;
  }
}

}  // namespace
}  // namespace haast::testing
