#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

#include "text/test_data.h"
#include "text/utf8.h"

namespace haast::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<int32_t> Ids(const Json& json) { return json.get<std::vector<int32_t>>(); }

std::vector<int32_t> MustEncode(const Tokenizer& tokenizer, std::string_view text, bool parse_special) {
  auto ids = tokenizer.Encode(text, parse_special);
  EXPECT_TRUE(ids.has_value()) << ids.error().message;
  return ids.value_or(std::vector<int32_t>{-1});
}

Error CreateError(const TextAssets& assets) {
  auto tokenizer = Tokenizer::Create(assets);
  EXPECT_FALSE(tokenizer.has_value()) << "expected an error";
  return tokenizer ? Error{} : tokenizer.error();
}

void ExpectSmollmGoldens(const Tokenizer& tokenizer) {
  const std::vector<Json> rows = ReadJsonLines("smollm_tokens.jsonl");
  ASSERT_EQ(rows.size(), 288u);
  for (const Json& row : rows) {
    const auto text = row["text"].get<std::string>();
    const std::vector<int32_t> ids = Ids(row["ids"]);
    EXPECT_EQ(MustEncode(tokenizer, text, true), ids) << row;
    EXPECT_EQ(MustEncode(tokenizer, text, false), row.contains("ids_plain") ? Ids(row["ids_plain"]) : ids) << row;
  }
}

TEST(TokenizerTest, GgufVocabularyGivesHuggingFaceIds) { ExpectSmollmGoldens(SmollmTokenizer()); }

TEST(TokenizerTest, TokenizerJsonGivesHuggingFaceIds) {
  auto tokenizer = Tokenizer::Create(SmollmJson());
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  ExpectSmollmGoldens(**tokenizer);
  EXPECT_EQ((*tokenizer)->vocab_size(), 49152);
  EXPECT_TRUE((*tokenizer)->IsSpecial(16));
  EXPECT_FALSE((*tokenizer)->IsSpecial(17));
}

TEST(TokenizerTest, PreTokenizersByNameGiveHuggingFaceIds) {
  TextAssets assets = SmollmGguf();
  std::unique_ptr<const Tokenizer> tokenizer;
  int names = 0;
  for (const Json& row : ReadJsonLines("pretokenizer.jsonl")) {
    const auto pre = row["pre"].get<std::string>();
    if (tokenizer == nullptr || assets.gguf.pre != pre) {
      assets.gguf.pre = pre;
      auto created = Tokenizer::Create(assets);
      ASSERT_TRUE(created.has_value()) << created.error().message;
      tokenizer = std::move(*created);
      ++names;
    }
    EXPECT_EQ(MustEncode(*tokenizer, row["text"].get<std::string>(), true), Ids(row["ids"])) << row;
  }
  EXPECT_EQ(names, 10);
}

TEST(TokenizerTest, SentencePieceVocabularyGivesItsLibrarysIds) {
  for (const TextAssets& assets : {SpmGguf(), SpmJson()}) {
    auto tokenizer = Tokenizer::Create(assets);
    ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
    for (const Json& row : ReadJsonLines("spm_tokens.jsonl")) {
      const bool special = row.contains("special");
      EXPECT_EQ(MustEncode(**tokenizer, row["text"].get<std::string>(), special), Ids(row["ids"])) << assets.source << " " << row;
      EXPECT_EQ((*tokenizer)->Decode(Ids(row["ids"]), true), row["decoded"].get<std::string>()) << assets.source << " " << row;
    }
    EXPECT_THAT(*(*tokenizer)->EncodePrompt("", true), ElementsAre(1));
    EXPECT_THAT(*(*tokenizer)->EncodePrompt("the", true), ElementsAre(1, MustEncode(**tokenizer, "the", true)[0]));
  }
}

TEST(TokenizerTest, SentencePieceSpecialsCutTheText) {
  const Tokenizer& tokenizer = SpmTokenizer();
  const int32_t user = tokenizer.TokenToId("<|user|>").value_or(-1);
  ASSERT_TRUE(tokenizer.IsSpecial(user));
  std::vector<int32_t> expected = {user};
  for (const int32_t id : MustEncode(tokenizer, "the bridge", true)) expected.push_back(id);
  expected.push_back(tokenizer.eos_ids()[0]);
  EXPECT_EQ(MustEncode(tokenizer, "<|user|>the bridge</s>", true), expected);
  EXPECT_GT(MustEncode(tokenizer, "<|user|>the bridge</s>", false).size(), expected.size());
  // A user-defined token is text that the vocabulary always keeps whole.
  const int32_t tool = tokenizer.TokenToId("<tool>").value_or(-1);
  EXPECT_FALSE(tokenizer.IsSpecial(tool));
  EXPECT_EQ(MustEncode(tokenizer, "<tool>", false).back(), tool);
}

TEST(TokenizerTest, ByteFallbackTokensAreBytes) {
  const Tokenizer& tokenizer = SpmTokenizer();
  const int32_t first = tokenizer.TokenToId("<0x00>").value_or(-1);
  ASSERT_GE(first, 0);
  for (int byte = 0; byte < 256; ++byte) EXPECT_EQ(tokenizer.TokenBytes(first + byte), std::string(1, static_cast<char>(byte)));
  const std::vector<int32_t> half = {first + 0xE6, first + 0x97};
  EXPECT_EQ(tokenizer.Decode(half, true), kReplacement);
}

TEST(TokenizerTest, TableNamesEveryToken) {
  const Tokenizer& tokenizer = SmollmTokenizer();
  ASSERT_EQ(tokenizer.vocab_size(), 49152);
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    ASSERT_EQ(tokenizer.TokenToId(tokenizer.TokenText(id)), id);
    ASSERT_EQ(tokenizer.IsSpecial(id), id < 17);
  }
  EXPECT_EQ(tokenizer.TokenText(252), "Ġt");
  EXPECT_EQ(tokenizer.TokenBytes(252), " t");
  EXPECT_EQ(tokenizer.TokenBytes(1), "<|im_start|>");
  EXPECT_FALSE(tokenizer.TokenToId("no such token").has_value());
  EXPECT_TRUE(tokenizer.IsEos(2));
  EXPECT_TRUE(tokenizer.IsEos(0));
  EXPECT_FALSE(tokenizer.IsEos(1));
}

TEST(TokenizerTest, IdsOutsideTheVocabularyHaveNoText) {
  const Tokenizer& tokenizer = SmollmTokenizer();
  for (const int32_t id : {-1, 49152, INT32_MAX, INT32_MIN}) {
    EXPECT_THAT(tokenizer.TokenBytes(id), IsEmpty());
    EXPECT_THAT(tokenizer.TokenText(id), IsEmpty());
    EXPECT_FALSE(tokenizer.IsSpecial(id));
    EXPECT_EQ(tokenizer.Decode(std::vector<int32_t>{id}, false), "");
  }
}

TEST(TokenizerTest, DecodeGivesTheTextBack) {
  const Tokenizer& tokenizer = SmollmTokenizer();
  int exact = 0;
  for (const Json& row : ReadJsonLines("smollm_tokens.jsonl")) {
    // Some bytes are in no token of this vocabulary (Hugging Face drops them too), so not every text survives.
    const auto text = row["text"].get<std::string>();
    exact += tokenizer.Decode(Ids(row["ids"]), false) == text;
  }
  EXPECT_GT(exact, 270);
  const std::vector<int32_t> chat = MustEncode(tokenizer, "<|im_start|>user\nHi<|im_end|>", true);
  EXPECT_EQ(tokenizer.Decode(chat, true), "user\nHi");
  EXPECT_EQ(tokenizer.Decode(chat, false), "<|im_start|>user\nHi<|im_end|>");
}

TEST(TokenizerTest, RandomBytesNeverCrash) {
  std::mt19937 random(7);
  for (const Tokenizer* tokenizer : {&SmollmTokenizer(), &SpmTokenizer()}) {
    for (int round = 0; round < 300; ++round) {
      std::string bytes(random() % 200, '\0');
      for (char& byte : bytes) byte = static_cast<char>(random());
      EXPECT_EQ(tokenizer->Encode(bytes, round % 2 == 0).has_value(), IsValidUtf8(bytes));
      const std::string text = ToValidUtf8(bytes);
      const std::vector<int32_t> ids = MustEncode(*tokenizer, text, round % 2 == 0);
      EXPECT_TRUE(IsValidUtf8(tokenizer->Decode(ids, false)));
      if (tokenizer == &SpmTokenizer()) {
        EXPECT_EQ(tokenizer->Decode(ids, false), text);
      }
    }
  }
}

TEST(TokenizerTest, LongTexts) {
  const Tokenizer& tokenizer = SmollmTokenizer();
  // One word, one run of spaces: both are single pieces for the pre-tokenizer.
  for (const char c : {'a', ' ', '\n', '1'}) {
    const std::string text(1 << 18, c);
    EXPECT_EQ(tokenizer.Decode(MustEncode(tokenizer, text, true), false), text);
  }
  auto too_long = tokenizer.Encode(std::string(Tokenizer::kMaxTextBytes + 1, 'a'), true);
  ASSERT_FALSE(too_long.has_value());
  EXPECT_EQ(too_long.error().code, ErrorCode::kInvalidArgument);
}

TEST(TokenizerTest, ConstMethodsMayRunAtOnce) {
  const Tokenizer& tokenizer = SmollmTokenizer();
  const std::vector<int32_t> expected = MustEncode(tokenizer, "The tide turns at noon.", true);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 20; ++round) EXPECT_EQ(tokenizer.Encode("The tide turns at noon.", true).value(), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(TokenizerTest, EncodePromptFollowsTheFlags) {
  TextAssets assets = SmollmGguf();
  assets.add_bos = true;
  assets.add_eos = true;
  auto tokenizer = Tokenizer::Create(assets);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_THAT((*tokenizer)->EncodePrompt(" t", true).value(), ElementsAre(1, 252, 2));
  EXPECT_THAT((*tokenizer)->Encode(" t", true).value(), ElementsAre(252));
  EXPECT_FALSE((*tokenizer)->EncodePrompt("\xFF", true).has_value());
}

TEST(TokenizerTest, TrainingSettingsAreIgnored) {
  TextAssets assets = SmollmJson();
  nlohmann::json json = nlohmann::json::parse(assets.tokenizer_json);
  json["truncation"] = {{"direction", "Right"}, {"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  json["padding"] = {{"strategy", {{"Fixed", 1000000000000}}},
                     {"direction", "Right"},
                     {"pad_to_multiple_of", nullptr},
                     {"pad_id", 0},
                     {"pad_type_id", 0},
                     {"pad_token", "x"}};
  json["model"]["dropout"] = 0.9;
  assets.tokenizer_json = json.dump();
  auto tokenizer = Tokenizer::Create(assets);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  const std::string text = "The tide turns at noon, and the boats turn with it.";
  EXPECT_EQ((*tokenizer)->Encode(text, true).value(), MustEncode(SmollmTokenizer(), text, true));
}

TEST(TokenizerErrorTest, DamagedTokenizerJson) {
  TextAssets assets = SpmJson();
  const std::string good = assets.tokenizer_json;
  for (const std::string& bad :
       {std::string("{"), std::string("[]"), std::string("null"), std::string("\xFF\xFE"), good.substr(0, good.size() / 2),
        std::string(100000, '['), "{\"version\":\"1.0\",\"model\":" + std::string(5000, '[') + "}"}) {
    assets.tokenizer_json = bad;
    const Error error = CreateError(assets);
    EXPECT_EQ(error.code, ErrorCode::kInvalidFile) << error.message;
    EXPECT_THAT(error.message, HasSubstr("spm/tokenizer.json"));
  }
}

TEST(TokenizerErrorTest, MutatedTokenizerJsonNeverCrashes) {
  TextAssets assets = SpmJson();
  const std::string good = assets.tokenizer_json;
  std::mt19937 random(11);
  int created = 0;
  for (int round = 0; round < 200; ++round) {
    assets.tokenizer_json = good;
    for (int change = 0; change < 3; ++change) {
      const size_t at = random() % good.size();
      assets.tokenizer_json[at] = static_cast<char>(32 + random() % 95);
    }
    auto tokenizer = Tokenizer::Create(assets);
    if (!tokenizer) continue;
    ++created;
    (void)(*tokenizer)->Encode("The river runs past <tool> 10\n日本", true);
    (void)(*tokenizer)->Decode(std::vector<int32_t>{1, 2, 300, 400}, false);
  }
  EXPECT_GT(created, 0);
}

TEST(TokenizerErrorTest, HostileTokenizerJson) {
  struct Case {
    const char* what;
    std::function<void(Json&)> change;
    ErrorCode code;
    const char* message;
  };
  const Json wordpiece = {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}};
  const std::vector<Case> cases = {
      {"an id that would need a table of gigabytes", [](Json& json) { json["model"]["vocab"]["far"] = 4000000000u; },
       ErrorCode::kInvalidFile, "expected 1 to"},
      {"a decoder without bytes", [&](Json& json) { json["decoder"] = wordpiece; }, ErrorCode::kUnsupported, "WordPiece"},
      {"no decoder", [](Json& json) { json["decoder"] = nullptr; }, ErrorCode::kUnsupported, "none"},
      {"a merge of tokens that do not exist", [](Json& json) { json["model"]["merges"].push_back({"q", "\x01"}); }, ErrorCode::kInvalidFile,
       "not a tokenizer.json"},
      {"a pattern that compiles to gigabytes",
       [](Json& json) {
         json["pre_tokenizer"] = {
             {"type", "Split"}, {"pattern", {{"Regex", "(?:\\p{L}{1000}){1000}"}}}, {"behavior", "Isolated"}, {"invert", false}};
       },
       ErrorCode::kInvalidFile, "not a tokenizer.json"},
  };
  for (const Case& c : cases) {
    TextAssets assets = SpmJson();
    Json json = Json::parse(assets.tokenizer_json);
    c.change(json);
    assets.tokenizer_json = json.dump();
    SCOPED_TRACE(c.what);
    const Error error = CreateError(assets);
    EXPECT_THAT(error.message, HasSubstr(c.message));
    EXPECT_TRUE(error.code == c.code || error.code == ErrorCode::kInvalidFile) << c.what << ": " << error.message;
  }
}

// Patterns that backtrack without end give up; the text is still tokenised, or refused.
TEST(TokenizerErrorTest, PatternsThatBacktrack) {
  for (const char* pattern : {"(?:(?=a)b){9999}{9999}{9999}", "(?:a|a)*(?=c)b", "(a*)*\\1(?!a)c"}) {
    TextAssets assets = SpmJson();
    Json json = Json::parse(assets.tokenizer_json);
    json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
    assets.tokenizer_json = json.dump();
    auto tokenizer = Tokenizer::Create(assets);
    if (!tokenizer) continue;
    auto ids = (*tokenizer)->Encode(std::string(200, 'a'), true);
    EXPECT_TRUE(!ids.has_value() || !ids->empty()) << pattern;
  }
}

// Each step multiplies the text by the length of its content: the memory limit ends it.
TEST(TokenizerErrorTest, NormalizersThatExplode) {
  TextAssets assets = SpmJson();
  Json json = Json::parse(assets.tokenizer_json);
  Json steps = Json::array();
  for (int i = 0; i < 6; ++i) {
    steps.push_back({{"type", "Replace"}, {"pattern", {{"String", "z"}}}, {"content", std::string(1000, 'z')}});
  }
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", steps}};
  assets.tokenizer_json = json.dump();
  auto tokenizer = Tokenizer::Create(assets);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_TRUE((*tokenizer)->Encode("the boat", true).has_value());
  auto ids = (*tokenizer)->Encode("z", true);
  ASSERT_FALSE(ids.has_value());
  EXPECT_THAT(ids.error().message, HasSubstr("memory"));
  EXPECT_FALSE((*tokenizer)->Encode("the boat", true).has_value()) << "a file that exhausted its limit serves no more";
}

TEST(TokenizerErrorTest, GgufVocabularies) {
  struct Case {
    std::function<void(TextAssets&)> change;
    ErrorCode code;
    const char* message;
  };
  const std::vector<Case> cases = {
      {[](TextAssets& a) { a.gguf.tokens.clear(); }, ErrorCode::kInvalidFile, "token_type"},
      {[](TextAssets& a) { a.gguf = {}; }, ErrorCode::kNotFound, "expected a vocabulary"},
      {[](TextAssets& a) { a.gguf.model = std::string("bert"); }, ErrorCode::kUnsupported, "\"gpt2\" or \"llama\", got \"bert\""},
      {[](TextAssets& a) { a.gguf.pre = std::string("no-such-rule"); }, ErrorCode::kUnsupported, "no-such-rule"},
      {[](TextAssets& a) { a.gguf.tokens[300] = a.gguf.tokens[299]; }, ErrorCode::kInvalidFile, "every token once"},
      {[](TextAssets& a) { a.gguf.tokens[300] = std::string(1, '\xFF'); }, ErrorCode::kInvalidFile,
       "tokenizer.ggml.tokens[300]: expected UTF-8"},
      {[](TextAssets& a) { a.gguf.merges[5] = std::string("ab"); }, ErrorCode::kInvalidFile, "tokenizer.ggml.merges[5]"},
      {[](TextAssets& a) { a.gguf.merges[5] = std::string("a nothing"); }, ErrorCode::kInvalidFile, "tokenizer.ggml.merges"},
      {[](TextAssets& a) { a.gguf.types.pop_back(); }, ErrorCode::kInvalidFile, "token_type: expected 49152 values"},
      {[](TextAssets& a) { a.gguf.model = std::string("llama"); }, ErrorCode::kInvalidFile, "tokenizer.ggml.scores"},
      {[](TextAssets& a) { a.eos_ids = {49152}; }, ErrorCode::kInvalidFile, "special token id 49152: expected 0 to 49151"},
      {[](TextAssets& a) { a.bos_id = 1 << 30; }, ErrorCode::kInvalidFile, "special token id"},
  };
  for (const Case& c : cases) {
    TextAssets assets = SmollmGguf();
    c.change(assets);
    const Error error = CreateError(assets);
    EXPECT_EQ(error.code, c.code) << error.message;
    EXPECT_THAT(error.message, HasSubstr(c.message));
    EXPECT_THAT(error.message, HasSubstr("smollm.gguf"));
  }
}

TEST(TokenizerTest, GgufPaddingEntries) {
  TextAssets assets = SpmGguf();
  for (const auto& [token, type] : {std::pair{"", 5}, {"", 5}, {"[PAD482]", 5}}) {
    assets.gguf.tokens.emplace_back(token);
    assets.gguf.types.push_back(type);
    assets.gguf.scores.push_back(-1e9f);
  }
  auto tokenizer = Tokenizer::Create(assets);
  ASSERT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->vocab_size(), 483);
  EXPECT_EQ(MustEncode(**tokenizer, "the bridge", true), MustEncode(SpmTokenizer(), "the bridge", true));
}

}  // namespace
}  // namespace haast::text
