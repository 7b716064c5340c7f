#include "io/hf_text.h"

#include <gtest/gtest.h>

#include "support/expect_error.h"

namespace haast::io {
namespace {

constexpr auto kInvalid = ErrorCode::kInvalidFile;

TEST(HfText, TemplatesAndEnds) {
  HfTextFiles files;
  files.folder = "folder";
  files.tokenizer_json = R"({"added_tokens":[{"id":5,"content":"<end>"},{"id":"x"},3]})";
  files.config_json = R"({"bos_token_id":1,"eos_token_id":[2,3],"pad_token_id":-1})";
  files.generation_config_json = R"({"eos_token_id":4})";
  files.tokenizer_config_json =
      R"({"eos_token":{"content":"<end>"},"add_bos_token":true,"chat_template":[{"name":"tool_use","template":"T"},{"name":"default","template":"D"}]})";
  const auto text = ParseHfText(files);
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_EQ(text->eos_ids, (std::vector<int32_t>{2, 3, 4, 5}));
  EXPECT_EQ(text->bos_id, 1);
  EXPECT_EQ(text->pad_id, -1);
  EXPECT_TRUE(text->add_bos);
  EXPECT_FALSE(text->add_eos);
  EXPECT_EQ(text->chat_template, "D");
  files.chat_template_jinja = std::string("J");
  EXPECT_EQ(ParseHfText(files)->chat_template, "J");
  files.chat_template_jinja.clear();
  files.tokenizer_config_json = R"({"chat_template":"S"})";
  EXPECT_EQ(ParseHfText(files)->chat_template, "S");
  files.tokenizer_json.clear();
  EXPECT_TRUE(ParseHfText(files)->eos_ids.empty());
}

TEST(HfText, MalformedFilesAreNamed) {
  const HfTextFiles good{"folder", R"({"eos_token_id":2})", "", R"({"added_tokens":[]})", "", ""};
  const auto with = [&](std::string HfTextFiles::* member, std::string text) {
    HfTextFiles files = good;
    files.*member = std::move(text);
    return ParseHfText(files);
  };
  ASSERT_TRUE(ParseHfText(good));
  EXPECT_ERROR(with(&HfTextFiles::config_json, R"({"eos_token_id":"</s>"})"), kInvalid, "folder/config.json", "eos_token_id");
  EXPECT_ERROR(with(&HfTextFiles::generation_config_json, R"({"eos_token_id":[1,-2]})"), kInvalid, "folder/generation_config.json", "-2");
  EXPECT_ERROR(with(&HfTextFiles::generation_config_json, "{"), kInvalid, "folder/generation_config.json");
  EXPECT_ERROR(with(&HfTextFiles::tokenizer_config_json, R"({"chat_template":[{"name":"x"}]})"), kInvalid, "folder/tokenizer_config.json",
               "chat_template");
  EXPECT_ERROR(with(&HfTextFiles::tokenizer_config_json, R"({"add_bos_token":"yes"})"), kInvalid, "add_bos_token");
  EXPECT_ERROR(with(&HfTextFiles::tokenizer_config_json, R"({"eos_token":7})"), kInvalid, "eos_token");
  HfTextFiles broken = good;
  broken.tokenizer_config_json = R"({"eos_token":"x"})";
  broken.tokenizer_json = std::string("{");
  EXPECT_ERROR(ParseHfText(broken), kInvalid, "folder/tokenizer.json");
}

}  // namespace
}  // namespace haast::io
