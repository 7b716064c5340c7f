// The program without flags: the default model from the cache and the shipped head. `make test` fetches the model first.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/exit_code.h"
#include "cli/program_harness.h"

namespace haast::cli::testing {
namespace {

using ::testing::HasSubstr;

TEST(DefaultModelTest, AnswersWithItsHead) {
  const haast::testing::TempDir dir;
  const Ran on = RunHaast(dir, {"generate", "--json", "--logprobs", "0", "--max-tokens", "12", "hello"});
  ASSERT_EQ(on.code, kExitOk) << on.err;  // says how to fetch the model where it is missing
  EXPECT_THAT(on.json()["text"].get<std::string>(), HasSubstr("Hello"));
  EXPECT_EQ(on.json()["speculation"]["algorithm"], "eagle3");
  EXPECT_EQ(on.json()["speculation"]["automatic"], true);
  const Ran off = RunHaast(dir, {"generate", "--json", "--logprobs", "0", "--max-tokens", "12", "--no-speculation", "hello"});
  ASSERT_EQ(off.code, kExitOk) << off.err;
  EXPECT_EQ(on.json()["token_ids"], off.json()["token_ids"]);
  EXPECT_EQ(on.json()["logprobs"], off.json()["logprobs"]);
}

TEST(DefaultModelTest, HeadFits) {
  const haast::testing::TempDir dir;
  const Ran ran = RunHaast(dir, {"info", "--json"});
  ASSERT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(ran.json()["draft"]["fits"], true);
  EXPECT_EQ(ran.json()["vocab_size"], 49152);
}

}  // namespace
}  // namespace haast::cli::testing
