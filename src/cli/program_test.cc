// Every command from its arguments to its output and exit code, on a tiny model.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include "cli/exit_code.h"
#include "cli/program_harness.h"
#include "haast/request.h"

namespace haast::cli::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class ProgramTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { files_ = new TinyFiles(); }
  static void TearDownTestSuite() {
    delete files_;
    files_ = nullptr;
  }

  static Ran Haast(const Args& args, const std::string& input = "") { return RunHaast(files_->dir, args, input); }
  static Ran Generate(const Args& more, const std::string& input = "") {
    return Haast(Args{"generate"} + files_->Flags() + Args{"--max-tokens", "40", "--ignore-eos"} + more, input);
  }
  static json GenerateJson(const Args& more) {
    const Ran ran = Generate(Args{"--json"} + more);
    EXPECT_EQ(ran.code, kExitOk) << ran.err;
    EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
    return ran.json();
  }
  static void ExpectError(const Ran& ran, int code, const std::string& message) {
    EXPECT_EQ(ran.code, code) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(message));
    EXPECT_EQ(ran.out, "");
  }
  static std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(files_->dir.Join(name), std::ios::binary) << text;
    return files_->dir.Join(name);
  }

  static TinyFiles* files_;
};
TinyFiles* ProgramTest::files_ = nullptr;

TEST_F(ProgramTest, JsonHasTheDocumentedFields) {
  const json answer = GenerateJson({"--logprobs", "2", "hello there"});
  EXPECT_EQ(answer["token_ids"].size(), 40u);
  EXPECT_EQ(answer["finish_reason"], "length");
  ASSERT_EQ(answer["logprobs"].size(), 40u);
  EXPECT_EQ(answer["logprobs"][3]["token_id"], answer["token_ids"][3]);
  EXPECT_EQ(answer["logprobs"][3]["top"].size(), 2u);
  EXPECT_LE(answer["logprobs"][3]["logprob"].get<double>(), 0.0);
  EXPECT_EQ(answer["timings"]["generated_tokens"], 40);
  EXPECT_GT(answer["timings"]["tokens_per_second"], 0.0);
  EXPECT_GT(answer["timings"]["load_seconds"], 0.0);
  const json& speculation = answer["speculation"];
  EXPECT_EQ(speculation["algorithm"], "eagle3");
  EXPECT_EQ(speculation["num_draft_tokens"], 3);
  EXPECT_EQ(speculation["automatic"], false);
  EXPECT_EQ(speculation["sampling"], "coupled");
  EXPECT_GT(speculation["accepted"], 0);
  EXPECT_GT(speculation["tau"], 1.0);
  EXPECT_EQ(speculation["position_acceptance"].size(), 3u);
  EXPECT_TRUE(GenerateJson({"hello"})["logprobs"].is_null());
  EXPECT_TRUE(GenerateJson({"hello"})["prompt_logprobs"].is_null());
  const json prompt = GenerateJson({"--prompt-logprobs", "1", "hello there"});
  EXPECT_EQ(prompt["prompt_logprobs"].size(), prompt["timings"]["prompt_tokens"].get<size_t>() - 1);
  EXPECT_EQ(prompt["prompt_logprobs"][0]["top"].size(), 1u);
}

TEST_F(ProgramTest, RejectionSamplingHasItsOwnAnswers) {
  const Args sampled = {"--temperature", "1", "--seed", "4", "hello there"};
  const Args rejection = Args{"--speculative-sampling", "rejection"} + sampled;
  const json answer = GenerateJson(rejection);
  EXPECT_EQ(answer["speculation"]["sampling"], "rejection");
  EXPECT_GT(answer["speculation"]["accepted"], 0);
  EXPECT_EQ(answer["token_ids"], GenerateJson(rejection)["token_ids"]);
  EXPECT_NE(answer["token_ids"], GenerateJson(sampled)["token_ids"]);
  ExpectError(Generate(Args{"--compare"} + rejection), kExitUsage, "--compare expects the tokens of plain decoding");
  const Ran bench = Haast(Args{"bench"} + files_->Flags() +
                          Args{"--no-steps", "--repeats", "2", "--max-tokens", "20", "--temperature", "1", "--speculative-sampling",
                               "rejection", "--prompts", Write("rejection.jsonl", "{\"turns\": [\"hello\"]}\n")});
  EXPECT_EQ(bench.code, kExitOk) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("tokens identical in all repeats of a mode"));
}

// The file holds the request as it was when it had been saved last: some tokens before the end.
TEST_F(ProgramTest, ASavedRequestGoesOnWhereItWas) {
  const std::string path = files_->dir.Join("session");
  const Args request = {"--temperature", "1", "--seed", "7", "--logprobs", "2", "--stop", "no such text", "hello there"};
  const json whole = GenerateJson(request);
  const json saved = GenerateJson(Args{"--save", path, "--save-every", "7"} + request);
  EXPECT_EQ(saved["token_ids"], whole["token_ids"]);
  const Ran resumed =
      Haast(Args{"generate", "--json", "--resume", path} + Args{"--model", files_->model, "--draft", files_->head, "--threads", "1"});
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

TEST_F(ProgramTest, AKilledProgramsRequestGoesOn) {
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
  const Ran resumed =
      Haast(Args{"generate", "--json", "--resume", path, "--model", files_->model, "--draft", files_->head, "--threads", "1"});
  ASSERT_EQ(resumed.code, kExitOk) << resumed.err;
  EXPECT_EQ(resumed.json()["token_ids"], whole["token_ids"]);
  EXPECT_EQ(resumed.json()["text"], whole["text"]);
}

TEST_F(ProgramTest, SpeculationChangesNothingButSpeed) {
  for (const Args& sampling : {Args{}, Args{"--temperature", "1", "--seed", "7", "--top-p", "0.9"},
                               Args{"--temperature", "1", "--repetition-penalty", "1.3", "--frequency-penalty", "0.5", "--presence-penalty",
                                    "0.5", "--logit-bias", "40=5", "--min-tokens", "9"}}) {
    const json on = GenerateJson(sampling + Args{"--logprobs", "3", "hello there"});
    const json off = GenerateJson(sampling + Args{"--logprobs", "3", "--no-speculation", "hello there"});
    EXPECT_EQ(on["token_ids"], off["token_ids"]);
    EXPECT_EQ(on["logprobs"], off["logprobs"]);
    EXPECT_EQ(on["text"], off["text"]);
    EXPECT_GT(on["speculation"]["rounds"], 0);
    EXPECT_EQ(off["speculation"]["rounds"], 0);
    EXPECT_EQ(off["speculation"]["algorithm"], "none");
  }
}

TEST_F(ProgramTest, StreamedTextIsTheJsonsText) {
  const std::string text = GenerateJson({"hello there"})["text"];
  const Ran streamed = Generate({"hello there"});
  EXPECT_EQ(streamed.out, text.ends_with('\n') ? text : text + "\n");
  EXPECT_THAT(streamed.err, HasSubstr("40 tokens, "));
  EXPECT_THAT(streamed.err, HasSubstr(" by position; finished: length\n"));
  EXPECT_EQ(Generate({"--quiet", "hello there"}).err, "");
}

TEST_F(ProgramTest, PromptsFromFilesAndStandardInput) {
  const json expected = GenerateJson({"hello there"})["token_ids"];
  EXPECT_EQ(GenerateJson({"--file", Write("prompt.txt", "hello there\n")})["token_ids"], expected);
  EXPECT_EQ(Generate({"--json", "-"}, "hello there\n").json()["token_ids"], expected);
  EXPECT_EQ(Generate({"--json"}, "hello there").json()["token_ids"], expected);
  EXPECT_EQ(GenerateJson({"--", "hello there"})["token_ids"], expected);
}

TEST_F(ProgramTest, TemplateSystemAndRawMakeDifferentPrompts) {
  const auto prompt_tokens = [](const Args& more) { return GenerateJson(more)["timings"]["prompt_tokens"].get<int>(); };
  const int with_template = prompt_tokens({"hello"});
  EXPECT_GT(prompt_tokens({"--system", "be brief", "hello"}), with_template);
  EXPECT_LT(prompt_tokens({"--raw", "hello"}), with_template);
}

TEST_F(ProgramTest, StopStringsEndTheAnswerBeforeThem) {
  const std::string text = GenerateJson({"hello there"})["text"];
  ASSERT_GE(text.size(), 3u);
  const std::string stop = text.substr(4, 3);
  const json answer = GenerateJson({"--stop", "never to be seen", "--stop", stop, "hello there"});
  EXPECT_EQ(answer["finish_reason"], "stop");
  EXPECT_EQ(answer["text"], text.substr(0, text.find(stop)));
  EXPECT_LT(answer["token_ids"].size(), 40u);
  EXPECT_EQ(answer["timings"]["generated_tokens"], answer["token_ids"].size());
  ExpectError(Generate({"--stop", "", "hello"}), kExitUsage, "stop");
}

TEST_F(ProgramTest, AnswerIsCutToTheContext) {
  const Ran ran =
      Haast(Args{"generate", "--json", "--ignore-eos", "--context", "128", "--max-tokens", "100000", "hello"} + files_->Flags());
  ASSERT_EQ(ran.code, kExitOk) << ran.err;
  const json timings = ran.json()["timings"];
  EXPECT_EQ(timings["prompt_tokens"].get<int>() + timings["generated_tokens"].get<int>(), 128);
}

TEST_F(ProgramTest, MarkedDraftsWithoutMarksAreTheText) {
  const std::string text = GenerateJson({"hello there"})["text"];
  const Ran ran = Generate({"--show-drafts", "hello there"});
  EXPECT_THAT(ran.err, HasSubstr("{accepted draft} [-rejected draft-]"));
  EXPECT_THAT(ran.out, HasSubstr("{"));
  EXPECT_THAT(ran.out, Not(HasSubstr("\x1b")));
  std::string unmarked = ran.out;
  for (size_t at = 0; (at = unmarked.find("[-")) != std::string::npos;) unmarked.erase(at, unmarked.find("-]", at) + 2 - at);
  std::erase_if(unmarked, [](char c) { return c == '{' || c == '}'; });
  std::string plain = text;
  std::erase_if(plain, [](char c) { return c == '{' || c == '}'; });
  EXPECT_EQ(unmarked, plain.ends_with('\n') ? plain : plain + "\n");
}

TEST_F(ProgramTest, CompareChecksAndMeasures) {
  const Ran ran = Generate({"--compare", "hello there"});
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("plain "));
  EXPECT_THAT(ran.err, HasSubstr("% of the memory bandwidth"));
  EXPECT_THAT(ran.err, HasSubstr("identical in all runs (40)"));
  const json compare = GenerateJson({"--compare", "hello there"})["compare"];
  EXPECT_EQ(compare["identical"], true);
  EXPECT_EQ(compare["runs"], 3);
  EXPECT_GT(compare["speedup"], 0.0);
  EXPECT_GT(compare["read_gb_per_s"], 0.0);
  EXPECT_GT(compare["plain_bandwidth_fraction"], 0.0);
}

TEST_F(ProgramTest, WrongPromptsAndFlagsAreUsageErrors) {
  ExpectError(Generate({""}), kExitUsage, "haast generate: prompt: the prompt is empty");
  ExpectError(Generate({}, ""), kExitUsage, "standard input: the prompt is empty");
  ExpectError(Generate({"ab\xff"}), kExitUsage, "got byte 0xff at offset 2");
  ExpectError(Generate({"--system", "\xff", "hello"}), kExitUsage, "--system: expected UTF-8");
  ExpectError(Generate({"--file", "/dev/null"}), kExitUsage, "/dev/null: the prompt is empty");
  ExpectError(Generate({"--file", "x", "hello"}), kExitUsage, "got an argument and --file x");
  ExpectError(Generate({"--raw", "--system", "s", "hello"}), kExitUsage, "--system belongs to the chat template");
  ExpectError(Generate({"--json", "--show-drafts", "hello"}), kExitUsage, "give one of them");
  ExpectError(Generate({"--compare", "--no-speculation", "hello"}), kExitUsage, "--compare needs speculation");
  ExpectError(Generate({"--no-speculation", "--speculative-algorithm", "eagle3", "hello"}), kExitUsage, "contradict");
  ExpectError(Generate({"--top-p", "nan", "hello"}), kExitUsage, "got 'nan'");
  ExpectError(Generate({std::string(4000, 'x')}), kExitUsage, "512");  // longer than the context
  ExpectError(Haast({"generate", "--model", files_->model, "--compare", "hello"}), kExitUsage, "--compare needs a head");
}

TEST_F(ProgramTest, UnusableFilesAreFileErrors) {
  const std::string none = files_->dir.Join("none.gguf");
  ExpectError(Haast({"generate", "--model", none, "hello"}), kExitFile, none);
  ExpectError(Haast({"generate", "--model", Write("junk.gguf", "junk"), "hello"}), kExitFile, "junk.gguf");
  ExpectError(Haast({"generate", "--model", files_->model, "--draft", none, "hello"}), kExitFile, none);
  ExpectError(Haast({"generate", "--model", files_->model, "--draft", files_->other_head, "hello"}), kExitFile, "other_head");
  ExpectError(Generate({"--file", none}), kExitFile, "none.gguf: cannot be opened: No such file or directory");
  ExpectError(Generate({"--file", files_->dir.path()}), kExitFile, "Is a directory");
}

TEST_F(ProgramTest, OutputThatCannotBeWrittenEndsTheRun) {
  std::signal(SIGPIPE, SIG_IGN);
  const std::string err_path = files_->dir.Join("err2");
  const auto run_into = [&](int fd) {
    const int err = open(err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    Streams streams{Output(fd), Output(err), -1, false};
    const int code = RunProgram(Args{"generate"} + files_->Flags() + Args{"hello"}, streams);
    close(err);
    close(fd);
    return code;
  };
  EXPECT_EQ(run_into(open("/dev/full", O_WRONLY)), kExitRuntime);
  EXPECT_THAT(ReadFile(err_path), HasSubstr("standard output: writing failed: No space left on device"));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  EXPECT_EQ(run_into(ends[1]), kExitRuntime);
  EXPECT_EQ(ReadFile(err_path), "");
}

TEST_F(ProgramTest, ChatAnswersLineByLine) {
  const Ran ran = Haast(Args{"chat"} + files_->Flags() + Args{"--max-tokens", "8", "--ignore-eos"},
                        "hello\n/system be brief\n\nagain\n/quit\nunread\n");
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_THAT(ran.err, HasSubstr("system message: be brief"));
  size_t answers = 0;
  for (size_t at = 0; (at = ran.err.find("finished: length", at)) != std::string::npos; ++at) ++answers;
  EXPECT_EQ(answers, 2u) << ran.err;
  EXPECT_GE(std::count(ran.out.begin(), ran.out.end(), '\n'), 2);
}

TEST_F(ProgramTest, ChatSurvivesAMessageThatDoesNotFit) {
  const Ran ran = Haast(Args{"chat"} + files_->Flags() + Args{"--max-tokens", "4"}, std::string(4000, 'x') + "\nhello\n");
  EXPECT_EQ(ran.code, kExitOk);
  EXPECT_THAT(ran.err, HasSubstr("512"));
  EXPECT_THAT(ran.err, HasSubstr("/reset starts over"));
  EXPECT_THAT(ran.err, HasSubstr("finished: "));
}

TEST_F(ProgramTest, BenchMeasuresStepsAndPrompts) {
  const std::string prompts = Write("p.jsonl", "{\"turns\": [\"one\"]}\n{\"turns\": [\"two\"]}\n{\"turns\": [\"three\"]}\n");
  const Args small = {"--repeats", "2", "--depth", "20", "--prefill-tokens", "30", "--decode-tokens", "4", "--max-tokens", "12"};
  const Ran ran = Haast(Args{"bench", "--json", "--prompts", prompts, "--prompts", prompts, "--limit", "2", "--concurrency", "2"} +
                        files_->Flags() + small);
  ASSERT_EQ(ran.code, kExitOk) << ran.err;
  const json bench = ran.json();
  EXPECT_EQ(bench["verify_ms"].size(), 16u);
  for (const char* field : {"decode_tps", "prefill_tps", "draft_step_ms", "roofline"}) EXPECT_GT(bench[field], 0.0) << field;
  const json& speculation = bench["speculation"];
  EXPECT_EQ(speculation["identical"], true);
  EXPECT_EQ(speculation["prompts"], 4);
  EXPECT_EQ(speculation["files"].size(), 2u);
  EXPECT_GT(speculation["accepted"], 0);
  EXPECT_GT(speculation["plain_tps"]["median"], 0.0);
  const Ran text = Haast(Args{"bench"} + files_->Flags() + small);
  EXPECT_THAT(text.out, HasSubstr("verify(16)"));
  EXPECT_THAT(text.out, HasSubstr("draft extend"));
}

TEST_F(ProgramTest, ResumeRefusesEveryFlagOfTheRequest) {
  for (const char* flag : {"--repetition-penalty", "--min-tokens", "--prompt-logprobs", "--draft-top-k", "--temperature"}) {
    ExpectError(Haast({"generate", "--model", files_->model, "--resume", "saved", flag, "1"}), kExitUsage,
                std::string("leave out ") + flag);
  }
}

TEST_F(ProgramTest, AFifoIsNoModel) {
  const std::string fifo = files_->dir.Join("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  ExpectError(Haast({"generate", "--model", fifo, "hello"}), kExitFile, "expected a regular file");
}

TEST_F(ProgramTest, BenchErrorsNameTheFlag) {
  ExpectError(Haast(Args{"bench", "--no-steps"} + files_->Flags()), kExitUsage, "--no-steps leaves nothing to measure");
  ExpectError(Haast(Args{"bench", "--prompts", "none.jsonl"} + files_->Flags()), kExitFile, "none.jsonl");
  ExpectError(Haast({"bench", "--model", files_->model, "--prompts", Write("p.jsonl", "{\"turns\": [\"one\"]}")}), kExitUsage,
              "needs a head");
  ExpectError(Haast(Args{"bench", "--depth", "100000"} + files_->Flags()), kExitUsage, "tokens of context");
}

TEST_F(ProgramTest, InfoSaysWhatFitsAndWhatNot) {
  const Ran fits = Haast({"info", files_->model, "--draft", files_->head, "--json"});
  ASSERT_EQ(fits.code, kExitOk) << fits.err;
  EXPECT_EQ(fits.json()["architecture"], "llama");
  EXPECT_EQ(fits.json()["hidden_size"], 64);
  EXPECT_EQ(fits.json()["text"]["chat_template"], true);
  EXPECT_EQ(fits.json()["draft"]["architecture"], "eagle3");
  EXPECT_EQ(fits.json()["draft"]["fits"], true);
  const Ran other = Haast({"info", files_->model, "--draft", files_->other_head, "--json"});
  EXPECT_EQ(other.code, kExitFile);
  EXPECT_EQ(other.json()["draft"]["fits"], false);
  EXPECT_THAT(other.json()["draft"]["why_not"].get<std::string>(), HasSubstr("96"));
  const Ran text = Haast({"info", files_->model, "--draft", files_->head});
  EXPECT_THAT(text.out, HasSubstr("fits          yes"));
  const Ran head = Haast({"info", files_->head});
  EXPECT_EQ(head.code, kExitOk) << head.err;
  EXPECT_THAT(head.out, HasSubstr("target hidden 64"));
  ExpectError(Haast({"info", files_->dir.Join("none")}), kExitFile, "none");
}

TEST_F(ProgramTest, DevicesNamesTheUsedInstructions) {
  const Ran ran = Haast({"devices", "--json"});
  ASSERT_EQ(ran.code, kExitOk);
  const json devices = ran.json();
  int used = 0;
  for (const json& isa : devices["isas"]) {
    used += isa["used"].get<bool>() ? 1 : 0;
    EXPECT_EQ(isa["used"].get<bool>(), isa["name"] == devices["isa"]);
  }
  EXPECT_EQ(used, 1);
  EXPECT_GE(devices["threads"], 1);
  EXPECT_GT(devices["memory_bytes"], 0);
  EXPECT_THAT(Haast({"devices"}).out, HasSubstr("(used)"));
}

TEST_F(ProgramTest, HelpAndVersionAndUnknownCommands) {
  for (const char* command : {"generate", "chat", "bench", "info", "devices", "check"}) {
    const Ran ran = Haast({command, "--help"});
    EXPECT_EQ(ran.code, kExitOk) << command;
    EXPECT_THAT(ran.out, HasSubstr("--help")) << command;
    EXPECT_THAT(Haast({"--help"}).out, HasSubstr(command));
    EXPECT_EQ(Haast({command, "--no-such-flag"}).code, kExitUsage) << command;
  }
  EXPECT_THAT(Haast({"--version"}).out, ::testing::MatchesRegex("haast [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_EQ(Haast({}).code, kExitUsage);
  ExpectError(Haast({"serve"}), kExitUsage, "expected a command (generate, chat, bench, info, devices, check), got 'serve'");
}

}  // namespace
}  // namespace haast::cli::testing
