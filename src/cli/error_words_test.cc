// The engine's words in those of the command line.
#include "cli/error_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/flag_values.h"
#include "cli/program_harness.h"

namespace haast::cli {
namespace {

using ::testing::HasSubstr;

TEST(ErrorWordsTest, FieldsBecomeFlags) {
  EXPECT_EQ(WithFlagNames("max_context = 9: expected 0 to 8"), "--context = 9: expected 0 to 8");
  EXPECT_EQ(WithFlagNames("lower max_tokens or raise kv_tokens"), "lower --max-tokens or raise --kv-tokens");
  EXPECT_EQ(WithFlagNames("speculation.top_k = 16, speculation.depth = 6"), "--draft-top-k = 16, --draft-depth = 6");
  EXPECT_EQ(WithFlagNames("an EAGLE head (options.draft)"), "an EAGLE head (--draft)");
  EXPECT_EQ(WithFlagNames(""), "");
}

TEST(ErrorWordsTest, PathsQuotationsAndOtherWordsStay) {
  for (const char* message : {"/tmp/max_tokens/x: cannot open", "max_tokens: cannot open", "got {\"max_tokens\": 3}", "got 'kv_tokens'",
                              "my-kv_tokens", "num_max_tokens", "algorithm draft_model", "the depth"}) {
    EXPECT_EQ(WithFlagNames(message), message);
  }
}

// A renamed flag must be renamed in the table.
TEST(ErrorWordsTest, EveryFlagOfTheTableIsAFlag) {
  const haast::testing::TempDir dir;
  const std::string help = testing::RunHaast(dir, {"generate", "--help"}).out + testing::RunHaast(dir, {"bench", "--help"}).out +
                           testing::RunHaast(dir, {"features", "--help"}).out;
  for (const FieldFlag& each : kFieldFlags) EXPECT_THAT(help, HasSubstr("  " + std::string(each.flag))) << each.field;
}

TEST(ErrorWordsTest, PathsGetTheirFlag) {
  CLI::App app("", "haast test");
  std::string model, draft;
  std::vector<std::string> prompts;
  AddPath(app, "MODEL", model, "");
  AddPath(app, "--draft", draft, "");
  AddPath(app, "--prompts", prompts, "");
  app.parse(std::vector<std::string>{"b", "--prompts", "a", "--prompts", "folder/head", "--draft", "folder"});
  EXPECT_EQ(WithPathFlag(app, "folder: cannot open"), "MODEL folder: cannot open");
  EXPECT_EQ(WithPathFlag(app, "folder/head/config.json: missing"), "--draft folder/head/config.json: missing") << "the longest";
  EXPECT_EQ(WithPathFlag(app, "b:3: bad"), "--prompts b:3: bad");
  EXPECT_EQ(WithPathFlag(app, "other: bad"), "other: bad");
  EXPECT_EQ(WithPathFlag(app, "folder2: bad"), "folder2: bad");
}

}  // namespace
}  // namespace haast::cli
