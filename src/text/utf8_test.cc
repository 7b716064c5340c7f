#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>

namespace haast::text {
namespace {

const std::string kFffd(kReplacement);

TEST(Utf8Test, WellFormed) {
  for (const char* text : {"", "a", "é", "日本", "😀", "\xED\x9F\xBF", "\xEE\x80\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << text;
    EXPECT_EQ(ToValidUtf8(text), text);
  }
  EXPECT_TRUE(IsValidUtf8(std::string("\0x", 2)));
}

// The examples of Unicode 15, tables 3-8 to 3-11, and their neighbours.
TEST(Utf8Test, MaximalSubparts) {
  const std::pair<std::string, std::string> cases[] = {
      {"\x80", kFffd},
      {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + "A"},
      {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + kFffd + "A"},
      {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", kFffd + kFffd + kFffd + kFffd + kFffd + "A" + kFffd + kFffd + "B"},
      {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", kFffd + kFffd + kFffd + kFffd + "A"},
      {"a\xE6\x97", "a" + kFffd},
      {"\xF0\x9F\x98", kFffd},
      {"\xF5\xFF\xC1", kFffd + kFffd + kFffd},
  };
  for (const auto& [bytes, text] : cases) {
    EXPECT_FALSE(IsValidUtf8(bytes));
    EXPECT_EQ(ToValidUtf8(bytes), text) << testing::PrintToString(bytes);
  }
}

// Bytes that make ill-formed and unfinished characters likely.
std::string RandomBytes(std::mt19937& random) {
  static const std::string kBytes("a\x7F\x80\x9F\xA0\xBF\xC2\xDF\xE0\xE6\xED\xEF\xF0\xF3\xF4\xF5\xFF");
  std::string bytes(random() % 12, '\0');
  for (char& byte : bytes) byte = kBytes[random() % kBytes.size()];
  return bytes;
}

TEST(Utf8Test, StreamEqualsWhole) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const std::string bytes = RandomBytes(random);
    Utf8Stream stream;
    std::string text;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = std::min(bytes.size() - at, size_t{1} + random() % 5);
      stream.Push(std::string_view(bytes).substr(at, length), &text);
      ASSERT_TRUE(IsValidUtf8(text));
      ASSERT_LE(stream.pending(), 3u);
      at += length;
    }
    stream.Finish(&text);
    ASSERT_EQ(text, ToValidUtf8(bytes)) << testing::PrintToString(bytes);
    ASSERT_EQ(stream.pending(), 0u);
  }
}

TEST(Utf8Test, ACharacterComesWithItsLastByte) {
  Utf8Stream stream;
  std::string text;
  for (const char byte : std::string("\xF0\x9F\x98")) stream.Push({&byte, 1}, &text);
  EXPECT_EQ(text, "");
  EXPECT_EQ(stream.pending(), 3u);
  stream.Push("\x80!", &text);
  EXPECT_EQ(text, "😀!");
}

}  // namespace
}  // namespace haast::text
