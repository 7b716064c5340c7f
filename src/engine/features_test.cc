#include "haast/features.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "base/file_bytes.h"
#include "base/format.h"
#include "base/mapped_file.h"
#include "engine/loaded_models.h"
#include "engine/token_file.h"
#include "io/safetensors.h"
#include "kv/kv_seq.h"
#include "support/default_model.h"
#include "support/engine_harness.h"
#include "support/expect_error.h"
#include "support/tiny_models.h"

namespace haast {
namespace {

using testing::RandomIds;

constexpr int kHidden = 64;
constexpr int kVocab = 320;

std::string FileText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// The tensors of one file.
class Piece {
 public:
  explicit Piece(const std::string& path) {
    auto bytes = base::ReadFileBytes(path, 1 << 30);
    if (!bytes) {
      ADD_FAILURE() << bytes.error().message;
      return;
    }
    bytes_ = std::move(*bytes);
    auto tensors = io::ReadSafetensors(bytes_, path);
    EXPECT_TRUE(tensors) << tensors.error().message;
    for (const io::RawTensor& tensor : *tensors) views_[tensor.name] = tensor.view;
  }
  const TensorView& operator[](const std::string& name) const { return views_.at(name); }
  template <typename T>
  const T* as(const std::string& name) const {
    return static_cast<const T*>(views_.at(name).data);
  }

 private:
  std::vector<uint8_t> bytes_;
  std::map<std::string, TensorView> views_;
};

class FeaturesTest : public ::testing::Test {
 protected:
  FeaturesTest() {
    testing::TinyEagle3 head;
    head.taps = {0, 1, 2};
    head.target.dtype = DType::kQ8_0;
    engine_.model = testing::WriteTinyGguf(head.target, dir_.Join("model.gguf"));
    engine_.draft = testing::WriteTinyEagle3(head, dir_.Join("head"));
    engine_.threads = 1;
    for (const int length : {1, 9, 40, 3, 17, 1, 1, 26}) sequences_.push_back(RandomIds(length, kVocab, sequences_.size()));
    options_.input = WriteInput(sequences_);
    options_.output = dir_.Join("features");
    options_.dtype = FeatureDtype::kF32;
  }

  std::string WriteInput(const std::vector<std::vector<int32_t>>& sequences) {
    std::string text;
    for (const auto& ids : sequences) text += fmt::format("{{\"text\": \"\", \"token_ids\": [{}]}}\n\n", fmt::join(ids, ","));
    return WriteText(text);
  }
  std::string WriteText(const std::string& text) {
    std::ofstream(dir_.Join("ids.jsonl")) << text;
    return dir_.Join("ids.jsonl");
  }

  FeatureReport MustWrite() {
    const Result<FeatureReport> report = WriteFeatures(engine_, options_, nullptr);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : FeatureReport{};
  }
  Piece Read(int piece) const { return Piece(fmt::format("{}/features-{:05}.safetensors", options_.output, piece)); }

  // What the engine's target taps where the tokens come one at a time, as plain decoding runs them. [R, taps | after the final norm]
  std::vector<float> OneByOne() {
    EngineOptions options = engine_;
    options.draft.clear();
    auto models = engine::LoadModels(&options, {0, 1, 2, 3});
    EXPECT_TRUE(models) << models.error().message;
    std::vector<float> rows;
    for (const std::vector<int32_t>& ids : sequences_) {
      kv::KvSeq kv(0);
      EXPECT_TRUE(kv.Reserve(static_cast<int64_t>(ids.size()), models->pages.get()));
      const int32_t owner = 0;
      const int32_t first = 0;
      for (size_t t = 0; t < ids.size(); ++t) {
        const attention::SequenceRows sequence{kv.pages(), static_cast<int64_t>(t), 1, {}};
        const exec::Batch batch{
            attention::ForwardMode::kDecode, {&sequence, 1}, {&owner, 1}, {&ids[t], 1}, nullptr, false, {&first, 1}, true};
        EXPECT_TRUE(models->target_runner->Run(batch));
        const float* taps = models->target_runner->taps(0);
        rows.insert(rows.end(), taps, taps + models->target->tap_width());
      }
      kv.Release(models->pages.get());
    }
    return rows;
  }

  testing::TempDir dir_;
  EngineOptions engine_;
  FeatureOptions options_;
  std::vector<std::vector<int32_t>> sequences_;
};

TEST_F(FeaturesTest, AreTheBitsThatDecodingTapsHoweverTheyAreBatched) {
  const std::vector<float> expected = OneByOne();
  for (const int chunk : {1, 7, 512}) {
    engine_.prefill_chunk = chunk;
    options_.output = dir_.Join(fmt::format("chunk{}", chunk));
    const FeatureReport report = MustWrite();
    EXPECT_EQ(report.sequences, 8);
    EXPECT_EQ(report.tokens, 98);
    EXPECT_EQ(report.computed_tokens, 98);
    EXPECT_EQ(report.pieces, 1);
    EXPECT_EQ(report.layers, (std::vector<int>{0, 1, 2}));
    const Piece piece = Read(0);
    ASSERT_TRUE(piece["taps"].HasShape({98, 3 * kHidden}));
    ASSERT_TRUE(piece["hidden"].HasShape({98, kHidden}));
    for (size_t r = 0; r < 98; ++r) {
      const float* row = expected.data() + r * 4 * kHidden;
      ASSERT_EQ(std::memcmp(piece.as<float>("taps") + r * 3 * kHidden, row, 3 * kHidden * sizeof(float)), 0) << chunk << ", row " << r;
      ASSERT_EQ(std::memcmp(piece.as<float>("hidden") + r * kHidden, row + 3 * kHidden, kHidden * sizeof(float)), 0)
          << chunk << ", row " << r;
    }
  }
}

TEST_F(FeaturesTest, SequencesAreFoundByTheirOffsets) {
  MustWrite();
  const Piece piece = Read(0);
  ASSERT_TRUE(piece["offsets"].HasShape({9}));
  for (size_t i = 0; i < sequences_.size(); ++i) {
    const int64_t begin = piece.as<int64_t>("offsets")[i];
    ASSERT_EQ(piece.as<int64_t>("offsets")[i + 1] - begin, static_cast<int64_t>(sequences_[i].size()));
    const int32_t* ids = piece.as<int32_t>("token_ids") + begin;
    EXPECT_EQ(std::vector<int32_t>(ids, ids + sequences_[i].size()), sequences_[i]);
  }
}

TEST_F(FeaturesTest, HalfTheBytesAreRoundedToNearest) {
  MustWrite();
  const Piece wide = Read(0);
  options_.dtype = FeatureDtype::kBF16;
  options_.output = dir_.Join("bf16");
  MustWrite();
  const Piece half = Read(0);
  ASSERT_EQ(half["taps"].ToString(), "[98, 192] BF16");
  for (const char* name : {"taps", "hidden"}) {
    for (int64_t i = 0; i < wide[name].elements(); ++i) ASSERT_EQ(half.as<uint16_t>(name)[i], FloatToBf16(wide.as<float>(name)[i]));
  }
}

TEST_F(FeaturesTest, LayersOfTheHeadOrOfTheCaller) {
  MustWrite();
  const Piece of_head = Read(0);
  engine_.draft.clear();
  options_.layers = {2, 2, 3};  // a head of so few layers may name one twice; the last is after the final norm
  options_.output = dir_.Join("given");
  EXPECT_EQ(MustWrite().layers, options_.layers);
  const Piece given = Read(0);
  for (size_t r = 0; r < 98; ++r) {
    const float* taps = given.as<float>("taps") + r * 3 * kHidden;
    const float* last = of_head.as<float>("taps") + (r * 3 + 2) * kHidden;
    const float* hidden = of_head.as<float>("hidden") + r * kHidden;
    EXPECT_EQ(std::memcmp(taps, last, kHidden * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(taps + kHidden, last, kHidden * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(taps + 2 * kHidden, hidden, kHidden * sizeof(float)), 0);
    EXPECT_EQ(std::memcmp(given.as<float>("hidden") + r * kHidden, hidden, kHidden * sizeof(float)), 0);
  }
}

TEST_F(FeaturesTest, PiecesAreBoundedAndGoOnWhereTheyWere) {
  options_.piece_bytes = 20 * 4 * kHidden * 4;  // 20 tokens
  const FeatureReport first = MustWrite();
  EXPECT_EQ(first.pieces, 5);  // 1 + 9, 40, 3 + 17, 1 + 1, 26
  EXPECT_EQ(Read(1)["taps"].rows(), 40);
  EXPECT_EQ(Read(3)["taps"].rows(), 2);
  std::vector<std::string> before;
  for (int i = 0; i < 5; ++i) before.push_back(FileText(fmt::format("{}/features-{:05}.safetensors", options_.output, i)));
  std::filesystem::remove(options_.output + "/features-00002.safetensors");
  std::string kept = before[0];
  kept.back() = static_cast<char>(kept.back() ^ 1);
  std::ofstream(options_.output + "/features-00000.safetensors") << kept;
  const FeatureReport second = MustWrite();
  EXPECT_EQ(second.pieces_kept, 4);
  EXPECT_EQ(second.computed_tokens, 20);
  EXPECT_EQ(FileText(options_.output + "/features-00000.safetensors"), kept) << "is there, and not made again";
  EXPECT_EQ(FileText(options_.output + "/features-00002.safetensors"), before[2]);
  EXPECT_EQ(MustWrite().computed_tokens, 0);
}

// Killed at any moment, also before the first whole file.
TEST_F(FeaturesTest, GoesOnFromWhatAKilledOneLeft) {
  std::filesystem::create_directory(options_.output);
  std::ofstream(options_.output + "/features.json.haast-part") << "{";
  MustWrite();
  const std::string piece = options_.output + "/features-00000.safetensors";
  const std::string whole = FileText(piece);
  std::filesystem::resize_file(piece, whole.size() - 100);
  std::ofstream(piece + ".haast-part") << "half";
  EXPECT_EQ(MustWrite().pieces_kept, 0) << "what was cut off is made again";
  EXPECT_EQ(FileText(piece), whole);
}

TEST_F(FeaturesTest, OneRunAtATimeWritesIntoAFolder) {
  std::filesystem::create_directory(options_.output);
  {
    const auto lock = base::FileLock::Take(options_.output + "/features.lock");
    ASSERT_TRUE(lock);
    EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kIo,
                 options_.output + ": another run is writing features there: wait until it has ended, or give another folder");
    EXPECT_FALSE(std::filesystem::exists(options_.output + "/features.json"));
  }
  bool refused = false;  // while this one writes
  FeatureOptions other = options_;
  other.dtype = FeatureDtype::kBF16;
  ASSERT_TRUE(WriteFeatures(engine_, options_, [&](const std::string& line) {
    if (line.starts_with("loading")) refused = !WriteFeatures(engine_, other, nullptr);
  }));
  EXPECT_TRUE(refused);
  EXPECT_FALSE(std::filesystem::exists(options_.output + "/features.lock"));
  std::ofstream(options_.output + "/features.lock") << "";  // as a killed one leaves it
  EXPECT_EQ(MustWrite().pieces_kept, 1);
  EXPECT_FALSE(std::filesystem::exists(options_.output + "/features.lock"));
}

TEST_F(FeaturesTest, ProgressEndsWithAllTokens) {
  engine_.prefill_chunk = 50;
  std::vector<std::string> lines;
  ASSERT_TRUE(WriteFeatures(engine_, options_, [&](const std::string& line) { lines.push_back(line); }));
  ASSERT_EQ(lines.size(), 4u);  // reading, loading, two launches
  EXPECT_TRUE(lines[2].starts_with("50 of 98 tokens, ")) << lines[2];
  EXPECT_TRUE(lines[3].starts_with("98 of 98 tokens, ")) << lines[3];
}

TEST_F(FeaturesTest, AFolderOfSomethingElseIsRefused) {
  MustWrite();
  const std::string kept = FileText(options_.output + "/features.json");
  options_.dtype = FeatureDtype::kBF16;
  EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kInvalidFile,
               options_.output + "/features.json: ", "expected '\"dtype\": \"BF16\",', got '\"dtype\": \"F32\",': give another folder");
  options_.dtype = FeatureDtype::kF32;
  sequences_[0][0] = (sequences_[0][0] + 1) % kVocab;
  WriteInput(sequences_);
  EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kInvalidFile, "expected '\"input\": ");
  EXPECT_EQ(FileText(options_.output + "/features.json"), kept);
  WriteInput(sequences_ = {{1, 2, 3}});
  options_.output = dir_.Join("cut");
  MustWrite();
  options_.piece_bytes *= 2;
  EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kInvalidFile, "expected '\"piece_tokens\": ");
  options_.piece_bytes /= 2;
  std::ofstream(options_.output + "/features-00009.safetensors") << "";
  EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kInvalidFile, "got features-00009.safetensors in it");
  options_.output = dir_.path();
  EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kInvalidFile, dir_.path() + ": expected a new or an empty folder");
  options_.output = engine_.model + "/none";
  EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kIo, options_.output + ": cannot be made");
}

TEST_F(FeaturesTest, BadSequencesAreNamedByTheirLine) {
  const std::string where = options_.input + ":2: ";
  const std::string good = "{\"token_ids\": [1, 2]}\n";
  const std::pair<std::string, std::string> cases[] = {
      {good + "{\"token_ids\": [3, 320]}\n", "token_ids: expected a whole number from 0 to 319, got 320"},
      {good + "{\"token_ids\": [-1]}", "token_ids: expected a whole number from 0 to 319, got -1"},
      {good + "{\"token_ids\": [1.5]}", "expected a whole number"},
      {good + "{\"token_ids\": []}", "expected 1 to 4096 tokens, for the model's context, got 0"},
      {good + fmt::format("{{\"token_ids\": [{}]}}", fmt::join(std::vector<int>(4097, 1), ",")),
       "expected 1 to 4096 tokens, for the model's context, got 4097"},
      {good + "{\"ids\": [1]}", "token_ids: expected a value, got no such key"},
      {good + "{\"token_ids\": 5}", "token_ids: expected a list of whole numbers, got the number 5"},
      {good + "{\"token_ids\": \"5\"}", "token_ids: expected a list of whole numbers, got the text \"5\""},
      {good + "{\"token_ids\": null}", "token_ids: expected a value, got null"},
      {good + "[1, 2]", "expected a JSON object, got a list"},
      {good + "\xEF\xBB\xBF", "expected a JSON object, got a byte-order mark alone"},
      {good + "words", "expected a JSON object"},
  };
  for (const auto& [text, message] : cases) {
    WriteText(text);
    EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kInvalidFile, where, message);
  }
  for (const char* text : {"\n \n", "", "\xEF\xBB\xBF"}) {
    WriteText(text);
    EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kInvalidFile,
                 "expected lines of {\"token_ids\": [1, 2, ...]}, got none");
  }
  options_.input = dir_.Join("none");
  EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kNotFound, options_.input);
  EXPECT_FALSE(std::filesystem::exists(options_.output)) << "nothing is made before all of the input was checked";
}

TEST_F(FeaturesTest, LayersThatThereAreNot) {
  for (const std::vector<int>& layers : {std::vector<int>{4}, {-1}, {1, 0}}) {
    options_.layers = layers;
    EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kInvalidArgument, "features.layers = ", "ascending layers, 0 to 3");
  }
  options_.layers.clear();
  engine_.draft.clear();
  EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kInvalidArgument, "features need features.layers, or a head");
  testing::TinyEagle3 other;
  other.target.hidden = other.hidden = 96;
  engine_.draft = testing::WriteTinyEagle3(other, dir_.Join("other"));
  EXPECT_ERROR(WriteFeatures(engine_, options_, nullptr), ErrorCode::kUnsupported, engine_.draft);
}

// The largest difference to a golden's last rows, relative to each row's largest value. [rows, hidden]
double Difference(const TensorView& golden, const float* rows, int64_t stride) {
  double worst = 0.0;
  for (int64_t r = 0; r < golden.rows(); ++r) {
    const float* want = static_cast<const float*>(golden.data) + r * golden.cols();
    double largest = 0.0;
    double difference = 0.0;
    for (int64_t i = 0; i < golden.cols(); ++i) {
      largest = std::max(largest, std::fabs(static_cast<double>(want[i])));
      difference = std::max(difference, std::fabs(static_cast<double>(want[i]) - rows[r * stride + i]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

TEST_F(FeaturesTest, OfTheReferencePathEqualHuggingFace) {
  auto file = base::MappedFile::Open("tests/goldens/logits.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  const auto tensors = io::ReadSafetensors(file->bytes(), file->path());
  ASSERT_TRUE(tensors) << tensors.error().message;
  std::map<std::string, TensorView> golden;
  for (const io::RawTensor& tensor : *tensors) golden[tensor.name] = tensor.view;
  std::vector<std::string> prompts;  // short ones: the reference path is slow
  sequences_.clear();
  for (const auto& [name, ids] : golden) {
    if (!name.ends_with(".input_ids") || ids.elements() > 64) continue;
    prompts.push_back(name.substr(0, name.find('.')));
    const auto* id = static_cast<const int32_t*>(ids.data);
    sequences_.emplace_back(id, id + ids.elements());
  }
  ASSERT_GE(prompts.size(), 2u);
  engine_.model = testing::DefaultModelPath();
  engine_.backend = "ref";
  engine_.kv_dtype = KvDtype::kF32;
  engine_.threads = 2;
  options_.layers = {2, 15, 27};
  options_.input = WriteInput(sequences_);
  MustWrite();
  const Piece piece = Read(0);
  const int64_t width = piece["taps"].cols();
  for (size_t i = 0; i < prompts.size(); ++i) {
    const char* const names[] = {".hidden_02", ".hidden_15", ".hidden_27"};
    for (int t = 0; t < 3; ++t) {
      const TensorView& want = golden.at(prompts[i] + names[t]);
      const int64_t first = piece.as<int64_t>("offsets")[i + 1] - want.rows();
      // The tolerance of tests/golden_test.cc, where it is derived: only the order of fp32 sums differs.
      EXPECT_LT(Difference(want, piece.as<float>("taps") + first * width + t * want.cols(), width), 1e-4) << prompts[i] << names[t];
    }
  }
}

}  // namespace
}  // namespace haast
