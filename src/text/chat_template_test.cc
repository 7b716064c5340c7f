#include "text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "text/test_data.h"
#include "text/utf8.h"

namespace haast::text {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::unique_ptr<const ChatTemplate> Compile(std::string source, const TextAssets& base = SmollmGguf()) {
  TextAssets assets = base;
  assets.chat_template = std::move(source);
  auto compiled = ChatTemplate::Create(assets, SmollmTokenizer());
  EXPECT_TRUE(compiled.has_value()) << compiled.error().message;
  return compiled ? std::move(*compiled) : nullptr;
}

Error RenderError(const std::string& source, const std::string& messages = "[]") {
  auto compiled = Compile(source);
  if (compiled == nullptr) return {};
  auto text = compiled->Render(RenderInput{.messages_json = messages, .tools_json = {}, .variables_json = {}});
  EXPECT_FALSE(text.has_value()) << "expected an error, got: " << text->substr(0, 200);
  return text ? Error{} : text.error();
}

// The goldens' special tokens are given as variables: a golden names other tokens than the vocabulary of this test has.
TEST(ChatTemplateTest, RendersWhatTransformersRenders) {
  int refused = 0;
  const std::vector<Json> rows = ReadJsonLines("templates.jsonl");
  ASSERT_GT(rows.size(), 50u);
  for (const Json& row : rows) {
    SCOPED_TRACE(row["name"].get<std::string>());
    auto compiled = Compile(row["template"].get<std::string>());
    ASSERT_NE(compiled, nullptr);
    Json variables = row["specials"];
    variables.update(row["variables"]);
    const std::string messages = row["messages"].dump();
    const std::string tools = row["tools"].is_null() ? "" : row["tools"].dump();
    const std::string variables_json = variables.dump();
    auto text = compiled->Render(RenderInput{.messages_json = messages,
                                             .tools_json = tools,
                                             .variables_json = variables_json,
                                             .add_generation_prompt = row["add_generation_prompt"].get<bool>(),
                                             .local_seconds = row["local_seconds"].get<int64_t>()});
    if (row.contains("error")) {
      ++refused;
      ASSERT_FALSE(text.has_value()) << *text;
      EXPECT_EQ(text.error().code, ErrorCode::kInvalidArgument);
      if (row["error"] != "TypeError") {
        EXPECT_THAT(text.error().message, HasSubstr(row["error"].get<std::string>()));
      }
    } else {
      ASSERT_TRUE(text.has_value()) << text.error().message;
      EXPECT_EQ(*text, row["expected"].get<std::string>());
    }
  }
  EXPECT_GT(refused, 3);
}

TEST(ChatTemplateTest, SpecialTokensComeFromTheVocabulary) {
  TextAssets assets = SmollmGguf();
  assets.gguf.unknown_id = 0;
  auto compiled = Compile("{{ bos_token }}{{ eos_token }}{{ pad_token }}{{ unk_token }}", assets);
  EXPECT_EQ(compiled->Render(std::vector<ChatMessage>{}).value(), "<|im_start|><|im_end|><|im_end|><|endoftext|>");
  assets.bos_id = -1;
  assets.gguf.unknown_id = -1;
  EXPECT_EQ(Compile("{{ bos_token is defined }}", assets)->Render(std::vector<ChatMessage>{}).value(), "False");
}

TEST(ChatTemplateTest, MessagesKeepEveryCharacter) {
  auto compiled = Compile("{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}{{ add_generation_prompt }}");
  const std::string odd = "a\"\\\n\t\x01 é日😀 {{ 1 + 1 }} {% raw %} </s> " + std::string("\0", 1);
  EXPECT_EQ(compiled->Render(std::vector<ChatMessage>{{"user", odd}, {"assistant", "x"}}, false).value(),
            "user:" + odd + ";assistant:x;False");
  EXPECT_EQ(compiled->Render(std::vector<ChatMessage>{{"user", "\xFF\xE6\x97"}}).value(),
            "user:" + std::string(kReplacement) + std::string(kReplacement) + ";True");
}

TEST(ChatTemplateTest, TheClockIsAnArgument) {
  auto compiled = Compile("{{ strftime_now('%Y %B %d %H:%M:%S %-d') }}");
  const auto at = [&](int64_t seconds) {
    return compiled->Render(RenderInput{.messages_json = "[]", .tools_json = {}, .variables_json = {}, .local_seconds = seconds}).value();
  };
  EXPECT_EQ(at(0), "1970 January 01 00:00:00 1");
  EXPECT_EQ(at(951782400), "2000 February 29 00:00:00 29");
  EXPECT_THAT(at(-1), MatchesRegex("20[2-9][0-9] [A-Z][a-z]+ .*"));
}

TEST(ChatTemplateTest, RenderMayRunInSeveralThreads) {
  auto compiled = Compile("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}");
  std::vector<std::thread> threads;
  for (size_t i = 1; i <= 4; ++i) {
    threads.emplace_back([&, i] {
      const std::vector<ChatMessage> messages(i * 10, {"user", "x"});
      for (int round = 0; round < 10; ++round) EXPECT_EQ(compiled->Render(messages).value(), std::to_string(i * 10));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ChatTemplateTest, LongChatsFitTheLimits) {
  std::vector<ChatMessage> messages;
  for (int i = 0; i < 3000; ++i) messages.push_back({i % 2 == 0 ? "user" : "assistant", std::string(1500, 'x')});
  for (const Json& row : ReadJsonLines("templates.jsonl")) {
    const auto name = row["name"].get<std::string>();
    if (name != "qwen3/one" && name != "llama3/one" && name != "chatml/one") continue;
    auto text = Compile(row["template"].get<std::string>())->Render(messages);
    ASSERT_TRUE(text.has_value()) << name << ": " << text.error().message;
    EXPECT_GT(text->size(), 4500000u);
  }
}

TEST(ChatTemplateErrorTest, BadTemplates) {
  TextAssets assets = SmollmGguf();
  const auto create_error = [&](std::string source) {
    assets.chat_template = std::move(source);
    auto compiled = ChatTemplate::Create(assets, SmollmTokenizer());
    EXPECT_FALSE(compiled.has_value());
    return compiled ? Error{} : compiled.error();
  };
  EXPECT_EQ(create_error("").code, ErrorCode::kNotFound);
  EXPECT_THAT(create_error("").message, HasSubstr("smollm.gguf"));
  const Error unclosed = create_error("line one\n{% for x in messages %}");
  EXPECT_EQ(unclosed.code, ErrorCode::kInvalidFile);
  EXPECT_THAT(unclosed.message, HasSubstr("line 2"));
  for (const std::string& bad :
       {std::string("{{ "), std::string("{% nothing %}"), std::string("{{ 1 + }}"), std::string("\xFF"),
        "{{ " + std::string(100000, '(') + " }}", "{{ " + std::string(100000, '[') + " }}", std::string(5 << 20, 'x')}) {
    EXPECT_EQ(create_error(bad).code, ErrorCode::kInvalidFile) << bad.substr(0, 20) << ": " << create_error(bad).message;
  }
  std::string nested;
  for (int i = 0; i < 20000; ++i) nested += "{% if 1 %}";
  EXPECT_NE(create_error(nested).message, "");
}

TEST(ChatTemplateErrorTest, BadMessages) {
  EXPECT_EQ(RenderError("x", "{").code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(RenderError("x", "{}").message, HasSubstr("messages: expected a JSON array"));
  EXPECT_THAT(RenderError("x", "[\"\xFF\"]").message, HasSubstr("UTF-8"));
  EXPECT_EQ(RenderError("x", std::string(100000, '[')).code, ErrorCode::kInvalidArgument);
  auto compiled = Compile("x");
  EXPECT_FALSE(compiled->Render(RenderInput{.messages_json = "[]", .tools_json = "{}", .variables_json = {}}).has_value());
  EXPECT_FALSE(compiled->Render(RenderInput{.messages_json = "[]", .tools_json = {}, .variables_json = "[]"}).has_value());
}

TEST(ChatTemplateErrorTest, RaisedByTheTemplate) {
  const Error error = RenderError("{% macro f() %}{{ raise_exception('No such role: ' ~ 'x') }}{% endmacro %}{{ f() }}");
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("the chat template refuses these messages: No such role: x"));
  EXPECT_THAT(RenderError("{{ messages[0].content.nothing.more }}").message, HasSubstr("line 1"));
}

// Templates that would run or grow without end: each ends in an error, soon.
TEST(ChatTemplateErrorTest, HostileTemplates) {
  std::string doubling = "{% set x = 'aaaaaaaa' %}";
  for (int i = 0; i < 60; ++i) doubling += "{% set x = x ~ x %}";
  std::string sharing = "{% set x = [1] %}";
  for (int i = 0; i < 60; ++i) sharing += "{% set x = [x, x] %}";
  const std::string loop = "{% for a in range(10000) %}{% for b in range(10000) %}";
  const std::string end = "{% endfor %}{% endfor %}";
  const std::string deep = "{% set ns = namespace(x=[]) %}" + loop + "{% set ns.x = [ns.x] %}" + end;
  const std::vector<std::string> sources = {
      loop + loop + "x" + end + end,
      doubling + "{{ x }}",
      "{{ 'a' * 10000000000 }}",
      "{{ [0] * 10000000000 }}",
      sharing + "{{ x | tojson }}",
      sharing + "{{ x }}",
      sharing + "{{ x == x }}{{ x | string | length }}",
      "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}",
      "{% macro f(x) %}{{ f(x + 'y') ~ f(x) }}{% endmacro %}{{ f('') }}",
      deep + "{{ ns.x }}",
      "{% set ns = namespace(x='aaaa') %}" + loop + "{% set ns.x = ns.x | replace('a', 'aaaa') %}" + end,
      "{{ range(1000000000) | list }}",
      "{{ '%1000000000s' | format('x') }}",
      "{{ ('a\n' * 100000) | indent(1000000) }}",
      "{{ 'x' | center(2000000000) }}",
      "{{ strftime_now('%Q') }}",
      "{{ strftime_now('%') }}",
      "{% include 'chat template' %}",
      "{{ self.nothing() }}",
  };
  for (const std::string& source : sources) {
    EXPECT_NE(RenderError(source).message, "") << source.substr(0, 100);
  }
}

// A value that is nested very deeply, and then dropped, compared and copied, but not printed.
TEST(ChatTemplateErrorTest, DeepValuesDoNotOverflowTheStack) {
  const std::string deep =
      "{% set ns = namespace(x=[], y=[]) %}{% for a in range(400) %}{% for b in range(100) %}{% set ns.x = [ns.x] %}"
      "{% set ns.y = [ns.y] %}{% endfor %}{% endfor %}";
  for (const char* use : {"done", "{{ ns.x == ns.y }}", "{{ ns.x < ns.y }}", "{{ {'a': ns.x} | length }}",
                          "{{ [ns.x, ns.y] | unique | list | length }}", "{{ [ns.x, ns.y] | sort | length }}"}) {
    auto text = Compile(deep + use)->Render(std::vector<ChatMessage>{});
    EXPECT_TRUE(text.has_value() || !text.error().message.empty()) << use;
  }
}

}  // namespace
}  // namespace haast::text
