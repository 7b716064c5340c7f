// What a newcomer gets wrong, and what is then said: flags by their names, nothing ignored in silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>

#include "base/cpu.h"
#include "base/format.h"
#include "cli/exit_code.h"
#include "cli/program_harness.h"

namespace haast::cli::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class UsageTest : public ProgramTest {
 protected:
  static std::string Prompts() { return Write("p.jsonl", "{\"turns\": [\"one\"]}\n{\"turns\": [\"two\"]}\n"); }
  static Ran Bench(const Args& more) { return Haast(Args{"bench"} + files_->Flags() + more); }
  static Args Model() { return {"--model", files_->model, "--draft", files_->head, "--threads", "1"}; }
  static void ExpectNote(const Ran& ran, const std::string& note) {
    EXPECT_EQ(ran.code, kExitOk) << ran.err;
    EXPECT_THAT(ran.err, HasSubstr(": note: " + note));
  }
};

TEST_F(UsageTest, TheEnginesRefusalsNameFlags) {
  ExpectError(Generate({"--context", "99999", "hi"}), kExitUsage, "haast generate: --context = 99999: expected 0 to 512");
  ExpectError(Generate({"--draft-top-k", "16", "--draft-depth", "6", "hi"}), kExitUsage, "--draft-top-k = 16 and --draft-depth = 6");
  const Args small = Model() + Args{"--kv-tokens", "32", "--max-tokens", "400"};
  ExpectError(Haast(Args{"generate", "hi"} + small), kExitUsage, "lower --max-tokens or raise --kv-tokens");
  ExpectError(Generate({"--logit-bias", "9999999=1", "hi"}), kExitUsage, "--logit-bias of token 9999999");
  ExpectError(Generate({std::string(4000, 'x')}), kExitUsage, "or raise --context");
  ExpectError(Bench({"--depth", "100000"}), kExitUsage, "lower --depth, --prefill-tokens or --decode-tokens");
  ExpectError(Haast(Args{"bench", "--prefill-tokens", "30"} + Model() + Args{"--kv-tokens", "32"}), kExitUsage, "raise --kv-tokens");
  const Ran chat = Haast(Args{"chat"} + small, "hello\n");
  EXPECT_THAT(chat.err, HasSubstr("lower --max-tokens or raise --kv-tokens"));
}

TEST_F(UsageTest, PathsThatCannotBeReadComeWithTheirFlagAndWhatWasExpected) {
  const std::string none = files_->dir.Join("none");
  const std::string model =
      ": cannot open: No such file or directory: expected a GGUF file, a .safetensors file or a folder of a model or head";
  ExpectError(Haast({"generate", "--model", none, "hi"}), kExitFile, "haast generate: --model " + none + model);
  ExpectError(Haast({"generate", "--model", files_->model, "--draft", none, "hi"}), kExitFile, "--draft " + none + model);
  ExpectError(Haast({"info", none}), kExitFile, "haast info: MODEL " + none + model);
  ExpectError(Haast({"generate", "--file", none}), kExitFile, "--file " + none + ": cannot be opened: No such file or directory: expected");
  ExpectError(Bench({"--prompts", none}), kExitFile, "--prompts " + none + ": cannot be opened");
  ExpectError(Haast({"check", none}), kExitFile, "FILE " + none + ": cannot be opened");
  ExpectError(Haast(Args{"generate", "--resume", none} + Model()), kExitFile,
              "--resume " + none + ": cannot open: No such file or directory: expected a saved");
}

TEST_F(UsageTest, AModelForAHeadAndAHeadForAModel) {
  ExpectError(Haast({"generate", "--model", files_->model, "--draft", files_->model, "hi"}), kExitFile,
              "expected an EAGLE head, got a whole model ('llama'): to draft with it give it as --draft-model, with "
              "--speculative-algorithm draft_model");
  ExpectError(Haast({"generate", "--model", files_->head, "hi"}), kExitFile,
              "--model " + files_->head + ": expected a whole model, got a draft head ('eagle3'), which goes to --draft");
  ExpectError(Haast({"generate", "--model", files_->model, "--speculative-algorithm", "draft_model", "--draft-model", files_->head, "hi"}),
              kExitFile, "--draft-model " + files_->head + ": expected a whole model, got a draft head");
  EXPECT_THAT(Haast({"info", files_->model, "--draft", files_->model}).out, HasSubstr("give it as --draft-model"));
  EXPECT_EQ(Generate({"--speculative-algorithm", "draft_model", "--draft-model", files_->model, "hi"}).code, kExitOk);
}

TEST_F(UsageTest, PathsThatCannotBeWrittenAreFileErrors) {
  const std::string nowhere = files_->dir.Join("none/x");
  const std::string file = Write("a_file", "kept");
  ExpectError(Generate({"--save", nowhere, "hi"}), kExitFile, "--save " + nowhere + ": cannot be written: No such file");
  ExpectError(Generate({"--trace-metadata", nowhere, "hi"}), kExitFile, "--trace-metadata " + nowhere);
  for (const std::string& folder : {nowhere, file}) {
    ExpectError(Generate({"--preemption", "swap", "--swap-directory", folder, "hi"}), kExitFile,
                "--swap-directory " + folder + ": cannot be written: ");
  }
  const Args unread = {"--model", files_->dir.Join("none.gguf")};
  ExpectError(Haast(Args{"bench", "--costs-out", nowhere} + Model()), kExitFile, "--costs-out " + nowhere + ": cannot be written");
  ExpectError(Haast(Args{"bench", "--costs-out", files_->model} + Model()), kExitUsage, "would overwrite");
  ExpectError(Haast(Args{"bench", "--prompts", Prompts(), "--trace-metadata", nowhere} + Model()), kExitFile,
              "--trace-metadata " + nowhere);
  ExpectError(Haast({"bench", "--costs-out", ""}), kExitUsage, "--costs-out: expected a path");
  EXPECT_EQ(ReadFile(file), "kept");
}

TEST_F(UsageTest, OneFileIsNotWrittenTwice) {
  const std::string path = files_->dir.Join("both");
  const std::string dotted = files_->dir.Join("./both");  // neither is there
  const Args bench = Args{"bench", "--prompts", Prompts()} + Model();
  ExpectError(Haast(bench + Args{"--costs-out", path, "--trace-metadata", dotted}), kExitUsage,
              "haast bench: --costs-out and --trace-metadata would both write " + path + ": give each a path of its own");
  ExpectError(Generate({"--save", path, "--trace-metadata", dotted, "hi"}), kExitUsage,
              "haast generate: --save and --trace-metadata would both write " + path);
  EXPECT_FALSE(std::filesystem::exists(path));
  ExpectError(Haast(bench + Args{"--trace-metadata", files_->model}), kExitUsage, "which is read");
}

TEST_F(UsageTest, AnUnknownInstructionSetIsNamedWithThoseThatAre) {
  setenv("HAAST_ISA", "foo", 1);
  for (const Args& args : {Args{"generate", "hi"} + Model(), Args{"devices"}}) {
    const Ran ran = Haast(args);
    ExpectError(ran, kExitUsage, "environment variable HAAST_ISA is 'foo': expected one of portable");
    EXPECT_THAT(ran.err, HasSubstr("of which this processor has portable"));
  }
  setenv("HAAST_ISA", "portable", 1);
  EXPECT_EQ(Haast({"devices", "--json"}).json()["isa"], "portable");
  unsetenv("HAAST_ISA");
}

TEST_F(UsageTest, MoreTokensAtLeastThanAtMostAreRefusedAsGiven) {
  const std::string why = "--min-tokens 100000 is more than --max-tokens 40: lower it, or raise --max-tokens\n";
  ExpectError(Generate({"--min-tokens", "100000", "hi"}), kExitUsage, "haast generate: " + why);
  const std::string by_default = "--min-tokens 257 is more than --max-tokens 256";
  ExpectError(Bench({"--prompts", Prompts(), "--min-tokens", "257"}), kExitUsage, by_default);
  ExpectError(Haast({"chat", "--min-tokens", "1025"}), kExitUsage, "--min-tokens 1025 is more than --max-tokens 1024");
  EXPECT_EQ(Haast(Args{"generate", "--max-tokens", "100000", "--min-tokens", "100000", "hi"} + files_->Flags()).code, kExitOk)
      << "both are cut to what the context leaves";
}

TEST_F(UsageTest, FlagsWithoutWhatTheyBelongToAreRefused) {
  ExpectError(Generate({"--logprobs", "2", "hi"}), kExitUsage, "--logprobs is printed by --json only");
  ExpectError(Generate({"--prompt-logprobs", "0", "hi"}), kExitUsage, "--prompt-logprobs is printed by --json only");
  ExpectError(Generate({"--save-every", "5", "hi"}), kExitUsage, "--save-every needs a file: give --save FILE");
  ExpectError(Generate({"--draft-depth", "3", "hi"}), kExitUsage, "--draft-depth counts the levels of a tree: give --draft-top-k above 1");
  ExpectError(Generate({"--draft-model", "m", "hi"}), kExitUsage, "--draft-model is used by --speculative-algorithm draft_model only");
  ExpectError(Generate({"--swap-directory", "/tmp", "hi"}), kExitUsage, "--swap-directory is for swapped KV: give --preemption swap");
  for (const char* flag : {"--limit", "--concurrency"})
    ExpectError(Bench({flag, "2"}), kExitUsage, std::string(flag) + " is for the runs over");
  ExpectError(Bench({"--single"}), kExitUsage, "give --prompts FILE");
  ExpectError(Bench({"--no-steps", "--prompts", "p", "--depth", "3"}), kExitUsage, "--depth is for the steps");
  EXPECT_EQ(Generate({"--logprobs", "2", "--save", files_->dir.Join("kept"), "hi"}).code, kExitOk) << "for a --resume with --json";
}

TEST_F(UsageTest, FlagsThatAnotherTurnsOffAreNoted) {
  ExpectNote(Generate({"--no-speculation", "--show-drafts", "hi"}), "--draft, --num-draft-tokens not used without speculation\n");
  ExpectNote(Generate({"--no-speculation", "--show-drafts", "hi"}), "--show-drafts marks nothing without speculation");
  ExpectNote(Generate({"--speculative-algorithm", "ngram", "hi"}), "--draft not used by --speculative-algorithm ngram");
  ExpectNote(Generate({"--speculative-algorithm", "ngram", "--draft-top-k", "4", "--draft-depth", "3", "hi"}),
             "--draft-top-k, --draft-depth not used by --speculative-algorithm ngram, which drafts chains");
  EXPECT_THAT(Generate({"--speculative-algorithm", "suffix", "--draft-top-k", "4", "hi"}).err, Not(HasSubstr("which drafts chains")));
  ExpectNote(Generate({"--top-p", "0.5", "--seed", "3", "hi"}), "--top-p, --seed not used at --temperature 0");
  ExpectNote(Generate({"--min-tokens", "3", "hi"}), "--min-tokens not used with --ignore-eos");
  ExpectNote(Generate({"--backend", "ref", "--draft-quantisation", "none", "hi"}), "--draft-quantisation not used by --backend ref");
  ExpectNote(Haast(Args{"chat"} + files_->Flags() + Args{"--no-speculation"}, "/quit\n"), "--draft, --num-draft-tokens not used");
  EXPECT_THAT(Generate({"--temperature", "1", "--top-p", "0.5", "--seed", "3", "hi"}).err, Not(HasSubstr("note:")));
  const std::string many = fmt::format("{}", base::UsableCpus() + 1);
  ExpectNote(Haast({"generate", "--model", files_->model, "--threads", many, "hi"}),
             "--threads " + many + " are more than the processors that this process may use");
}

TEST_F(UsageTest, UnexpectedArgumentsComeInTheirOrder) {
  ExpectError(Generate({"why", "is", "it"}), kExitUsage, "unexpected argument 'is', 'it': put a prompt of several words in quotes\n");
  ExpectError(Haast({"info", "a", "b", "c"}), kExitUsage, "haast info: unexpected argument 'b', 'c'\nSee `haast info --help`.");
  ExpectError(Haast({"chat", "--temprature", "1"}), kExitUsage, "unknown flag --temprature\n");
}

TEST_F(UsageTest, HelpTakesACommand) {
  const Ran help = Haast({"chat", "--help"});
  EXPECT_EQ(Haast({"help", "chat"}).out, help.out);
  EXPECT_EQ(Haast({"--help", "chat"}).out, help.out);
  EXPECT_EQ(Haast({"help", "chat"}).code, kExitOk);
  ExpectError(Haast({"help", "serve"}), kExitUsage, "expected a command (generate");
}

TEST_F(UsageTest, HelpAndDocumentationNameTheSameFlags) {
  const auto flags_of = [](const std::string& text) {
    std::set<std::string> flags;
    const std::regex flag("--[a-z][a-z-]*");
    for (auto it = std::sregex_iterator(text.begin(), text.end(), flag); it != std::sregex_iterator(); ++it) flags.insert(it->str());
    return flags;
  };
  std::string help = Haast({"--help"}).out;
  for (const char* command : {"generate", "chat", "bench", "info", "devices", "features", "check"}) help += Haast({command, "--help"}).out;
  EXPECT_EQ(flags_of(help), flags_of(ReadFile("docs/cli.md")));
}

TEST_F(UsageTest, ATextFileIsNoDump) {
  std::string text;
  for (int i = 0; i < 50; ++i) text += "some words\n";
  const Ran ran = Haast({"check", Write("words.txt", text)});
  ExpectError(ran, kExitFile, "words.txt: no launch in 50 lines: expected launch metadata");
  EXPECT_THAT(ran.err, HasSubstr("--trace-metadata"));
  EXPECT_THAT(ran.err, HasSubstr("words.txt:1: expected a JSON object"));
  EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1);
  ExpectError(Haast({"check", Write("blank.txt", "\n\n")}), kExitFile, "expected one launch a line, got none");
  const Ran as_json = Haast({"check", "--json", Write("words.txt", text)});
  EXPECT_EQ(as_json.code, kExitFile);
  EXPECT_EQ(as_json.json()["unreadable"].size(), 50u);
}

TEST_F(UsageTest, RepeatedMessagesAreCountedNotListed) {
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += R"({"qo_indptr": [0, 3], "q_shape": [2]})"
            "\nsome words\n";
  const Ran ran = Haast({"check", Write("many.jsonl", text)});
  EXPECT_EQ(ran.code, kExitFile);
  EXPECT_THAT(ran.out, HasSubstr("\n100 more violations: --json lists up to 10000\n"));
  EXPECT_THAT(ran.out, HasSubstr("\n195 more lines cannot be read: --json lists up to 10000\n"));
  EXPECT_THAT(ran.out, HasSubstr("200 launches, 200 violations in 200 of them; 200 lines cannot be read"));
}

TEST_F(UsageTest, WhatDidNotRunHasNoFigures) {
  const Args single = {"--no-steps", "--single", "--repeats", "1", "--max-tokens", "8", "--ignore-eos", "--prompts", Prompts()};
  const Ran plain = Bench(single + Args{"--no-speculation"});
  EXPECT_EQ(plain.code, kExitOk) << plain.err;
  EXPECT_THAT(plain.out, HasSubstr("  no drafts were made\n"));
  for (const char* absent : {"0.00x", "tau", "identical", "plain"}) EXPECT_THAT(plain.out, Not(HasSubstr(absent)));
  const Ran speculative = Bench(single);
  EXPECT_THAT(speculative.out, HasSubstr("  tau "));
  EXPECT_THAT(speculative.out, HasSubstr("answered once: answers_checksum "));
  const auto json = Bench(single + Args{"--json"}).json()["speculation"];
  for (const char* field : {"plain_tps", "speedup", "plain_decode_tps", "decode_speedup", "plain_step"})
    EXPECT_TRUE(json[field].is_null()) << field;
  EXPECT_EQ(json["files"][0]["answers_checksum"],
            Bench(single + Args{"--no-speculation", "--json"}).json()["speculation"]["files"][0]["answers_checksum"]);
  EXPECT_THAT(Haast(Args{"generate", "--max-tokens", "1", "hi"} + files_->Flags()).err, HasSubstr("1 tokens; prompt"));
}

TEST_F(UsageTest, PreemptionsAreCounted) {
  const Args crowded = {"--no-steps", "--repeats", "1", "--concurrency", "2", "--max-tokens", "60", "--ignore-eos", "--prompts", Prompts()};
  const Args room = crowded + Model();
  const Ran text = Haast(Args{"bench", "--kv-tokens", "112"} + room);
  ASSERT_EQ(text.code, kExitOk) << text.err;
  EXPECT_THAT(text.out, HasSubstr("the KV pool was full; raise --kv-tokens for none"));
  EXPECT_GT(Haast(Args{"bench", "--json", "--kv-tokens", "112"} + room).json()["speculation"]["plain_step"]["preemptions"], 0);
  EXPECT_EQ(Haast(Args{"bench", "--json", "--kv-tokens", "4096"} + room).json()["speculation"]["plain_step"]["preemptions"], 0);
}

}  // namespace
}  // namespace haast::cli::testing
