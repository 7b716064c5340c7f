#include "text/stream_decoder.h"

#include <gtest/gtest.h>

#include <random>

#include "text/test_data.h"

namespace haast::text {
namespace {

std::string Streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool skip_special) {
  StreamDecoder decoder(tokenizer, skip_special);
  std::string text;
  for (const int32_t id : ids) {
    const std::string piece = decoder.Push(id);
    EXPECT_TRUE(IsValidUtf8(piece));
    text += piece;
  }
  return text + decoder.Finish();
}

TEST(StreamDecoderTest, EqualsWholeDecodeForRandomTokens) {
  std::mt19937 random(3);
  for (const Tokenizer* tokenizer : {&SmollmTokenizer(), &SpmTokenizer()}) {
    for (int round = 0; round < 1500; ++round) {
      std::vector<int32_t> ids(random() % 24);
      // Mostly low ids: they are the single bytes and the special tokens, where characters break.
      const int32_t limit = round % 3 == 0 ? tokenizer->vocab_size() + 2 : 280;
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % limit) - 1;
      const bool skip = round % 2 == 0;
      ASSERT_EQ(Streamed(*tokenizer, ids, skip), tokenizer->Decode(ids, skip)) << testing::PrintToString(ids);
    }
  }
}

TEST(StreamDecoderTest, EqualsWholeDecodeForRealText) {
  for (const Json& row : ReadJsonLines("smollm_tokens.jsonl")) {
    const auto ids = row["ids"].get<std::vector<int32_t>>();
    EXPECT_EQ(Streamed(SmollmTokenizer(), ids, false), SmollmTokenizer().Decode(ids, false));
  }
  for (const Json& row : ReadJsonLines("spm_tokens.jsonl")) {
    EXPECT_EQ(Streamed(SpmTokenizer(), row["ids"], true), row["decoded"].get<std::string>());
  }
}

TEST(StreamDecoderTest, HoldsAnUnfinishedCharacterAndItsCopyIsIndependent) {
  const std::vector<int32_t> ids = SmollmTokenizer().Encode("\u2003", true).value();  // two tokens: three bytes
  ASSERT_EQ(ids.size(), 2u);
  StreamDecoder decoder(SmollmTokenizer(), true);
  EXPECT_EQ(decoder.Push(ids[0]), "");
  StreamDecoder snapshot = decoder;
  EXPECT_EQ(decoder.Push(ids[1]), "\u2003");
  EXPECT_EQ(decoder.Finish(), "");
  EXPECT_EQ(snapshot.Finish(), kReplacement);
  EXPECT_EQ(snapshot.Push(252), " t");
}

TEST(StreamDecoderTest, OnlyTheFirstPieceLosesItsSpace) {
  const Tokenizer& tokenizer = SpmTokenizer();
  const int32_t the = tokenizer.TokenToId("▁the").value();
  const int32_t user = tokenizer.TokenToId("<|user|>").value();
  EXPECT_EQ(Streamed(tokenizer, {the, the}, true), "the the");
  EXPECT_EQ(Streamed(tokenizer, {user, the}, true), "the");
  EXPECT_EQ(Streamed(tokenizer, {user, the}, false), "<|user|> the");
  StreamDecoder decoder(tokenizer, true);
  EXPECT_EQ(decoder.Push(the), "the");
  EXPECT_EQ(decoder.Finish(), "");
  EXPECT_EQ(decoder.Push(the), "the") << "Finish begins a new text";
}

}  // namespace
}  // namespace haast::text
