// The program as a process: signals, a terminal, a reader that goes away, and the embedding example. HAAST_PROGRAM and
// EMBED_PROGRAM are their paths.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "cli/exit_code.h"
#include "cli/program_harness.h"

namespace haast::cli::testing {
namespace {

using ::testing::HasSubstr;

// A child whose standard streams are one terminal, or pipes.
class Child {
 public:
  enum class Streams { kTerminal, kPipe };

  Child(const Args& argv, const Args& environment, Streams streams) {
    int ends[2] = {-1, -1};
    if (streams == Streams::kTerminal) {
      pid_ = forkpty(&fd_, nullptr, nullptr, nullptr);
    } else {
      EXPECT_EQ(pipe(ends), 0);
      fd_ = ends[0];
      pid_ = fork();
    }
    if (pid_ == 0) {
      if (ends[0] >= 0) close(ends[0]);  // else the child would be its own reader
      Exec(argv, environment, ends[1]);
    }
    if (ends[1] >= 0) close(ends[1]);
  }
  ~Child() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      Wait();
    }
    CloseReader();
  }

  void CloseReader() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  void Type(const std::string& text) { EXPECT_EQ(write(fd_, text.data(), text.size()), static_cast<ssize_t>(text.size())); }
  void Signal(int signal) { kill(pid_, signal); }

  // Reads until `part` has come (true), or the output ends or nothing comes for a minute (false).
  bool ReadUntil(const std::string& part) {
    const size_t begin = searched_;
    while (output_.find(part, begin) == std::string::npos) {
      if (!ReadSome()) return false;
    }
    searched_ = output_.find(part, begin) + part.size();
    return true;
  }

  // Exit code; 128 + signal where a signal ended it. One that does not end within a minute after its last output is killed.
  int Wait() {
    while (fd_ >= 0 && ReadSome()) {
    }
    pollfd ended{.fd = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)), .events = POLLIN, .revents = 0};
    if (poll(&ended, 1, kPatienceMs) <= 0) Signal(SIGKILL);
    close(ended.fd);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  const std::string& output() const { return output_; }

 private:
  static constexpr int kPatienceMs = 60000;

  bool ReadSome() {
    pollfd ready{.fd = fd_, .events = POLLIN, .revents = 0};
    char bytes[4096];
    if (poll(&ready, 1, kPatienceMs) <= 0) return false;
    const ssize_t got = read(fd_, bytes, sizeof(bytes));
    if (got > 0) output_.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  [[noreturn]] static void Exec(const Args& argv, const Args& environment, int out) {
    if (out >= 0) {
      dup2(out, STDOUT_FILENO);
      dup2(out, STDERR_FILENO);
      dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
    }
    for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
    std::vector<char*> pointers;
    for (const std::string& arg : argv) pointers.push_back(const_cast<char*>(arg.c_str()));
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(99);
  }

  pid_t pid_ = -1;
  int fd_ = -1;
  std::string output_;
  size_t searched_ = 0;
};

class ProcessTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { files_ = new TinyFiles(); }
  static void TearDownTestSuite() {
    delete files_;
    files_ = nullptr;
  }

  // The cache is in the test's own folder.
  static Child Haast(const Args& args, Child::Streams streams, const Args& environment = {}) {
    return Child(Args{HAAST_PROGRAM} + args,
                 Args{"XDG_CACHE_HOME=" + files_->dir.Join("cache"), "TERM=xterm", "LC_ALL=C.UTF-8"} + environment, streams);
  }
  // An answer that does not end by itself within the test.
  static Args Endless() { return Args{"--backend", "ref", "--max-tokens", "1000000", "--ignore-eos", "--kv-dtype", "f32"}; }

  static TinyFiles* files_;
};
TinyFiles* ProcessTest::files_ = nullptr;

TEST_F(ProcessTest, MissingDefaultModelNamesTheRemedy) {
  Child child = Haast({"generate", "hello"}, Child::Streams::kPipe);
  EXPECT_TRUE(child.ReadUntil("make model")) << child.output();
  EXPECT_THAT(child.output(), HasSubstr(files_->dir.Join("cache/haast/SmolLM2-135M-Instruct.Q4_1.gguf")));
  EXPECT_EQ(child.Wait(), kExitFile);
}

TEST_F(ProcessTest, SigintEndsTheAnswerWithItsStatistics) {
  Child child = Haast(Args{"generate", "--show-drafts", "hello"} + files_->Flags() + Endless(), Child::Streams::kPipe);
  ASSERT_TRUE(child.ReadUntil("own token\n")) << child.output();  // the legend
  child.Signal(SIGINT);
  EXPECT_TRUE(child.ReadUntil("finished: ")) << child.output();
  const int code = child.Wait();
  // The tiny context may be full before the signal arrives.
  EXPECT_TRUE(code == 130 || (code == kExitOk && child.output().find("finished: length") != std::string::npos)) << code;
}

// What was generated is printed and kept, and the shell sees which signal it was.
TEST_F(ProcessTest, SigtermKeepsTheRequestAndItsExitCode) {
  const std::string path = files_->dir.Join("terminated");
  const Args slow = {"--backend", "ref", "--max-tokens", "200", "--ignore-eos", "--show-drafts", "hello"};
  Child child = Haast(Args{"generate", "--save", path, "--save-every", "1000"} + files_->Flags() + slow, Child::Streams::kPipe);
  ASSERT_TRUE(child.ReadUntil("own token\n")) << child.output();
  ASSERT_TRUE(child.ReadUntil("{")) << child.output();
  child.Signal(SIGTERM);
  ASSERT_TRUE(child.ReadUntil("finished: cancelled")) << child.output();
  EXPECT_EQ(child.Wait(), 143);
  Child resumed(Args{HAAST_PROGRAM, "generate", "--resume", path, "--model", files_->model, "--draft", files_->head, "--threads", "1",
                     "--backend", "ref"},
                {}, Child::Streams::kPipe);
  EXPECT_TRUE(resumed.ReadUntil("200 tokens")) << resumed.output();
  EXPECT_EQ(resumed.Wait(), kExitOk);
}

TEST_F(ProcessTest, SigtermEndsAChatAtItsPromptAndInAnAnswer) {
  Child waiting = Haast(Args{"chat"} + files_->Flags(), Child::Streams::kTerminal);
  ASSERT_TRUE(waiting.ReadUntil("> ")) << waiting.output();
  waiting.Signal(SIGTERM);
  EXPECT_EQ(waiting.Wait(), 143);
  Child answering = Haast(Args{"chat", "--show-drafts"} + files_->Flags() + Endless(), Child::Streams::kTerminal, {"NO_COLOR=1"});
  ASSERT_TRUE(answering.ReadUntil("> ")) << answering.output();
  answering.Type("hello\n");
  ASSERT_TRUE(answering.ReadUntil("{")) << answering.output();
  answering.Signal(SIGTERM);
  EXPECT_EQ(answering.Wait(), 143);
}

TEST_F(ProcessTest, ReaderThatGoesAwayEndsTheProgramQuietly) {
  Child child = Haast(Args{"generate", "hello"} + files_->Flags() + Endless(), Child::Streams::kPipe);
  child.CloseReader();
  EXPECT_EQ(child.Wait(), kExitRuntime);
}

// The answer must not go into whatever file is opened next.
TEST_F(ProcessTest, ClosedStandardOutputIsAFailure) {
  const Args command =
      Args{"/bin/sh", "-c", "exec \"$@\" >&-", "sh", HAAST_PROGRAM, "generate", "--max-tokens", "4", "hello"} + files_->Flags();
  Child child(command, {"LC_ALL=C.UTF-8"}, Child::Streams::kPipe);
  EXPECT_TRUE(child.ReadUntil("standard output: writing failed")) << child.output();
  EXPECT_EQ(child.Wait(), kExitRuntime);
}

TEST_F(ProcessTest, AThreadThatTheSystemRefusesIsNotTheModelsFault) {
  const auto limited = [](const Args& args) {
    return Child(Args{"/bin/sh", "-c", "ulimit -v 240000; exec \"$@\"", "sh", HAAST_PROGRAM} + args, {}, Child::Streams::kPipe);
  };
  Child version = limited({"--version"});
  if (version.Wait() != kExitOk) GTEST_SKIP() << "an instrumented program needs more address space";
  Child child = limited({"generate", "--model", files_->model, "--threads", "1", "hello"});
  EXPECT_TRUE(child.ReadUntil("haast generate: the system refused a thread")) << child.output();
  EXPECT_EQ(child.Wait(), kExitRuntime);
  EXPECT_THAT(child.output(), HasSubstr("ulimit -v"));
  EXPECT_THAT(child.output(), ::testing::Not(HasSubstr(files_->model)));
}

TEST_F(ProcessTest, AFileAtTheLimitOfItsSizeIsAnError) {
  const std::string saved = files_->dir.Join("limited.session");
  const Args command = Args{"/bin/sh",
                            "-c",
                            "ulimit -f 1; exec \"$@\"",
                            "sh",
                            HAAST_PROGRAM,
                            "generate",
                            "--max-tokens",
                            "4",
                            "--save",
                            saved,
                            "--save-every",
                            "1",
                            "hello"} +
                       files_->Flags();
  Child child(command, {"LC_ALL=C.UTF-8"}, Child::Streams::kPipe);
  EXPECT_TRUE(child.ReadUntil("File too large")) << child.output();
  EXPECT_EQ(child.Wait(), kExitFile);
  EXPECT_FALSE(std::filesystem::exists(saved + ".haast-part"));
}

TEST_F(ProcessTest, TerminalGetsColoursUnlessNoColor) {
  const Args args = Args{"generate", "--show-drafts", "--max-tokens", "20", "--ignore-eos", "hello"} + files_->Flags();
  Child coloured = Haast(args, Child::Streams::kTerminal);
  EXPECT_TRUE(coloured.ReadUntil("finished: "));
  EXPECT_THAT(coloured.output(), HasSubstr("\x1b[32m"));
  EXPECT_EQ(coloured.Wait(), kExitOk);
  Child plain = Haast(args, Child::Streams::kTerminal, {"NO_COLOR=1"});
  EXPECT_TRUE(plain.ReadUntil("finished: "));
  EXPECT_THAT(plain.output(), ::testing::Not(HasSubstr("\x1b")));
  EXPECT_EQ(plain.Wait(), kExitOk);
}

TEST_F(ProcessTest, ChatOnATerminal) {
  Child child = Haast(Args{"chat", "--max-tokens", "8", "--ignore-eos"} + files_->Flags(), Child::Streams::kTerminal);
  ASSERT_TRUE(child.ReadUntil("> ")) << child.output();
  child.Type("grüße\n");
  ASSERT_TRUE(child.ReadUntil("finished: length")) << child.output();
  ASSERT_TRUE(child.ReadUntil("> "));
  child.Type("\x03");  // Ctrl-C at the prompt: not the end
  ASSERT_TRUE(child.ReadUntil("/quit or Ctrl-D leaves")) << child.output();
  ASSERT_TRUE(child.ReadUntil("> "));
  child.Type("/help\n");
  ASSERT_TRUE(child.ReadUntil("/system TEXT")) << child.output();
  ASSERT_TRUE(child.ReadUntil("> "));
  child.Type("\x04");
  EXPECT_EQ(child.Wait(), kExitOk);
  EXPECT_THAT(ReadFile(files_->dir.Join("cache/haast/chat_history")), HasSubstr("help"));
}

TEST_F(ProcessTest, CtrlCEndsAnAnswerNotTheChat) {
  Child child = Haast(Args{"chat", "--show-drafts"} + files_->Flags() + Endless(), Child::Streams::kTerminal, {"NO_COLOR=1"});
  ASSERT_TRUE(child.ReadUntil("> ")) << child.output();
  child.Type("hello\n");
  ASSERT_TRUE(child.ReadUntil("{")) << child.output();
  child.Type("\x03");
  ASSERT_TRUE(child.ReadUntil("finished: ")) << child.output();
  ASSERT_TRUE(child.ReadUntil("> "));
  child.Type("/quit\n");
  EXPECT_EQ(child.Wait(), kExitOk);
}

// Each may come before the program waits for keys.
TEST_F(ProcessTest, EveryCtrlCAtThePromptIsAnswered) {
  Child child = Haast(Args{"chat"} + files_->Flags(), Child::Streams::kTerminal);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(child.ReadUntil("> ")) << i << child.output();
    child.Type("\x03");
    ASSERT_TRUE(child.ReadUntil("leaves")) << i << child.output();
  }
  child.Type("/quit\n");
  EXPECT_EQ(child.Wait(), kExitOk);
}

TEST_F(ProcessTest, CtrlDDuringAnAnswerEndsTheChatAfterIt) {
  Child child =
      Haast(Args{"chat", "--show-drafts", "--backend", "ref", "--ignore-eos"} + files_->Flags(), Child::Streams::kTerminal, {"NO_COLOR=1"});
  ASSERT_TRUE(child.ReadUntil("> ")) << child.output();
  child.Type("hello\n");
  ASSERT_TRUE(child.ReadUntil("{")) << child.output();
  child.Type("\x04");
  EXPECT_EQ(child.Wait(), kExitOk) << child.output();
  EXPECT_THAT(child.output(), HasSubstr("finished: length"));
}

TEST_F(ProcessTest, HistoryThatCannotBeKeptCostsOneMessage) {
  Child child = Haast(Args{"chat", "--max-tokens", "4"} + files_->Flags(), Child::Streams::kTerminal, {"XDG_CACHE_HOME=/proc/nowhere"});
  ASSERT_TRUE(child.ReadUntil("> ")) << child.output();
  child.Type("hello\n");
  ASSERT_TRUE(child.ReadUntil("chat_history: the history cannot be kept")) << child.output();
  ASSERT_TRUE(child.ReadUntil("finished: ")) << child.output();
  child.Type("\x04");
  EXPECT_EQ(child.Wait(), kExitOk);
}

TEST_F(ProcessTest, EmbeddingExampleAnswers) {
  Child drafted(Args{EMBED_PROGRAM, files_->model, files_->head, "10", "11", "12"}, {}, Child::Streams::kPipe);
  ASSERT_TRUE(drafted.ReadUntil("tokens a round")) << drafted.output();
  EXPECT_EQ(drafted.Wait(), 0);
  EXPECT_THAT(drafted.output(), HasSubstr("length after 32 tokens"));
  Child plain(Args{EMBED_PROGRAM, files_->model, "-", "10", "11", "12"}, {}, Child::Streams::kPipe);
  ASSERT_TRUE(plain.ReadUntil("tokens a round")) << plain.output();
  std::string tokens = drafted.output().substr(0, drafted.output().find('\n'));
  std::erase(tokens, '*');
  EXPECT_EQ(plain.output().substr(0, plain.output().find('\n')), tokens);
  Child wrong(Args{EMBED_PROGRAM, "none.gguf", "-", "10"}, {}, Child::Streams::kPipe);
  EXPECT_TRUE(wrong.ReadUntil("none.gguf"));
  EXPECT_EQ(wrong.Wait(), 1);
}

}  // namespace
}  // namespace haast::cli::testing
