// Values that other programs computed (Hugging Face transformers in fp32 on the dequantised weights; scripts/make_goldens.py)
// against the default model and the shipped head.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/mapped_file.h"
#include "engine/loaded_models.h"
#include "io/safetensors.h"
#include "kv/kv_seq.h"
#include "support/default_model.h"
#include "support/engine_harness.h"

namespace haast::testing {
namespace {

using nlohmann::json;

std::vector<json> ReadJsonLines(const std::string& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  std::vector<json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

EngineOptions ReferenceOptions() {
  EngineOptions options;
  options.model = DefaultModelPath();
  options.draft = kDefaultHead;
  options.backend = "ref";
  options.kv_dtype = KvDtype::kF32;
  options.max_context = 1024;
  options.prefill_chunk = 600;
  return options;
}

// Both sides compute in fp32 and differ in the order of their sums alone. A dot product of k = 1536 terms of like size has a
// relative rounding error of about sqrt(k) * 2^-24 = 2.3e-6 in either order; 30 layers of about 7 such steps add in squares
// to sqrt(210) * 2.3e-6 = 3.4e-5 of the residual stream, whose largest values are near 1e2 here, so logits of size 20 may
// differ by a few 1e-4. 1e-3 leaves room for the nonlinear steps; a wrong weight or position is wrong by 1e-1 and more.
constexpr double kLogitTolerance = 1e-3;
constexpr double kFeatureRelativeTolerance = 1e-4;  // of the row's largest value

// Every 32nd logit is kept. [rows, vocabulary / 32]
double LogitDifference(const TensorView& strided, exec::Runner& runner) {
  constexpr int kStride = 32;
  const auto* expected = static_cast<const float*>(strided.data);
  double worst = 0.0;
  for (int64_t r = 0; r < strided.rows(); ++r) {
    const std::span<const float> logits = runner.logits(r);
    for (int64_t i = 0; i < strided.cols(); ++i) {
      worst = std::max(worst, std::fabs(static_cast<double>(logits[i * kStride]) - expected[r * strided.cols() + i]));
    }
  }
  return worst;
}

// Of the last rows of the `count` in the launch, at tapped layer `tap`, relative to each row's largest value. [rows, hidden]
double FeatureDifference(const TensorView& hidden, exec::Runner& runner, int64_t count, int tap) {
  double worst = 0.0;
  for (int64_t r = 0; r < hidden.rows(); ++r) {
    const float* want = static_cast<const float*>(hidden.data) + r * hidden.cols();
    const float* got = runner.taps(count - hidden.rows() + r) + tap * hidden.cols();
    double largest = 0.0;
    double difference = 0.0;
    for (int64_t i = 0; i < hidden.cols(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(want[i])));
      difference = std::max(difference, std::fabs(static_cast<double>(want[i]) - got[i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

TEST(Golden, ReferenceLogitsAndFeaturesEqualHuggingFace) {
  auto file = base::MappedFile::Open("tests/goldens/logits.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  auto tensors = io::ReadSafetensors(file->bytes(), file->path());
  ASSERT_TRUE(tensors) << tensors.error().message;
  std::map<std::string, TensorView> by_name;
  for (const io::RawTensor& tensor : *tensors) by_name[tensor.name] = tensor.view;

  EngineOptions options = ReferenceOptions();
  auto models = engine::LoadModels(&options);
  ASSERT_TRUE(models) << models.error().message;
  double worst_logit = 0.0;
  double worst_feature = 0.0;
  int prompts = 0;
  for (const auto& [name, ids] : by_name) {
    if (!name.ends_with(".input_ids") || (kSanitized && ids.elements() > 40)) continue;
    ++prompts;
    const std::string prompt = name.substr(0, name.find('.'));
    const int64_t count = ids.elements();
    const auto* id = static_cast<const int32_t*>(ids.data);
    const TensorView& positions = by_name.at(prompt + ".positions");
    const std::vector<int32_t> rows(static_cast<const int32_t*>(positions.data),
                                    static_cast<const int32_t*>(positions.data) + positions.elements());

    kv::KvSeq kv_seq(0);
    ASSERT_TRUE(kv_seq.Reserve(count, models->pages.get()));
    const attention::SequenceRows sequence{kv_seq.pages(), 0, count, {}};
    const int32_t owner = 0;
    exec::Batch batch{
        attention::ForwardMode::kExtend, {&sequence, 1}, {&owner, 1}, {id, static_cast<size_t>(count)}, nullptr, false, rows, true};
    const Status status = models->target_runner->Run(batch);
    ASSERT_TRUE(status) << status.error().message;

    worst_logit = std::max(worst_logit, LogitDifference(by_name.at(prompt + ".strided_logits"), *models->target_runner));
    const char* taps[] = {".hidden_02", ".hidden_15", ".hidden_27"};
    for (int t = 0; t < 3; ++t) {
      worst_feature = std::max(worst_feature, FeatureDifference(by_name.at(prompt + taps[t]), *models->target_runner, count, t));
    }
    kv_seq.Release(models->pages.get());
  }
  EXPECT_GE(prompts, kSanitized ? 1 : 8);
  EXPECT_LT(worst_logit, kLogitTolerance);
  EXPECT_LT(worst_feature, kFeatureRelativeTolerance);
  std::printf("largest differences: logit %.2e, feature %.2e (relative)\n", worst_logit, worst_feature);
}

constexpr int64_t kSanitizedTokens = 4;

// Compares greedy answers up to the first near tie, where another summation order may choose the other token.
void ExpectGreedyAnswers(EngineOptions options, double near_tie, int prompts, int64_t least_tokens) {
  options.draft.clear();
  auto engine = MustCreate(options);
  std::vector<json> lines = ReadJsonLines("tests/goldens/greedy.jsonl");
  int64_t compared = 0;
  if (kSanitized) {  // one prompt, whose first tokens are far from a tie
    std::erase_if(lines, [&](const json& line) {
      const auto margins = line["margins"].get<std::vector<double>>();
      return *std::min_element(margins.begin(), margins.begin() + kSanitizedTokens) <= near_tie;
    });
    prompts = 1;
    least_tokens = kSanitizedTokens;
  }
  for (int i = 0; i < prompts; ++i) {
    const json& line = lines[static_cast<size_t>(i)];
    Request request;
    request.prompt = line["prompt_ids"].get<std::vector<int32_t>>();
    auto expected = line["output_ids"].get<std::vector<int32_t>>();
    if (kSanitized) expected.resize(kSanitizedTokens);
    request.max_tokens = static_cast<int64_t>(expected.size());
    const Answer answer = RunRequests(*engine, {request})[0];
    for (size_t t = 0; t < expected.size(); ++t) {
      if (answer.tokens[t] == expected[t]) {
        ++compared;
        continue;
      }
      EXPECT_LT(line["margins"][t].get<double>(), near_tie) << line["name"] << " token " << t;
      break;
    }
  }
  EXPECT_GE(compared, least_tokens);
  std::printf("%d greedy prompts: %ld tokens equal\n", prompts, static_cast<long>(compared));
}

TEST(Golden, GreedyTokensOfTheReferencePath) { ExpectGreedyAnswers(ReferenceOptions(), 2 * kLogitTolerance, 8, 200); }

TEST(Golden, GreedyTokensOfTheCpuPath) {
  EngineOptions options = ReferenceOptions();
  options.backend = "cpu";
  options.kv_dtype = KvDtype::kF16;
  // Activations rounded to 8 bits: another engine that rounds the same way leaves these answers only at margins below 0.17.
  ExpectGreedyAnswers(options, 0.5, 24, 400);
}

struct TraceCount {
  int64_t drafts = 0;
  int64_t rounds = 0;
};

// True where `tokens` are the expected ones from `*emitted` on, which moves behind them; the first other one must be at a near tie.
bool TokensEqual(const std::vector<TokenOutput>& tokens, const std::vector<int32_t>& expected, const std::vector<double>& margins,
                 double near_tie, size_t* emitted) {
  for (const TokenOutput& token : tokens) {
    if (*emitted >= expected.size()) {
      ADD_FAILURE() << "more than " << expected.size() << " tokens";
      return false;
    }
    if (token.token != expected[*emitted]) {
      EXPECT_LT(margins[*emitted], near_tie) << "answer token " << *emitted;
      return false;
    }
    ++*emitted;
  }
  return true;
}

// How many drafts of the round are equal before the first other one, which must be at a near tie.
int64_t EqualDrafts(const std::vector<int32_t>& got, const json& golden, double near_tie) {
  const auto expected = golden["drafts"].get<std::vector<int32_t>>();
  const auto differing = std::mismatch(expected.begin(), expected.end(), got.begin(), got.end()).first;
  const int64_t equal = differing - expected.begin();
  if (differing != expected.end()) {
    EXPECT_LT(golden["draft_margins"][static_cast<size_t>(equal)].get<double>(), near_tie) << "draft " << equal;
  }
  return equal;
}

// The head's drafts and accepted counts, round by round, up to the first near tie of the answer or of a draft.
TraceCount ExpectTrace(const EngineOptions& options, double near_tie) {
  auto engine = MustCreate(options);
  TraceCount count;
  for (const json& line : ReadJsonLines("tests/goldens/golden_trace.jsonl")) {
    Request request;
    request.prompt = line["prompt_ids"].get<std::vector<int32_t>>();
    auto expected = line["answer_ids"].get<std::vector<int32_t>>();
    if (kSanitized) expected.resize(12);
    const auto margins = line["answer_margins"].get<std::vector<double>>();
    request.max_tokens = static_cast<int64_t>(expected.size());
    request.speculation = {SpeculativeAlgorithm::kEagle3, 5};
    const Answer answer = RunRequests(*engine, {request})[0];
    size_t emitted = 0;
    size_t round = 0;
    for (const Event& event : answer.events) {
      if (!TokensEqual(event.tokens, expected, margins, near_tie, &emitted) || emitted == expected.size()) break;
      if (event.drafts.empty()) continue;
      const json& golden = line["rounds"][round++];
      const int64_t equal = EqualDrafts(event.drafts, golden, near_tie);
      count.drafts += equal;
      if (equal < static_cast<int64_t>(golden["drafts"].size())) break;
      EXPECT_EQ(event.num_accepted, golden["accepted"].get<int>()) << "round " << round;
      ++count.rounds;
    }
    if (kSanitized) break;
  }
  return count;
}

TEST(Golden, TheHeadDraftsAsItsTrainerDid) {
  const TraceCount count = ExpectTrace(ReferenceOptions(), 2 * kLogitTolerance);
  EXPECT_GE(count.rounds, kSanitized ? 2 : 40);
  std::printf("head trace: %ld rounds, %ld drafts equal\n", static_cast<long>(count.rounds), static_cast<long>(count.drafts));
}

TEST(Golden, TheQuantisedHeadDraftsNearlyTheSame) {
  EngineOptions options = ReferenceOptions();
  options.backend = "cpu";
  options.kv_dtype = KvDtype::kF16;
  const TraceCount count = ExpectTrace(options, 0.75);
  EXPECT_GE(count.rounds, kSanitized ? 1 : 4);  // then the rounded activations choose another answer at a near tie
  std::printf("quantised head trace: %ld rounds, %ld drafts equal\n", static_cast<long>(count.rounds), static_cast<long>(count.drafts));
}

}  // namespace
}  // namespace haast::testing
