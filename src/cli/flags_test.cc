// Flags: what is accepted, what is refused and in which words.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/cpu.h"
#include "base/format.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "cli/output.h"
#include "haast/limits.h"
#include "support/tiny_models.h"

namespace haast::cli {
namespace {

using ::testing::HasSubstr;

// Both streams of a parse, as files.
class FlagsTest : public ::testing::Test {
 protected:
  FlagsTest() {
    AddModelFlags(app_, model_);
    AddSamplingFlags(app_, sampling_);
    app_.add_option("PROMPT", prompt_);
    app_.add_option("--stop", stops_)->expected(1)->take_all()->allow_extra_args(false);
    out_fd_ = open(dir_.Join("out").c_str(), O_WRONLY | O_CREAT, 0600);
    err_fd_ = open(dir_.Join("err").c_str(), O_WRONLY | O_CREAT, 0600);
  }
  ~FlagsTest() override {
    close(out_fd_);
    close(err_fd_);
  }

  std::optional<int> ParseArgs(const std::vector<std::string>& args) {
    Output out(out_fd_);
    Output err(err_fd_);
    return Parse(app_, args, out, err);
  }

  std::string Read(const char* name) {
    std::ostringstream text;
    text << std::ifstream(dir_.Join(name)).rdbuf();
    return text.str();
  }

  void ExpectRefused(const std::vector<std::string>& args, const std::string& message) {
    EXPECT_EQ(ParseArgs(args), kExitUsage) << args.back();
    EXPECT_THAT(Read("err"), HasSubstr(message));
    EXPECT_THAT(Read("err"), HasSubstr("See `haast test --help`."));
  }

  testing::TempDir dir_;
  CLI::App app_{"", "haast test"};
  ModelFlags model_;
  SamplingFlags sampling_;
  std::string prompt_;
  std::vector<std::string> stops_;
  int out_fd_;
  int err_fd_;
};

TEST_F(FlagsTest, AllValuesArrive) {
  EXPECT_EQ(ParseArgs({"--model",
                       "m.gguf",
                       "--draft=h",
                       "--num-draft-tokens",
                       "7",
                       "--threads",
                       "3",
                       "--kv-dtype",
                       "f32",
                       "--context",
                       "100",
                       "--kv-tokens",
                       "200",
                       "--backend",
                       "ref",
                       "--prefill-chunk",
                       "9",
                       "--draft-quantization",
                       "q8_0",
                       "--temperature",
                       "0.5",
                       "--top-k",
                       "5",
                       "--top-p",
                       "0.9",
                       "--min-p",
                       "0.1",
                       "--repetition-penalty",
                       "1.25",
                       "--frequency-penalty",
                       "-0.5",
                       "--presence-penalty",
                       "1.5",
                       "--logit-bias",
                       "7=-2.5",
                       "--logit-bias=12=100",
                       "--min-tokens",
                       "4",
                       "--seed",
                       "18446744073709551615",
                       "--max-tokens",
                       "12",
                       "--ignore-eos",
                       "hello"}),
            std::nullopt);
  const EngineOptions options = ToEngineOptions(model_, "m.gguf", "h");
  EXPECT_EQ(options.model, "m.gguf");
  EXPECT_EQ(options.draft, "h");
  EXPECT_EQ(options.threads, 3);
  EXPECT_EQ(options.kv_dtype, KvDtype::kF32);
  EXPECT_EQ(options.max_context, 100);
  EXPECT_EQ(options.kv_tokens, 200);
  EXPECT_EQ(options.backend, "ref");
  EXPECT_EQ(options.prefill_chunk, 9);
  EXPECT_TRUE(options.prefix_cache);
  model_.no_prefix_cache = true;
  EXPECT_FALSE(ToEngineOptions(model_, "m.gguf", "h").prefix_cache);
  EXPECT_EQ(options.preemption, Preemption::kRecompute);
  model_.preemption = "swap";
  model_.swap_directory = "there";
  EXPECT_EQ(ToEngineOptions(model_, "m.gguf", "h").preemption, Preemption::kSwap);
  EXPECT_EQ(ToEngineOptions(model_, "m.gguf", "h").swap_directory, "there");
  EXPECT_EQ(options.draft_quantisation, "q8_0");
  ModelInfo head;
  head.architecture = "eagle3";
  EXPECT_EQ(ToSpeculation(model_, &head).num_draft_tokens, 7);
  const SamplingParams sampling = ToSampling(sampling_);
  EXPECT_EQ(sampling.temperature, 0.5f);
  EXPECT_EQ(sampling.top_k, 5);
  EXPECT_EQ(sampling.top_p, 0.9f);
  EXPECT_EQ(sampling.min_p, 0.1f);
  EXPECT_EQ(sampling.repetition_penalty, 1.25f);
  EXPECT_EQ(sampling.frequency_penalty, -0.5f);
  EXPECT_EQ(sampling.presence_penalty, 1.5f);
  ASSERT_EQ(sampling.logit_bias.size(), 2u);
  EXPECT_EQ(sampling.logit_bias[0].token, 7);
  EXPECT_EQ(sampling.logit_bias[0].bias, -2.5f);
  EXPECT_EQ(sampling.logit_bias[1].token, 12);
  EXPECT_EQ(sampling.logit_bias[1].bias, 100.0f);
  EXPECT_EQ(sampling_.min_tokens, 4);
  EXPECT_EQ(sampling.seed, UINT64_MAX);
  EXPECT_EQ(sampling_.max_tokens, 12);
  EXPECT_TRUE(sampling_.ignore_eos);
  EXPECT_EQ(prompt_, "hello");
}

TEST_F(FlagsTest, LeadingZerosAreDecimal) {
  EXPECT_EQ(ParseArgs({"--top-k", "010", "--seed", "0011"}), std::nullopt);
  EXPECT_EQ(sampling_.top_k, 10);
  EXPECT_EQ(sampling_.seed, 11u);
}

TEST_F(FlagsTest, HostileNumbersAreRefused) {
  ExpectRefused({"--top-k", "-1"}, "expected a whole number from 0 to 2147483647, got '-1'");
  ExpectRefused({"--top-k", "99999999999999999999"}, "got '99999999999999999999'");
  ExpectRefused({"--max-tokens", "0"}, "expected a whole number from 1");
  ExpectRefused({"--max-tokens", "1e3"}, "got '1e3'");
  ExpectRefused({"--max-tokens", "12x"}, "got '12x'");
  ExpectRefused({"--max-tokens", ""}, "got ''");
  ExpectRefused({"--threads", "1000000"}, "expected a whole number from 0 to 1024");
  ExpectRefused({"--seed", "-1"}, "expected a whole number from 0 to 18446744073709551615, got '-1'");
  ExpectRefused({"--seed", "18446744073709551616"}, "got '18446744073709551616'");
  ExpectRefused({"--temperature", "nan"}, "expected a number from 0 and at most 100, got 'nan'");
  ExpectRefused({"--temperature", "inf"}, "got 'inf'");
  ExpectRefused({"--temperature=-0.1"}, "got '-0.1'");
  ExpectRefused({"--temperature", "1e999"}, "got '1e999'");
  ExpectRefused({"--top-p", "0"}, "expected a number above 0 and at most 1, got '0'");
  ExpectRefused({"--min-p", "1.5"}, "got '1.5'");
  ExpectRefused({"--repetition-penalty", "0"}, "expected a number above 0 and at most 100, got '0'");
  ExpectRefused({"--frequency-penalty", "2.1"}, "expected a number from -2 and at most 2, got '2.1'");
  ExpectRefused({"--presence-penalty", "nan"}, "got 'nan'");
  ExpectRefused({"--min-tokens", "-1"}, "got '-1'");
  for (const char* bad : {"7", "=1", "7=", "7=x", "-7=1", "7=100.5", "7=nan", "a=1", "7=1=2", "99999999999=1", "7=1e-320", "7=1e-40"}) {
    ExpectRefused({"--logit-bias", bad}, std::string("expected a token id, = and a number from -100 to 100 (0, or at least 1.2e-38 beside "
                                                     "it), got '") +
                                             bad + "'");
  }
  ExpectRefused({"--num-draft-tokens", "64"}, "expected a whole number from 0 to 63, got '64'");
  ExpectRefused({"--num-draft-tokens", "0x4"}, "got '0x4'");
}

// Flags hold numbers as fp32, where these are 0 or have lost digits: to be refused here rather than, as 0, by the engine.
TEST_F(FlagsTest, NumbersThatFp32DoesNotHoldAreRefused) {
  for (const char* flag : {"--temperature", "--top-p", "--min-p", "--repetition-penalty", "--frequency-penalty", "--presence-penalty"}) {
    for (const char* tiny : {"1e-320", "1e-300", "1e-46", "1.1e-38"}) {
      ExpectRefused({flag, tiny}, fmt::format("got '{}', too close to 0: the least beside it is 1.2e-38", tiny));
    }
    EXPECT_EQ(ParseArgs({flag, "1.2e-38"}), std::nullopt) << flag;
  }
  ExpectRefused({"--presence-penalty=-1e-300"}, "got '-1e-300', too close to 0");
  EXPECT_EQ(ParseArgs({"--temperature", "0.0", "--min-p", "0", "--frequency-penalty", "-0"}), std::nullopt);
  EXPECT_EQ(ParseArgs({"--logit-bias", "7=0", "--logit-bias", "7=-1.2e-38"}), std::nullopt);
}

TEST_F(FlagsTest, EmptyPathsAreRefused) {
  for (const char* flag : {"--model", "--draft", "--draft-model", "--trace-metadata"}) {
    ExpectRefused({flag, ""}, std::string(flag) + ": expected a path, got ''");
    ExpectRefused({std::string(flag) + "="}, std::string(flag) + ": expected a path, got ''");
  }
}

// The engine's own bounds, in help and check.
TEST_F(FlagsTest, RangesAreTheEngines) {
  ExpectRefused({"--context", "1073741825"}, fmt::format("expected a whole number from 0 to {}", kMaxContext));
  ExpectRefused({"--kv-tokens", "2147483648"}, fmt::format("expected a whole number from 0 to {}", kMaxKvTokens));
  ExpectRefused({"--prefill-chunk", "65537"}, fmt::format("expected a whole number from 1 to {}", kMaxPrefillChunk));
  EXPECT_EQ(ParseArgs({"--help"}), kExitOk);
  for (const char* range : {"--context INT:0..1073741824", "--kv-tokens INT:0..2147481600", "--prefill-chunk INT:1..65536"}) {
    EXPECT_THAT(Read("out"), HasSubstr(range));
  }
}

TEST_F(FlagsTest, UnknownWordsAndFlagsAreRefused) {
  ExpectRefused({"--kv-dtype", "f8"}, "expected one of f16, f32, got 'f8'");
  ExpectRefused({"--speculative-sampling", "exact"}, "expected one of coupled, rejection, got 'exact'");
  ExpectRefused({"--preemption", "drop"}, "expected one of recompute, swap, got 'drop'");
  ExpectRefused({"--backend", "gpu"}, "expected one of cpu, ref, got 'gpu'");
  ExpectRefused({"--speculative-algorithm", "EAGLE9"}, "expected one of eagle3, eagle, draft_model, ngram, suffix, none, got 'EAGLE9'");
  ExpectRefused({"--draft-quantisation", "q2"}, "expected one of auto, q8_0, q4_1, none, got 'q2'");
  ExpectRefused({"--temprature", "1"}, "unknown flag --temprature");
  ExpectRefused({"one", "two"}, "unexpected argument 'two'");
  ExpectRefused({"--model"}, "--model");
}

TEST_F(FlagsTest, FlagsWithoutAValueTakeNone) {
  for (const char* value : {"3", "false", ""})
    ExpectRefused({std::string("--ignore-eos=") + value}, fmt::format("--ignore-eos: expected no value, got '{}'", value));
  EXPECT_EQ(ParseArgs({"--", "--ignore-eos=3"}), std::nullopt) << "a prompt";
  EXPECT_EQ(ParseArgs({"--ignore-eos"}), std::nullopt);
  EXPECT_TRUE(sampling_.ignore_eos);
}

TEST_F(FlagsTest, StopsAreTakenAsTheyAre) {
  EXPECT_EQ(ParseArgs({"--stop", "[a,b]", "--stop", "x y", "--stop", "", "prompt"}), std::nullopt);
  EXPECT_THAT(stops_, ::testing::ElementsAre("[a,b]", "x y", ""));
  EXPECT_EQ(prompt_, "prompt");
}

TEST_F(FlagsTest, PromptsMayLookLikeFlagsOrLists) {
  EXPECT_EQ(ParseArgs({"--", "--seed is a flag"}), std::nullopt);
  EXPECT_EQ(prompt_, "--seed is a flag");
}

TEST_F(FlagsTest, BracketsInPromptsStay) {
  EXPECT_EQ(ParseArgs({"[1,2]"}), std::nullopt);
  EXPECT_EQ(prompt_, "[1,2]");
}

TEST_F(FlagsTest, HelpNamesEveryFlagWithItsDefault) {
  EXPECT_EQ(ParseArgs({"--help"}), kExitOk);
  const std::string help = Read("out");
  for (const char* part : {"--model", "--draft", "--speculative-algorithm", "--num-draft-tokens", "--no-speculation", "--threads",
                           "--kv-dtype", "--prefill-chunk", "--temperature", "--max-tokens", "--top-p", "--ignore-eos"}) {
    EXPECT_THAT(help, HasSubstr(part));
  }
  // "=f16" or "[f16]": CLI11's versions differ.
  for (const char* value : {"f16", "512", "256"}) EXPECT_THAT(help, ::testing::ContainsRegex(std::string("[=[]") + value)) << value;
  EXPECT_EQ(Read("err"), "");
}

TEST(SpeculationFlagsTest, AlgorithmFollowsFlagsAndHead) {
  ModelFlags flags;
  ModelInfo head;
  head.architecture = "eagle3";
  EXPECT_EQ(ToSpeculation(flags, &head).algorithm, SpeculativeAlgorithm::kEagle3);
  EXPECT_EQ(ToSpeculation(flags, nullptr).algorithm, SpeculativeAlgorithm::kNone);
  flags.algorithm = "none";
  EXPECT_TRUE(SpeculationOff(flags));
  EXPECT_EQ(ToSpeculation(flags, &head).algorithm, SpeculativeAlgorithm::kNone);
  flags.algorithm = "eagle3";
  EXPECT_FALSE(SpeculationOff(flags));
  EXPECT_TRUE(CheckModelFlags(flags).has_value());
  flags.no_speculation = true;
  EXPECT_EQ(CheckModelFlags(flags).error().code, ErrorCode::kInvalidArgument);
}

TEST(SpeculationFlagsTest, EveryDrafterHasItsNameAndItsSource) {
  for (int i = 0; i < kNumSpeculativeAlgorithms; ++i) {
    const auto algorithm = static_cast<SpeculativeAlgorithm>(i);
    EXPECT_EQ(SpeculativeAlgorithmOf(SpeculativeAlgorithmName(algorithm)), algorithm) << i;
  }
  EXPECT_EQ(SpeculativeAlgorithmOf("eagle9"), std::nullopt);
  EXPECT_STREQ(SpeculativeAlgorithmName(SpeculativeAlgorithm::kEnd), "unknown");
  EXPECT_EQ(DraftSourceOf(SpeculativeAlgorithm::kEagle), DraftSource::kEagleHead);
  EXPECT_EQ(DraftSourceOf(SpeculativeAlgorithm::kDraftModel), DraftSource::kDraftModel);
  EXPECT_EQ(DraftSourceOf(SpeculativeAlgorithm::kSuffix), DraftSource::kTokens);
}

TEST(SpeculationFlagsTest, RejectionDraftsChainsOfAFixedLength) {
  ModelFlags flags;
  EXPECT_EQ(ToSpeculation(flags, nullptr).sampling, SpeculativeSampling::kCoupled);
  EXPECT_TRUE(ToSpeculation(flags, nullptr).automatic);
  flags.speculative_sampling = "rejection";
  EXPECT_TRUE(CheckModelFlags(flags).has_value());
  EXPECT_EQ(ToSpeculation(flags, nullptr).sampling, SpeculativeSampling::kRejection);
  EXPECT_FALSE(ToSpeculation(flags, nullptr).automatic);
  EXPECT_EQ(ToSpeculation(flags, nullptr).num_draft_tokens, 3);
  flags.num_draft_tokens = 6;
  EXPECT_EQ(ToSpeculation(flags, nullptr).num_draft_tokens, 6);
  flags.draft_top_k = 4;
  EXPECT_THAT(CheckModelFlags(flags).error().message, HasSubstr("leave out --draft-top-k 4"));
}

TEST(SwapFlagsTest, ADirectoryIsThereAndUsed) {
  const testing::TempDir dir;
  ModelFlags flags;
  flags.swap_directory = dir.path();
  flags.preemption = "swap";
  EXPECT_TRUE(CheckModelFlags(flags).has_value());
  flags.swap_directory = dir.Join("missing");
  EXPECT_THAT(
      CheckModelFlags(flags).error().message,
      HasSubstr(flags.swap_directory + ": cannot be written: No such file or directory: expected a folder that can be written: create"));
  EXPECT_TRUE(std::filesystem::is_empty(dir.path())) << "nothing is left of the check";
}

TEST(ThreadFlagsTest, FarMoreThreadsThanProcessorsAreRefused) {
  ModelFlags flags;
  flags.threads = 16;
  EXPECT_TRUE(CheckModelFlags(flags).has_value());
  flags.threads = 4 * base::UsableCpus() + 17;
  const Status status = CheckModelFlags(flags);
  ASSERT_FALSE(status.has_value());
  EXPECT_THAT(status.error().message, HasSubstr("--threads " + std::to_string(flags.threads)));
  EXPECT_THAT(status.error().message, HasSubstr("0 for all"));
}

}  // namespace
}  // namespace haast::cli
