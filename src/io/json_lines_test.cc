#include "io/json_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"

namespace haast::io {
namespace {

using ::testing::ElementsAre;

// "NUMBER TEXT" or "NUMBER! MESSAGE" of each line, of `text` in parts of `part` bytes.
std::vector<std::string> Lines(std::string_view text, size_t part, int64_t most = 100) {
  std::vector<std::string> heard;
  JsonLines lines("a.jsonl", most, [&](const JsonLine& line) -> Status {
    EXPECT_EQ(line.where, fmt::format("a.jsonl:{}", line.number));
    heard.push_back(line.text ? fmt::format("{} {}", line.number, *line.text)
                              : fmt::format("{}! {}", line.number, line.text.error().message));
    return {};
  });
  for (size_t at = 0; at < text.size(); at += part) EXPECT_TRUE(lines.Take(text.substr(at, part)));
  EXPECT_TRUE(lines.Finish());
  return heard;
}

TEST(JsonLines, AreCutWhereverTheStreamIs) {
  for (const size_t part : {1, 2, 3, 7, 100}) {
    EXPECT_THAT(Lines("{1}\n\n  \r\n{22}\r\n{333}", part), ElementsAre("1 {1}", "4 {22}\r", "5 {333}")) << part;
    EXPECT_THAT(Lines("{1}\n", part), ElementsAre("1 {1}"));
    EXPECT_THAT(Lines("\n \n", part), ElementsAre());
  }
}

TEST(JsonLines, AByteOrderMarkIsNoPartOfALine) {
  for (const size_t part : {1, 2, 100}) {
    EXPECT_THAT(Lines("\xEF\xBB\xBF{1}\n{2}", part), ElementsAre("1 {1}", "2 {2}"));
    EXPECT_THAT(Lines("\xEF\xBB\xBF", part), ElementsAre()) << "an empty file";
    EXPECT_THAT(Lines("\xEF\xBB\xBF\r\n{2}", part), ElementsAre("2 {2}"));
    EXPECT_THAT(Lines("{1}\n\xEF\xBB\xBF\n{3}", part),
                ElementsAre("1 {1}",
                            "2! a.jsonl:2: expected a JSON object, got a byte-order mark alone, which belongs at the beginning of a file: "
                            "leave it out",
                            "3 {3}"));
  }
}

TEST(JsonLines, LongLinesAreNamedAndTheNextOnesRead) {
  for (const size_t part : {1, 5, 8, 100}) {
    EXPECT_THAT(Lines("{11111}\n{1234}\n{22222222222}\n{3}\n{444444}", part, 6),
                ElementsAre("1! a.jsonl:1: expected lines of at most 6 bytes, got a longer one", "2 {1234}",
                            "3! a.jsonl:3: expected lines of at most 6 bytes, got a longer one", "4 {3}",
                            "5! a.jsonl:5: expected lines of at most 6 bytes, got a longer one"))
        << part;
  }
}

TEST(JsonLines, ARefusedLineIsTheLastOne) {
  int64_t heard = 0;
  const Status status = ForEachJsonLine("{1}\n{2}\n{3}", "a.jsonl", 100, [&](const JsonLine& line) -> Status {
    ++heard;
    return line.number < 2 ? Status() : Err(ErrorCode::kInvalidFile, "{}: no", line.where);
  });
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "a.jsonl:2: no");
  EXPECT_EQ(heard, 2);
}

TEST(JsonLines, BlankOnesAreCounted) {
  JsonLines lines("a.jsonl", 10, [](const JsonLine&) { return Status(); });
  EXPECT_TRUE(lines.Take("\n{1}\n\n{2"));
  EXPECT_EQ(lines.count(), 3);
  EXPECT_TRUE(lines.Finish());
  EXPECT_EQ(lines.count(), 4);
}

}  // namespace
}  // namespace haast::io
