// Requests that are kept in a file and go on from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "cli/exit_code.h"
#include "cli/program_harness.h"

namespace haast::cli::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class SaveTest : public ProgramTest {
 protected:
  static Ran Resume(const std::string& path, const Args& more = {}) {
    return Haast(Args{"generate", "--json", "--resume", path, "--model", files_->model, "--draft", files_->head, "--threads", "1"} + more);
  }
};

// The file holds the request as it was when it had been saved last: some tokens before the end.
TEST_F(SaveTest, ASavedRequestGoesOnWhereItWas) {
  const std::string path = files_->dir.Join("session");
  const Args request = {"--temperature", "1", "--seed", "7", "--logprobs", "2", "--stop", "no such text", "hello there"};
  const json whole = GenerateJson(request);
  const json saved = GenerateJson(Args{"--save", path, "--save-every", "7"} + request);
  EXPECT_EQ(saved["token_ids"], whole["token_ids"]);
  const Ran resumed = Resume(path);
  ASSERT_EQ(resumed.code, kExitOk) << resumed.err;
  for (const char* field : {"text", "token_ids", "logprobs", "finish_reason"}) EXPECT_EQ(resumed.json()[field], whole[field]) << field;
  EXPECT_EQ(resumed.json()["speculation"]["accepted"], whole["speculation"]["accepted"]);
  EXPECT_EQ(resumed.json()["timings"]["generated_tokens"], 40);
  ExpectError(Haast({"generate", "--resume", path, "--seed", "3"}), kExitUsage, "leave out --seed");
  ExpectError(Haast({"generate", "--save", path, "--compare", "hi"}), kExitUsage, "--compare runs the request several times");
  ExpectError(Haast({"generate", "--resume", path, "--model", files_->model, "--threads", "1"}), kExitFile, "another draft head");
  ExpectError(Haast({"generate", "--resume", files_->model, "--model", files_->model, "--threads", "1"}), kExitFile,
              "expected a saved session");
}

// All instruction sets of a build give the same bits.
TEST_F(SaveTest, ARequestGoesOnUnderAnotherInstructionSet) {
  const std::string path = files_->dir.Join("portable");
  const Args request = {"--temperature", "1", "--seed", "7", "--logprobs", "2", "hello there"};
  const json whole = GenerateJson(request);
  setenv("HAAST_ISA", "portable", 1);
  const json saved = GenerateJson(Args{"--save", path, "--save-every", "7"} + request);
  unsetenv("HAAST_ISA");
  const Ran resumed = Resume(path);
  ASSERT_EQ(resumed.code, kExitOk) << resumed.err;
  for (const char* field : {"token_ids", "logprobs"}) {
    EXPECT_EQ(saved[field], whole[field]) << field;
    EXPECT_EQ(resumed.json()[field], whole[field]) << field;
  }
  ExpectError(Resume(path, {"--backend", "ref"}), kExitFile, "saved with another backend: cpu, here it is ref");
}

TEST_F(SaveTest, AKilledProgramsRequestGoesOn) {
  const std::string path = files_->dir.Join("killed");
  const Args request = {"--max-tokens", "1500", "--ignore-eos", "--seed", "5", "--temperature", "1", "hello"};
  const json whole = Haast(Args{"generate", "--json"} + files_->Flags() + request).json();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Haast(Args{"generate", "--json", "--save", path, "--save-every", "1"} + files_->Flags() + request);
    _exit(0);
  }
  while (access(path.c_str(), R_OK) != 0 && waitpid(child, nullptr, WNOHANG) == 0) usleep(1000);
  usleep(20000);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const Ran resumed = Resume(path);
  ASSERT_EQ(resumed.code, kExitOk) << resumed.err;
  EXPECT_EQ(resumed.json()["token_ids"], whole["token_ids"]);
  EXPECT_EQ(resumed.json()["text"], whole["text"]);
}

TEST_F(SaveTest, ResumeRefusesEveryFlagOfTheRequest) {
  for (const char* flag : {"--repetition-penalty", "--min-tokens", "--prompt-logprobs", "--draft-top-k", "--temperature"}) {
    ExpectError(Haast({"generate", "--model", files_->model, "--resume", "saved", flag, "1"}), kExitUsage,
                std::string("leave out ") + flag);
  }
}

// Logprobs of the prompt came with the first token: the file must keep them.
TEST_F(SaveTest, AResumedAnswerHasItsPromptsLogprobs) {
  const std::string path = files_->dir.Join("prompt_logprobs");
  const json whole = GenerateJson({"--prompt-logprobs", "1", "--save", path, "--save-every", "7", "hello there"});
  ASSERT_GT(whole["prompt_logprobs"].size(), 1u);
  EXPECT_EQ(Resume(path).json()["prompt_logprobs"], whole["prompt_logprobs"]);
}

TEST_F(SaveTest, APathThatCannotBeSavedToIsRefusedBeforeTheModelIsRead) {
  const std::string file = Write("a_file", "kept");
  const auto expect_refused = [&](const std::string& path, const std::string& why) {
    const Ran ran = Haast({"generate", "--model", files_->dir.Join("none.gguf"), "--save", path, "hello"});
    ExpectError(ran, kExitFile, path + ": ");
    EXPECT_THAT(ran.err, HasSubstr(why));
    EXPECT_THAT(ran.err, HasSubstr("give another path"));
  };
  expect_refused(files_->dir.Join("no/such/folder"), "No such file or directory: expected a path in a folder that can be written: create");
  expect_refused(files_->dir.path(), "expected a regular file or a new one");
  expect_refused(file + "/inside", "Not a directory");
  expect_refused("/proc/self/nothing", "cannot be written");
  const std::string usable = files_->dir.Join("usable");
  ExpectError(Haast({"generate", "--model", files_->dir.Join("none.gguf"), "--save", usable, "hello"}), kExitFile, "none.gguf");
  EXPECT_FALSE(std::filesystem::exists(usable));
}

TEST_F(SaveTest, NothingThatIsReadIsOverwritten) {
  const std::string model = ReadFile(files_->model), path = files_->dir.Join("kept");
  const std::string other_name = files_->dir.Join(".") + "/model.gguf", prompt = Write("prompt.txt", "hello there");
  ExpectError(Generate({"--save", other_name, "hello"}), kExitUsage, "--save " + other_name + " would overwrite " + files_->model);
  ExpectError(Generate({"--trace-metadata", other_name, "hello"}), kExitUsage, "--trace-metadata " + other_name + " would overwrite");
  ExpectError(Generate({"--trace-metadata", prompt, "--file", prompt}), kExitUsage, "would overwrite " + prompt);
  ExpectError(Generate({"--trace-metadata", path, "--save", path, "hello"}), kExitUsage, "would both write " + path);
  ExpectError(Generate({"--trace-metadata", path + ".haast-part", "--save", path, "hello"}), kExitUsage, "would both write");
  const std::string config = files_->head + "/config.json", before = ReadFile(config);
  ExpectError(Generate({"--save", config, "hello"}), kExitUsage, "would overwrite a file of " + files_->head);
  ExpectError(Generate({"--trace-metadata", files_->head + "/model.safetensors", "hello"}), kExitUsage, "would overwrite a file of");
  EXPECT_EQ(ReadFile(config), before);
  const std::string part = Write("answer.haast-part", "hello there");
  ExpectError(Generate({"--save", files_->dir.Join("answer"), "--file", part}), kExitUsage, "would overwrite " + part);
  EXPECT_EQ(ReadFile(part), "hello there");
  std::filesystem::create_symlink("nobody", files_->dir.Join("dangling"));
  ExpectError(Generate({"--save", files_->dir.Join("nobody"), "--trace-metadata", files_->dir.Join("dangling"), "hello"}), kExitUsage,
              "would both write");
  const std::string prompts = Write("p.jsonl", "{\"turns\": [\"one\"]}");
  ExpectError(Haast(Args{"bench", "--prompts", prompts, "--trace-metadata", prompts} + files_->Flags()), kExitUsage, "would overwrite");
  EXPECT_EQ(ReadFile(files_->model), model);
  EXPECT_EQ(ReadFile(prompt), "hello there");
  GenerateJson({"--save", path, "--save-every", "7", "hello there"});
  EXPECT_EQ(Resume(path, {"--save", path}).code, kExitOk) << "a request may be kept where it came from";
}

TEST_F(SaveTest, WhatAKilledSaveLeftIsRemovedAndNothingElse) {
  const std::string path = files_->dir.Join("orphan");
  Write("orphan.haast-part", "half a file");
  Write("orphan2.haast-part", "another's");
  GenerateJson({"--save", path, "hello there"});
  EXPECT_FALSE(std::filesystem::exists(path + ".haast-part"));
  EXPECT_EQ(ReadFile(files_->dir.Join("orphan2.haast-part")), "another's");
  EXPECT_EQ(Resume(path).code, kExitOk);
}

TEST_F(SaveTest, ATraceThatFailsIsReportedWhenResumedToo) {
  const std::string path = files_->dir.Join("traced");
  EXPECT_EQ(Generate({"--save", path, "--trace-metadata", "/dev/full", "hello there"}).code, kExitFile);
  const Ran resumed = Resume(path, {"--trace-metadata", "/dev/full"});
  EXPECT_EQ(resumed.code, kExitFile);
  EXPECT_THAT(resumed.err, HasSubstr("/dev/full: writing launch metadata failed"));
}

}  // namespace
}  // namespace haast::cli::testing
