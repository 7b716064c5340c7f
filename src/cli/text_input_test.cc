// Prompts, prompt files, lines, and what goes out again.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "cli/interrupt.h"
#include "cli/line_source.h"
#include "cli/output.h"
#include "cli/prompt_input.h"
#include "support/tiny_models.h"

namespace haast::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The reading end of a pipe that gives `text` and ends.
int PipeWith(const std::string& text) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  EXPECT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  return ends[0];
}

TEST(PromptTest, EmptyAndIllFormedPromptsAreRefused) {
  EXPECT_TRUE(CheckPrompt("grüße\n", "prompt").has_value());
  EXPECT_THAT(CheckPrompt("", "prompt").error().message, HasSubstr("prompt: the prompt is empty"));
  const Status bad = CheckPrompt(
      "ab\xff"
      "cd",
      "file.txt");
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(bad.error().message, HasSubstr("file.txt: expected UTF-8 text, got byte 0xff at offset 2"));
  EXPECT_THAT(CheckPrompt("ab\xe2\x82", "prompt").error().message, HasSubstr("got byte 0xe2 at offset 2"));
  EXPECT_THAT(CheckPrompt("\xef\xbf", "prompt").error().message, HasSubstr("offset 1"));  // begins like U+FFFD itself
}

TEST(PromptTest, FilesAndPipesAreReadWhole) {
  testing::TempDir dir;
  const std::string text(200000, 'x');
  std::ofstream(dir.Join("prompt")) << text;
  EXPECT_EQ(ReadTextFile(dir.Join("prompt"), ErrorCode::kInvalidFile).value(), text);
  EXPECT_EQ(ReadTextFile(dir.Join("none"), ErrorCode::kInvalidFile).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadTextFile(dir.path(), ErrorCode::kInvalidFile).error().code, ErrorCode::kIo);
  const int fd = PipeWith("hello");
  EXPECT_EQ(ReadAll(fd, "standard input", ErrorCode::kInvalidArgument).value(), "hello");
  close(fd);
  const Result<std::string> closed = ReadAll(-1, "standard input", ErrorCode::kInvalidArgument);
  EXPECT_EQ(closed.error().code, ErrorCode::kIo);
  EXPECT_THAT(closed.error().message, HasSubstr("standard input: reading failed: Bad file descriptor: expected text"));
}

TEST(PromptTest, EndlessInputIsRefused) {
  for (const ErrorCode too_long : {ErrorCode::kInvalidArgument, ErrorCode::kInvalidFile}) {
    const Result<std::string> text = ReadTextFile("/dev/zero", too_long);
    ASSERT_FALSE(text.has_value());
    EXPECT_EQ(text.error().code, too_long);
    EXPECT_THAT(text.error().message, HasSubstr("expected at most 16777216 bytes"));
  }
  EXPECT_EQ(ReadBenchPrompts("/dev/zero", 0).error().code, ErrorCode::kInvalidFile) << "as all that is wrong with a file of prompts";
}

TEST(BenchPromptsTest, FirstTurnsAreTaken) {
  const std::string text = "{\"turns\": [\"one\", \"more\"], \"id\": 3}\n\n  \r\n{\"turns\": [\"zwei \\u00e4\"]}\n{\"turns\": [\"three\"]}";
  const Result<std::vector<BenchPrompt>> all = ParseBenchPrompts(text, "p.jsonl", 0);
  ASSERT_TRUE(all.has_value()) << all.error().message;
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].first_turn, "one");
  EXPECT_EQ((*all)[1].first_turn, "zwei ä");
  EXPECT_EQ(ParseBenchPrompts(text, "p.jsonl", 2)->size(), 2u);
}

TEST(BenchPromptsTest, AByteOrderMarkIsNoPartOfAFile) {
  testing::TempDir dir;
  std::ofstream(dir.Join("p.jsonl")) << "\xEF\xBB\xBF{\"turns\": [\"one\"]}\n";
  const auto prompts = ReadBenchPrompts(dir.Join("p.jsonl"), 0);
  ASSERT_TRUE(prompts) << prompts.error().message;
  EXPECT_EQ((*prompts)[0].first_turn, "one");
  EXPECT_EQ(*ReadTextFile(dir.Join("p.jsonl"), ErrorCode::kInvalidFile), "{\"turns\": [\"one\"]}\n");
}

TEST(BenchPromptsTest, EveryMistakeNamesItsLine) {
  const auto message = [](const std::string& text) { return ParseBenchPrompts(text, "p.jsonl", 0).error().message; };
  EXPECT_THAT(message(""), HasSubstr("p.jsonl: expected lines of {\"turns\": [\"text\"]}, got none"));
  EXPECT_THAT(message("{\"turns\": [\"\\ud800\"]}\n"), HasSubstr("p.jsonl:1: "));
  EXPECT_THAT(message("{\"turns\": [\"\\ud800\"]}\n"), Not(HasSubstr("expected a JSON object, got {")));
  EXPECT_THAT(message("{\"turns\": [\"a\"]}\nnot json\n"), HasSubstr("p.jsonl:2: expected a JSON object, got not json"));
  EXPECT_THAT(message("[1]"), HasSubstr("p.jsonl:1: expected a JSON object"));
  EXPECT_THAT(message("{\"prompt\": \"a\"}"), HasSubstr("p.jsonl:1: turns: expected a value, got no such key"));
  EXPECT_THAT(message("{\"turns\": null}"), HasSubstr("p.jsonl:1: turns: expected a value, got null"));
  EXPECT_THAT(message("{\"turns\": [\"a\"]}\n\xEF\xBB\xBF\n"), HasSubstr("p.jsonl:2: expected a JSON object, got a byte-order mark"));
  EXPECT_THAT(message("\xEF\xBB\xBF"), HasSubstr("p.jsonl: expected lines of {\"turns\": [\"text\"]}, got none"));
  EXPECT_THAT(message("{\"turns\": []}"), HasSubstr("turns: expected a first text that is not empty, got an empty list"));
  EXPECT_THAT(message("{\"turns\": [4]}"), HasSubstr("turns: expected a list of strings, got one that holds 4"));
  EXPECT_THAT(message("{\"turns\": \"a\"}"), HasSubstr("turns: expected a list of strings, got the text \"a\""));
  EXPECT_THAT(message("{\"turns\": [\"\"]}"), HasSubstr("turns: expected a first text that is not empty, got an empty text"));
  EXPECT_THAT(message("\xff\xfe{"), HasSubstr("p.jsonl:1: expected a JSON object"));
  EXPECT_LT(message("{\"turns\": [" + std::string(9000, '1') + "]}").size(), 300u);
  EXPECT_LT(message(std::string(9000, 'x')).size(), 300u);
  EXPECT_EQ(ReadBenchPrompts("/nonexistent/p.jsonl", 0).error().code, ErrorCode::kNotFound);
}

TEST(PlainSourceTest, GivesLinesUntilTheEnd) {
  const int fd = PipeWith("first\r\n\nthird without end");
  const auto source = MakePlainSource(fd);
  EXPECT_EQ(source->Next()->text, "first");
  EXPECT_EQ(source->Next()->text, "");
  const Line last = *source->Next();
  EXPECT_EQ(last.kind, LineKind::kLine);
  EXPECT_EQ(last.text, "third without end");
  EXPECT_EQ(source->Next()->kind, LineKind::kEnd);
  EXPECT_EQ(source->Next()->kind, LineKind::kEnd);
  close(fd);
}

TEST(PlainSourceTest, EndlessLineIsAFailure) {
  const int fd = open("/dev/zero", O_RDONLY);
  const Result<Line> line = MakePlainSource(fd)->Next();
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(line.error().message, HasSubstr("expected lines of at most 16777216 bytes"));
  close(fd);
}

TEST(PlainSourceTest, InputThatCannotBeReadIsAFailure) {
  testing::TempDir dir;
  const int folder = open(dir.path().c_str(), O_RDONLY | O_DIRECTORY);
  const Result<Line> line = MakePlainSource(folder)->Next();
  close(folder);
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::kIo);
  EXPECT_THAT(line.error().message, HasSubstr("standard input: reading failed: Is a directory: expected text"));
}

// Before the wait and during it, on whatever thread the signal lands.
TEST(PlainSourceTest, AnInterruptIsNeverSleptThrough) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const auto source = MakePlainSource(ends[0]);
  {
    const InterruptScope interrupts;
    std::raise(SIGINT);
    EXPECT_EQ(source->Next()->kind, LineKind::kInterrupted);
    EXPECT_EQ(source->Next()->kind, LineKind::kInterrupted);
    InterruptScope::Clear();
    std::thread other([] { std::raise(SIGTERM); });
    EXPECT_EQ(source->Next()->kind, LineKind::kInterrupted);
    other.join();
    InterruptScope::Clear();
    EXPECT_EQ(write(ends[1], "line\n", 5), 5);
    EXPECT_EQ(source->Next()->text, "line");
    std::raise(SIGINT);
  }
  const InterruptScope again;
  EXPECT_FALSE(InterruptScope::Interrupted());
  EXPECT_EQ(write(ends[1], "more\n", 5), 5);
  EXPECT_EQ(source->Next()->text, "more");
  for (const int fd : ends) close(fd);
}

TEST(OutputTest, FailuresAreRememberedAndToldApart) {
  std::signal(SIGPIPE, SIG_IGN);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  Output closed(ends[1]);
  EXPECT_TRUE(closed.ok());
  EXPECT_FALSE(closed.Write("x"));
  EXPECT_FALSE(closed.Write("y"));
  EXPECT_TRUE(closed.reader_gone());
  close(ends[1]);

  const int full = open("/dev/full", O_WRONLY);
  Output disk(full);
  EXPECT_FALSE(disk.Write("x"));
  EXPECT_FALSE(disk.reader_gone());
  EXPECT_THAT(disk.status().error().message, HasSubstr("writing failed: No space left on device"));
  close(full);
}

}  // namespace
}  // namespace haast::cli
