// haast features: what it prints, and what is wrong in the words of its flags. What it writes is src/engine/features_test.cc's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/file_bytes.h"
#include "cli/exit_code.h"
#include "cli/program_harness.h"

namespace haast::cli::testing {
namespace {

using ::testing::HasSubstr;

class FeaturesCommandTest : public ProgramTest {
 protected:
  FeaturesCommandTest() {
    Write("ids.jsonl", "{\"token_ids\": [1, 2, 3]}\n{\"token_ids\": [4]}\n");
    std::filesystem::remove_all(files_->dir.Join("out"));
  }
  static Ran Features(const Args& more) {
    return Haast(Args{"features", files_->dir.Join("ids.jsonl"), files_->dir.Join("out"), "--model", files_->model} + more);
  }
};

TEST_F(FeaturesCommandTest, WritesAndThenKeeps) {
  const Ran ran = Features({"--draft", files_->head, "--threads", "1"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("out: 2 sequences, 4 tokens in 1 files; layers 0,1,2; "));
  EXPECT_THAT(ran.out, HasSubstr(" tokens/s\n"));
  EXPECT_TRUE(std::filesystem::exists(files_->dir.Join("out/features-00000.safetensors")));
  const auto json = Features({"--draft", files_->head, "--json"}).json();
  EXPECT_EQ(json["pieces_kept"], 1);
  EXPECT_EQ(json["computed_tokens"], 0);
  EXPECT_EQ(json["layers"], (std::vector<int>{0, 1, 2}));
  EXPECT_THAT(Features({"--draft", files_->head}).out, HasSubstr("; 1 files were there\n"));
}

TEST_F(FeaturesCommandTest, LayersAreAList) {
  const Ran ran = Haast({"features", "--layers", "1,2", "--dtype", "f32", "--kv-dtype", "f32", "--prefill-chunk", "2", "--piece-mb", "1",
                         "--backend", "ref", files_->dir.Join("ids.jsonl"), files_->dir.Join("out"), "--model", files_->model});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ReadFile(files_->dir.Join("out/features.json")), HasSubstr("\"layers\": [1, 2],"));
  EXPECT_THAT(ReadFile(files_->dir.Join("out/features.json")),
              HasSubstr("\"dtype\": \"F32\",\n\"kv_dtype\": \"F32\",\n\"kernels\": \"ref\""));
}

TEST_F(FeaturesCommandTest, AnotherRunInTheFolderIsNamed) {
  std::filesystem::create_directory(files_->dir.Join("out"));
  const auto lock = base::FileLock::Take(files_->dir.Join("out/features.lock"));
  ASSERT_TRUE(lock);
  ExpectError(Features({"--layers", "1"}), kExitFile,
              "haast features: OUTPUT " + files_->dir.Join("out") + ": another run is writing features there: wait until it has ended");
}

TEST_F(FeaturesCommandTest, MistakesAreNamedByTheirFlag) {
  ExpectError(Features({}), kExitUsage, "features need --layers, or a head that reads some: --draft");
  ExpectError(Features({"--layers", "1", "--draft", files_->head}), kExitUsage, "--layers and --draft both say what is read");
  ExpectError(Features({"--layers", "9"}), kExitUsage, "--layers = 9: expected ascending layers, 0 to 3");
  for (const std::string layers : {"1,x", "1,,2", "1,2,", ",1", "", "2,1", "-1", "1 2", "1,99999999999"}) {
    ExpectError(Features({"--layers", layers}), kExitUsage,
                "--layers: expected whole numbers from 0 with a comma between two, none below the one before it, got '" + layers + "'");
  }
  ExpectError(Features({"--layers", "1", "--layers", "2"}), kExitUsage, "--layers");
  ExpectError(Features({"--draft", files_->other_head}), kExitFile, "--draft " + files_->other_head);
  Write("ids.jsonl", "{\"token_ids\": [99999]}\n");
  ExpectError(Features({"--layers", "1"}), kExitFile, "INPUT " + files_->dir.Join("ids.jsonl") + ":1: token_ids: expected a whole number");
  ExpectError(Haast({"features", files_->dir.Join("ids.jsonl")}), kExitUsage, "OUTPUT is required");
  EXPECT_FALSE(std::filesystem::exists(files_->dir.Join("out")));
}

}  // namespace
}  // namespace haast::cli::testing
