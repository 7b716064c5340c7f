// Every command from its arguments to its output and exit code, on a tiny model.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "cli/exit_code.h"
#include "cli/program_harness.h"
#include "haast/request.h"

namespace haast::cli::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

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
  const Args sampled = {"--temperature", "50", "--seed", "4", "hello there"};
  const Args rejection = Args{"--speculative-sampling", "rejection"} + sampled;
  const json answer = GenerateJson(rejection);
  EXPECT_EQ(answer["speculation"]["sampling"], "rejection");
  EXPECT_GT(answer["speculation"]["accepted"], 0);
  EXPECT_EQ(answer["token_ids"], GenerateJson(rejection)["token_ids"]);
  EXPECT_NE(answer["token_ids"], GenerateJson(sampled)["token_ids"]);
  ExpectError(Generate(Args{"--compare"} + rejection), kExitUsage, "--compare expects the tokens of plain decoding");
  const Ran bench = Haast(Args{"bench"} + files_->Flags() +
                          Args{"--no-steps", "--repeats", "2", "--max-tokens", "20", "--temperature", "50", "--speculative-sampling",
                               "rejection", "--prompts", Write("rejection.jsonl", "{\"turns\": [\"hello\"]}\n")});
  EXPECT_EQ(bench.code, kExitOk) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("tokens identical in all repeats of a mode"));
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
  EXPECT_THAT(streamed.err, HasSubstr("; finished: length\n"));
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
  const Args unread = {"generate", "--model", files_->dir.Join("none.gguf"), "hello", "--stop"};
  ExpectError(Haast(unread + Args{"a", "--stop", ""}), kExitUsage, "haast generate: --stop: string 1 is empty; expected at least one byte");
  ExpectError(Haast(unread + Args{"\xff"}), kExitUsage, "--stop: string 0 is not valid UTF-8");
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

TEST_F(ProgramTest, EmptyPathsAreRefusedEverywhere) {
  for (const char* flag : {"--file", "--save", "--resume", "--model"}) ExpectError(Generate({flag, ""}), kExitUsage, "expected a path");
  ExpectError(Haast({"bench", "--prompts", ""}), kExitUsage, "--prompts: expected a path");
  ExpectError(Haast({"info", ""}), kExitUsage, "MODEL: expected a path");
  ExpectError(Haast({"info", files_->model, "--draft", ""}), kExitUsage, "--draft: expected a path");
  ExpectError(Haast({"check", ""}), kExitUsage, "FILE: expected a path");
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

// A prompt that no model can answer is the user's, whatever it came in; a file of prompts is a file.
TEST_F(ProgramTest, TextsThatAreTooLong) {
  const std::string large = Write("large", std::string((16 << 20) + 1, 'x'));
  ExpectError(Generate({"--file", large}), kExitUsage, "--file " + large + ": expected at most 16777216 bytes, got more");
  ExpectError(Haast(Args{"bench", "--prompts", large} + files_->Flags()), kExitFile,
              "--prompts " + large + ": expected at most 16777216 bytes, got more");
}

TEST_F(ProgramTest, StandardInputThatCannotBeReadIsAFileError) {
  const std::string err_path = files_->dir.Join("err3");
  for (const char* command : {"generate", "chat"}) {
    const int err = open(err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const int folder = open(files_->dir.path().c_str(), O_RDONLY | O_DIRECTORY);
    const int closed = open("/dev/null", O_WRONLY);  // as main leaves it
    for (const int in : {closed, folder}) {
      Streams streams{Output(err), Output(err), in, /*in_is_terminal=*/false};
      EXPECT_EQ(RunProgram(Args{command} + files_->Flags(), streams), kExitFile) << command << " " << in;
    }
    for (const int fd : {closed, folder, err}) close(fd);
    EXPECT_THAT(ReadFile(err_path), HasSubstr(std::string("haast ") + command + ": standard input: reading failed: Bad file descriptor"));
    EXPECT_THAT(ReadFile(err_path), HasSubstr(std::string("haast ") + command + ": standard input: reading failed: Is a directory"));
  }
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
  EXPECT_TRUE(bench["profile"].is_null());
  const json& speculation = bench["speculation"];
  EXPECT_EQ(speculation["identical"], true);
  EXPECT_EQ(speculation["prompts"], 4);
  EXPECT_EQ(speculation["files"].size(), 2u);
  EXPECT_GT(speculation["accepted"], 0);
  EXPECT_GT(speculation["plain_tps"]["median"], 0.0);
  const Ran text = Haast(Args{"bench", "--profile"} + files_->Flags() + small);
  EXPECT_THAT(text.out, HasSubstr("verify(16)"));
  EXPECT_THAT(text.out, HasSubstr("draft extend"));
  EXPECT_THAT(text.out, HasSubstr("linear q_proj+k_proj+v_proj"));
}

TEST_F(ProgramTest, BenchPricesRunsByAFileOfCosts) {
  const std::string costs = files_->dir.Join("costs.json");
  const Args model = {"--model", files_->model, "--draft", files_->head, "--threads", "1"};
  ASSERT_EQ(Haast(Args{"bench", "--no-steps", "--costs-out", costs, "--repeats", "1"} + model).code, kExitOk);
  const Args prompts = {"--prompts", Write("p.jsonl", "{\"turns\": [\"one\"]}\n{\"turns\": [\"two\"]}\n"), "--max-tokens", "12",
                        "--ignore-eos"};
  const auto speculation = [&](const Args& more) {
    const Ran ran = Haast(Args{"bench", "--json", "--no-steps", "--repeats", "1", "--costs", costs} + prompts + model + more);
    EXPECT_EQ(ran.code, kExitOk) << ran.err;
    return ran.json()["speculation"];
  };
  const json both = speculation({});
  const json again = speculation({});
  EXPECT_EQ(both["automatic"], true);
  for (const char* mode : {"plain_priced", "speculative_priced"}) {
    EXPECT_GT(both[mode]["decode_tps"], both[mode]["tps"]) << mode;
    EXPECT_EQ(both[mode], again[mode]) << "what the machine does meanwhile changes nothing";
  }
  const json plain = speculation({"--single", "--no-speculation"});
  EXPECT_EQ(plain["plain_priced"]["tps"], nullptr) << "not run";
  EXPECT_EQ(plain["speculative_priced"], both["plain_priced"]);
  EXPECT_EQ(plain["answers_checksum"], both["answers_checksum"]);
  EXPECT_NE(speculation({"--single", "--temperature", "50"})["answers_checksum"], both["answers_checksum"]);
  const std::string headless = files_->dir.Join("headless.json");
  ASSERT_EQ(Haast({"bench", "--no-steps", "--costs-out", headless, "--repeats", "1", "--model", files_->model, "--threads", "1"}).code,
            kExitOk);
  ExpectError(Haast(Args{"bench", "--no-steps", "--repeats", "1", "--costs", headless} + prompts + model), kExitUsage,
              "step costs: no launches of head_step and head_extend, but a head is loaded");
}

TEST_F(ProgramTest, BenchRefusesWhatIsNoFileOfCosts) {
  const Args bench = Args{"bench", "--no-steps", "--prompts", Write("p.jsonl", "{\"turns\": [\"one\"]}\n")} + files_->Flags();
  const auto expect_refused = [&](const std::string& text, const std::string& why) {
    const Ran ran = Haast(bench + Args{"--costs", Write("bad.json", text)});
    ExpectError(ran, kExitFile, "haast bench: --costs " + files_->dir.Join("bad.json") + ": " + why);
    EXPECT_THAT(ran.err, HasSubstr(": `haast bench --costs-out FILE` writes such a file\n"));
  };
  ExpectError(Haast(bench + Args{"--costs", "none.json"}), kExitFile, "--costs none.json: cannot open: No such file or directory: `haast");
  expect_refused("", "expected a JSON object of at most 64 levels, got 0 bytes that are not");
  expect_refused("{}", "target: expected a value, got no such key");
  expect_refused("{\"target\": 1}", "target: expected an object, got the number 1");
  expect_refused("{\"target\": {}}", "target.seconds_per_kv_entry: expected a value, got no such key");
  expect_refused(std::string((16 << 20) + 1, ' '), "has 16777217 bytes, expected at most 16777216");
  const std::string curve = R"({"all_logits": {"rows": [1], "seconds": [-1.0]}, "one_logit": {"rows": [], "seconds": []},
                               "no_logits": {"rows": [], "seconds": []}, "seconds_per_kv_entry": 0, "seconds_per_row_entry": 0})";
  const std::string text =
      R"({"target": )" + curve + R"(, "head_step": )" + curve + R"(, "head_extend": )" + curve + R"(, "draft_model": )" + curve + "}";
  expect_refused(text, "step costs: target, all_logits, point 1 (1 rows, -1 s): expected 1e-09 s to 1000 s");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    return changed.replace(changed.find(from), from.size(), to);
  };
  expect_refused(with("[1]", "[1.9]"), "target.all_logits.rows: expected a whole number from 1 to 1073741824, got 1.9");
  expect_refused(with("[-1.0]", "[\"1\"]"), "target.all_logits.seconds: expected a list of numbers, got one that holds \"1\"");
  expect_refused(with("[-1.0]", "[5e-324]"), "step costs: target, all_logits, point 1 (1 rows, 5e-324 s): expected 1e-09 s to 1000 s");
  expect_refused(with("[-1.0]", "[1e308]"), "step costs: target, all_logits, point 1 (1 rows, 1e+308 s): expected 1e-09 s to 1000 s");
  expect_refused(with("[1]", "1"), "target.all_logits.rows: expected a list of whole numbers, got the number 1");
  expect_refused(with("[1]", "null"), "target.all_logits.rows: expected a value, got null");
  expect_refused(with("[-1.0]", "2"), "target.all_logits.seconds: expected a list of numbers, got the number 2");
  expect_refused(with("\"rows\"", "\"raws\""), "target.all_logits.rows: expected a value, got no such key");
}

TEST_F(ProgramTest, APromptThatIsTooLongIsNamed) {
  std::string words;
  for (int i = 0; i < 600; ++i) words += "hello ";
  const std::string file = Write("long.txt", words);
  const std::string huge = Write("huge.txt", std::string(5 << 20, 'x'));
  for (const Args& raw : {Args{}, Args{"--raw"}}) {
    ExpectError(Generate(raw + Args{"--file", file}), kExitUsage, "haast generate: --file " + file + ": the prompt has ");
    ExpectError(Generate(raw + Args{"--file", huge}), kExitUsage, "haast generate: --file " + huge + ": the ");
    ExpectError(Generate(raw, words), kExitUsage, "haast generate: standard input: the prompt has ");
    ExpectError(Generate(raw + Args{words}), kExitUsage, "haast generate: prompt: the prompt has ");
  }
  const std::string prompts = Write("p.jsonl", "{\"turns\": [\"one\"]}\n\n{\"turns\": [\"" + words + "\"]}\n");
  const Ran bench = Haast(Args{"bench", "--no-steps", "--prompts", prompts} + files_->Flags());
  ExpectError(bench, kExitUsage, "haast bench: --prompts " + prompts + ":3: the prompt has ");
  EXPECT_THAT(bench.err,
              HasSubstr(" tokens, but the context is 512 and the answer needs at least one; shorten the prompt, or raise --context\n"));
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

// Whatever loading the head would refuse, with the same words.
TEST_F(ProgramTest, InfoRefusesEveryHeadThatCannotBeLoaded) {
  const std::string weights = ReadFile(files_->head + "/model.safetensors");
  const auto expect_misfit = [&](const std::string& changed, const std::string& why) {
    const std::string head = files_->dir.Join("misfit");
    std::filesystem::create_directories(head);
    std::filesystem::copy(files_->head, head, std::filesystem::copy_options::recursive | std::filesystem::copy_options::overwrite_existing);
    Write("misfit/model.safetensors", changed);
    const Ran info = Haast({"info", files_->model, "--draft", head, "--json"});
    EXPECT_EQ(info.code, kExitFile) << why;
    EXPECT_EQ(info.json()["draft"]["fits"], false) << why;
    EXPECT_THAT(info.json()["draft"]["why_not"].get<std::string>(), HasSubstr(why));
    ExpectError(Haast({"generate", "--model", files_->model, "--draft", head, "hello"}), kExitFile, why);
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = weights;
    return changed.replace(changed.find(from), from.size(), to);
  };
  uint64_t header_size = 0;
  std::memcpy(&header_size, weights.data(), sizeof(header_size));
  const json header = json::parse(weights.substr(8, header_size));
  std::string outside = weights;
  outside[8 + header_size + header["d2t"]["data_offsets"][0].get<size_t>() + 2] = 1;  // 65536 further
  expect_misfit(outside, "d2t[0] = 65536 leads outside the vocabulary of 320");
  expect_misfit(with("\"d2t\"", "\"d3t\""), "d2t is missing");
  expect_misfit(with("\"fc.weight\"", "\"fx.weight\""), "tensor fc.weight is missing");
}

// Strings of a file never reach the terminal raw, be it as a report, as JSON or in an error.
TEST_F(ProgramTest, NamesFromAModelAreFitToPrint) {
  haast::testing::TinyLlama llama;
  const std::string folder = haast::testing::WriteTinyFolder(llama, files_->dir.Join("bell\x07\xc2\x9b"));
  const std::string config = ReadFile(folder + "/config.json");
  for (const Args& args : {Args{"info", folder}, Args{"info", folder, "--json"}}) {
    const Ran info = Haast(args);
    EXPECT_EQ(info.code, kExitOk) << info.err;
    EXPECT_EQ(info.out.find("\x07"), std::string::npos) << info.out;
    EXPECT_EQ(info.out.find("\xc2\x9b"), std::string::npos) << info.out;
  }
  EXPECT_EQ(Haast({"info", folder, "--json"}).json()["name"], "bell\x07\xc2\x9b") << "JSON keeps the name, escaped";
  const size_t at = config.find("LlamaForCausalLM");
  Write("bell\x07\xc2\x9b/config.json", config.substr(0, at) + "\\u001b[31mred" + config.substr(at));
  const Ran refused = Haast({"info", folder});
  EXPECT_EQ(refused.code, kExitFile);
  EXPECT_THAT(refused.err, HasSubstr("\xEF\xBF\xBD[31mred"));
  EXPECT_EQ(refused.err.find('\x1b'), std::string::npos);
}

TEST_F(ProgramTest, AFolderWithoutAVocabularySaysWhichFileIsMissing) {
  haast::testing::TinyLlama llama;
  const std::string folder = haast::testing::WriteTinyFolder(llama, files_->dir.Join("no_text"));
  ExpectError(Haast({"generate", "--model", folder, "hello"}), kExitFile, "tokenizer.json in a folder");
  Write("no_text/tokenizer.json", "");
  ExpectError(Haast({"generate", "--model", folder, "hello"}), kExitFile, "no_text/tokenizer.json: expected text, got an empty file");
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
  for (const char* command : {"generate", "chat", "bench", "info", "devices", "features", "check"}) {
    const Ran ran = Haast({command, "--help"});
    EXPECT_EQ(ran.code, kExitOk) << command;
    EXPECT_THAT(ran.out, HasSubstr("--help")) << command;
    EXPECT_THAT(Haast({"--help"}).out, HasSubstr(command));
    EXPECT_EQ(Haast({command, "--no-such-flag"}).code, kExitUsage) << command;
  }
  EXPECT_THAT(Haast({"--version"}).out, ::testing::MatchesRegex("haast [0-9]+\\.[0-9]+\\.[0-9]+\n"));
  EXPECT_EQ(Haast({}).code, kExitUsage);
  ExpectError(Haast({"serve"}), kExitUsage, "expected a command (generate, chat, bench, info, devices, features, check), got 'serve'");
}

}  // namespace
}  // namespace haast::cli::testing
