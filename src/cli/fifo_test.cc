// FIFOs where flags name files: read once or written to a reader, else refused; never waited for in vain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <thread>

#include "cli/exit_code.h"
#include "cli/program_harness.h"

namespace haast::cli::testing {
namespace {

using ::testing::HasSubstr;

class FifoTest : public ProgramTest {
 protected:
  static std::string MakeFifo(const std::string& name) {
    std::string path = files_->dir.Join(name);
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    return path;
  }
  // A socket's name in the file system.
  static std::string MakeSocket(const std::string& name) {
    std::string path = files_->dir.Join(name);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0) << path;
    close(fd);
    return path;
  }
  static std::string Prompts() { return Write("p.jsonl", "{\"turns\": [\"one\"]}\n"); }
  static Args Bench() { return Args{"bench", "--no-steps", "--repeats", "1", "--max-tokens", "8", "--ignore-eos"} + files_->Flags(); }
};

// What is read more than once, or by its parts, is no FIFO, and is not waited for.
TEST_F(FifoTest, AFifoIsNoModelSessionOrFileOfCosts) {
  const std::string fifo = MakeFifo("fifo");
  const auto expect_refused = [&](const Args& args, const std::string& flag) {
    ExpectError(Haast(args + Args{flag, fifo}), kExitFile, flag + " " + fifo + ": expected a regular file, got a FIFO");
  };
  expect_refused({"generate", "hello"}, "--model");
  expect_refused({"generate", "hello", "--model", files_->model}, "--draft");
  expect_refused(Args{"generate", "--model", files_->model}, "--resume");
  expect_refused(Args{"bench", "--prompts", Write("p.jsonl", "{\"turns\": [\"one\"]}\n")} + files_->Flags(), "--costs");
}

TEST_F(FifoTest, APromptMayComeFromAFifo) {
  const std::string fifo = MakeFifo("prompt_fifo");
  std::thread writer([&] { std::ofstream(fifo) << "hello there\n"; });
  EXPECT_EQ(GenerateJson({"--file", fifo})["token_ids"], GenerateJson({"hello there"})["token_ids"]);
  writer.join();
}

TEST_F(FifoTest, PromptsOfAFifoAreReadOnce) {
  const std::string fifo = MakeFifo("prompts_fifo");
  ExpectError(Haast(Bench() + Args{"--prompts", fifo, "--prompts", fifo}), kExitUsage,
              "haast bench: --prompts " + fifo + ": a FIFO cannot be read twice: give it once, or a file with what it holds\n");
  const std::string link = files_->dir.Join("link");
  ASSERT_EQ(symlink(fifo.c_str(), link.c_str()), 0);
  ExpectError(Haast(Bench() + Args{"--prompts", fifo, "--prompts", Prompts(), "--prompts", link}), kExitUsage,
              "--prompts " + link + ": a FIFO cannot be read twice");
  std::thread writer([&] { std::ofstream(fifo) << "{\"turns\": [\"one\"]}\n"; });
  const Ran once = Haast(Bench() + Args{"--prompts", fifo, "--prompts", Prompts(), "--prompts", Prompts()});
  writer.join();
  EXPECT_EQ(once.code, kExitOk) << once.err;
}

TEST_F(FifoTest, OutputsAreFiles) {
  for (const auto& [path, kind] : {std::pair(MakeFifo("out_fifo"), "a FIFO"), {MakeSocket("out_socket"), "a socket"}}) {
    const std::string refused = path + ": expected a regular file or a new one, got " + kind;
    ExpectError(Generate({"--save", path, "hello"}), kExitFile, "--save " + refused);
    ExpectError(Haast(Bench() + Args{"--costs-out", path}), kExitFile, "--costs-out " + refused);
    ExpectError(Haast(Args{"features", Write("ids.jsonl", "{\"token_ids\": [1]}"), path, "--layers", "1", "--model", files_->model}),
                kExitFile, "OUTPUT " + path + ": cannot be made: ");
    ExpectError(Generate({"--preemption", "swap", "--swap-directory", path, "hello"}), kExitFile, "--swap-directory " + path);
    ExpectError(Generate({"--trace-metadata", path, "hello"}), kExitFile,
                "--trace-metadata " + path +
                    ": launch metadata cannot be written there: expected a file, or a FIFO that is being read, got " + kind);
  }
  ExpectError(Haast(Bench() + Args{"--prompts", Prompts(), "--trace-metadata", files_->dir.Join("out_socket")}), kExitFile,
              "out_socket: expected a regular file or a new one, got a socket");
}

TEST_F(FifoTest, ATraceMayGoToAReader) {
  const std::string fifo = MakeFifo("trace_fifo");
  Ran check;
  const haast::testing::TempDir other;  // of the standard streams
  std::thread reader([&] { check = RunHaast(other, {"check", fifo}); });
  Ran ran;
  do {  // until the reader is there
    ran = Generate({"--trace-metadata", fifo, "hello"});
  } while (ran.code == kExitFile);
  reader.join();
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(check.code, kExitOk) << check.err;
  EXPECT_THAT(check.out, HasSubstr(" launches, no violation"));
}

}  // namespace
}  // namespace haast::cli::testing
