// What makes a head unfit, and that each form of head loads.
#include "model/eagle3.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/thread_pool.h"
#include "support/expect_error.h"
#include "support/safetensors_writer.h"
#include "support/tiny_models.h"

namespace haast::model {
namespace {

using ::haast::testing::HeadSpelling;
using ::haast::testing::TempDir;
using ::haast::testing::TinyEagle3;
using ::haast::testing::TinyLlama;

class Eagle3 : public ::testing::Test {
 protected:
  void SetUp() override {
    auto file = io::ModelFile::Open(WriteTinyGguf(TinyLlama(), dir_.Join("model.gguf")));
    ASSERT_TRUE(file) << file.error().message;
    file_ = std::make_unique<io::ModelFile>(std::move(*file));
    auto target = Llama::Load(*file_, {256, {0, 1, 2}}, load_);
    ASSERT_TRUE(target) << target.error().message;
    target_ = std::move(*target);
  }

  // The error of loading `head` beside the target; empty where it loads.
  std::string LoadError(const TinyEagle3& head) {
    auto file = io::ModelFile::Open(WriteTinyEagle3(head, dir_.Join("head" + std::to_string(heads_++))));
    if (!file) return file.error().message;
    auto loaded = Eagle3Head::Load(*file, *target_, 256, load_, load_);
    return loaded ? "" : loaded.error().message;
  }

  TempDir dir_;
  base::ThreadPool pool_{1};
  LoadContext load_{kernels::RefOps(), pool_, std::nullopt};
  std::unique_ptr<io::ModelFile> file_;
  std::unique_ptr<Llama> target_;
  int heads_ = 0;
};

TEST_F(Eagle3, EveryFormLoads) {
  for (HeadSpelling spelling : {HeadSpelling::kSafeAiLab, HeadSpelling::kSpecForge, HeadSpelling::kSpeculators}) {
    for (int options = 0; options < 16; ++options) {
      TinyEagle3 head;
      head.spelling = spelling;
      head.fc_norm = options & 1;
      head.norm_output = options & 2;
      head.norm_before_residual = options & 4;
      head.norm_before_fc = !head.fc_norm && (options & 8);
      head.own_embeddings = options & 8;
      head.draft_vocab = options % 3 == 0 ? 0 : 160;
      EXPECT_EQ(LoadError(head), "") << "spelling " << static_cast<int>(spelling) << ", options " << options;
    }
  }
}

TEST_F(Eagle3, AHeadOfAnotherModelIsRefusedWithTheNumbers) {
  TinyEagle3 hidden;
  hidden.target.hidden = hidden.hidden = 96;
  EXPECT_NE(LoadError(hidden).find("hidden size: the model has 64, the head expects 96"), std::string::npos) << LoadError(hidden);
  TinyEagle3 vocabulary;
  vocabulary.target.vocab = 400;
  EXPECT_NE(LoadError(vocabulary).find("vocabulary size: the model has 320, the head expects 400"), std::string::npos)
      << LoadError(vocabulary);
  TinyEagle3 taps;
  taps.target.layers = 9;
  taps.taps = {1, 4, 8};
  EXPECT_NE(LoadError(taps).find("the model has 2, the head expects"), std::string::npos) << LoadError(taps);
}

// Rows are read in place: words that are no numbers must not get that far.
TEST_F(Eagle3, MatricesOfOtherElementsAreRefused) {
  TinyEagle3 tiny;
  tiny.own_embeddings = true;
  const std::string path = WriteTinyEagle3(tiny, dir_.Join("words")) + "/model.safetensors";
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  for (const char* name : {"embed_tokens.weight", "fc.weight"}) {
    std::string changed = bytes.str();
    const size_t entry = changed.find(std::string("\"") + name + "\"");
    changed.replace(changed.find("F32", entry), 3, "I32");
    std::ofstream(path, std::ios::binary) << changed;
    const auto file = io::ModelFile::Open(dir_.Join("words"));
    ASSERT_TRUE(file) << file.error().message;
    EXPECT_ERROR(Eagle3Head::CheckFits(*file, target_->config()), ErrorCode::kUnsupported, name, "expected a float or block format");
  }
}

TEST_F(Eagle3, DraftIdsMapToTargetIds) {
  TinyEagle3 tiny;
  auto file = io::ModelFile::Open(WriteTinyEagle3(tiny, dir_.Join("mapped")));
  ASSERT_TRUE(file) << file.error().message;
  auto head = Eagle3Head::Load(*file, *target_, 256, load_, load_);
  ASSERT_TRUE(head) << head.error().message;
  const std::vector<int64_t> expected = TinyDraftToTarget(tiny);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ((*head)->draft_to_target()[i], expected[i]);
}

TEST(TapLayers, DefaultsAndConfigured) {
  io::Eagle3Config config;
  EXPECT_EQ(TapLayers(config, 30), (std::vector<int>{2, 15, 27}));
  config.tap_layers = {1, 5, 9};
  EXPECT_EQ(TapLayers(config, 30), (std::vector<int>{1, 5, 9}));
}

}  // namespace
}  // namespace haast::model
