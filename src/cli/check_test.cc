// `haast check` from file to exit code, and that the traces of real runs are clean.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "cli/exit_code.h"
#include "cli/program_harness.h"

namespace haast::cli::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr const char* kStale = "examples/metadata/stale_draft_extend.jsonl";
constexpr const char* kClean = "examples/metadata/clean.jsonl";

class CheckTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { files_ = new TinyFiles(); }
  static void TearDownTestSuite() {
    delete files_;
    files_ = nullptr;
  }

  static void ExpectDone(const Ran& ran) { EXPECT_EQ(ran.code, kExitOk) << ran.err; }
  static Ran Haast(const Args& args, const std::string& input = "") { return RunHaast(files_->dir, args, input); }
  static std::string Path(const std::string& name) { return files_->dir.Join(name); }
  static std::string Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }

  // The trace is clean; the (model, mode) pairs in it.
  static std::set<std::pair<std::string, std::string>> ExpectClean(const std::string& path) {
    const Ran ran = Haast({"check", "--json", path});
    EXPECT_EQ(ran.code, kExitOk) << ran.out.substr(0, 4000) << ran.err;
    EXPECT_EQ(ran.json()["violations"], 0);
    EXPECT_TRUE(ran.json()["notes"].empty()) << ran.json()["notes"];
    std::set<std::pair<std::string, std::string>> kinds;
    std::ifstream lines(path);
    int64_t launches = 0;
    for (std::string line; std::getline(lines, line); ++launches) {
      const json launch = json::parse(line);
      kinds.emplace(launch["model"], launch["mode"]);
    }
    EXPECT_EQ(ran.json()["launches"], launches);
    return kinds;
  }

  static TinyFiles* files_;
};
TinyFiles* CheckTest::files_ = nullptr;

TEST_F(CheckTest, TheStartingFaultIsReportedAsDocumented) {
  const Ran ran = Haast({"check", kStale});
  EXPECT_EQ(ran.code, kExitRuntime);
  EXPECT_EQ(ran.err, "");
  EXPECT_THAT(ran.out, HasSubstr("stale_draft_extend.jsonl:2: draft_extend of draft: q has 4 rows but qo_indptr ends at 80"));
  EXPECT_THAT(ran.out, HasSubstr("stale: qo_indptr is that of line 1 (extend, 80 rows)"));
  EXPECT_THAT(ran.out, HasSubstr("kv_len is 84 but kv_indptr holds 80 entries"));
  EXPECT_THAT(ran.out, HasSubstr("stale: kv_indptr is that of line 1"));
  EXPECT_THAT(ran.out, HasSubstr("max_q_len is 0 but the longest sequence has 80 query rows"));
  EXPECT_THAT(ran.out, HasSubstr("2 launches, 3 violations in 1 of them"));
  EXPECT_THAT(ReadFile("docs/check.md"), HasSubstr("$ haast check " + std::string(kStale) + "\n" + ran.out));
}

TEST_F(CheckTest, CleanDumpsExitWithZero) {
  const Ran ran = Haast({"check", kClean});
  EXPECT_EQ(ran.code, kExitOk) << ran.out;
  EXPECT_THAT(ran.out, HasSubstr("launches, no violation\n"));
  const std::string page = ReadFile("docs/check.md");
  const size_t begin = page.find("{\"format\": 1");
  const Ran documented = Haast({"check", "-"}, [&] {
    std::string line = page.substr(begin, page.find("```", begin) - begin);
    std::replace(line.begin(), line.end(), '\n', ' ');
    return line;
  }());
  EXPECT_EQ(documented.code, kExitOk) << documented.out;
  EXPECT_THAT(documented.out, HasSubstr("1 launches, no violation"));
}

TEST_F(CheckTest, JsonHasTheDocumentedFields) {
  const Ran ran = Haast({"check", "--json", kStale});
  EXPECT_EQ(ran.code, kExitRuntime);
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1);
  const json report = ran.json();
  EXPECT_EQ(report["file"], kStale);
  EXPECT_EQ(report["launches"], 2);
  EXPECT_EQ(report["launches_violated"], 1);
  EXPECT_EQ(report["violations"], 3);
  const json& finding = report["findings"][0];
  EXPECT_EQ(finding["line"], 2);
  EXPECT_EQ(finding["model"], "draft");
  EXPECT_EQ(finding["mode"], "draft_extend");
  EXPECT_EQ(finding["invariant"], "row_count");
  EXPECT_EQ(finding["array"], "qo_indptr");
  EXPECT_EQ(finding["index"], 1);
  EXPECT_EQ(finding["sequence"], 0);
  EXPECT_EQ(finding["expected"], 4);
  EXPECT_EQ(finding["actual"], 80);
  EXPECT_EQ(finding["more"], 0);
  EXPECT_TRUE(report["findings"][2]["index"].is_null());
  const std::string page = ReadFile("docs/check.md");
  for (const auto& [field, unused] : report.items()) EXPECT_THAT(page, HasSubstr("\"" + field + "\""));
  for (const auto& [field, unused] : finding.items()) EXPECT_THAT(page, HasSubstr("\"" + field + "\""));
}

TEST_F(CheckTest, UnreadableInputHasItsOwnExitCode) {
  const std::string stale = ReadFile(kStale);
  EXPECT_EQ(Haast({"check", "-"}, stale).code, kExitRuntime);
  const Ran cut = Haast({"check", "-"}, stale.substr(0, stale.size() - 10));
  EXPECT_EQ(cut.code, kExitFile);
  EXPECT_THAT(cut.out, HasSubstr("standard input:2: expected a JSON object"));
  EXPECT_THAT(cut.out, HasSubstr("1 launches, no violation; 1 lines cannot be read"));
  const Ran missing = Haast({"check", Path("none.jsonl")});
  EXPECT_EQ(missing.code, kExitFile);
  EXPECT_THAT(missing.err, HasSubstr("none.jsonl: cannot be opened: No such file or directory"));
  EXPECT_EQ(Haast({"check", files_->dir.path()}).code, kExitFile);
  EXPECT_EQ(Haast({"check", Write("empty.jsonl", "")}).code, kExitFile);
  EXPECT_EQ(Haast({"check"}).code, kExitUsage);
  const Ran unknown = Haast({"check", Write("theirs.jsonl", R"({"qo_indptr": [0, 1], "seq_lens": [4]})")});
  EXPECT_EQ(unknown.code, kExitOk);
  EXPECT_THAT(unknown.err, HasSubstr("haast check: "));
  EXPECT_THAT(unknown.err, HasSubstr("unknown field seq_lens, not checked; here it is called kv_len"));
}

// A dump is another program's: what it names must neither reach the terminal raw nor fill it.
TEST_F(CheckTest, NamesFromADumpAreFitToPrint) {
  const std::string name = "\\u001b]0;owned\\u0007" + std::string(5000, 'x');
  const std::string bad =
      R"({"model": ")" + name + R"(", "mode": ")" + name + R"(", ")" + name + R"(": 1, "qo_indptr": [0, 3], "q_shape": [2]})";
  const Ran ran = Haast({"check", Write("escapes.jsonl", bad + "\n{\"qo_indptr\": \"" + name + "\"}\n")});
  EXPECT_EQ(ran.code, kExitFile);
  for (const std::string& shown : {ran.out, ran.err}) {
    EXPECT_THAT(shown, HasSubstr("\xEF\xBF\xBD]0;owned\xEF\xBF\xBDxxx"));
    EXPECT_THAT(shown, HasSubstr("x…"));
    EXPECT_EQ(shown.find_first_of("\x1b\x07"), std::string::npos) << shown;
    EXPECT_LT(shown.size(), 2000u);
  }
}

TEST_F(CheckTest, AByteOrderMarkIsNoPartOfADump) {
  const Ran ran = Haast({"check", "-"}, "\xEF\xBB\xBF" + ReadFile(kClean));
  EXPECT_EQ(ran.code, kExitOk) << ran.out;
}

TEST_F(CheckTest, TracesOfSpeculativeRunsAreClean) {
  using Kinds = std::set<std::pair<std::string, std::string>>;
  const std::string path = Path("trace.jsonl");
  const Args chain = files_->Flags() + Args{"--max-tokens", "40", "--ignore-eos", "--trace-metadata", path};
  const Ran plain = Haast(Args{"generate", "--json"} + files_->Flags() + Args{"--max-tokens", "40", "--ignore-eos", "hello there"});
  const Ran traced = Haast(Args{"generate", "--json"} + chain + Args{"hello there"});
  ASSERT_EQ(traced.code, kExitOk) << traced.err;
  EXPECT_EQ(traced.json()["token_ids"], plain.json()["token_ids"]);
  const Kinds speculative = {{"target", "extend"}, {"target", "target_verify"}, {"draft", "draft_extend"}, {"draft", "draft_decode"}};
  const Kinds kinds = ExpectClean(path);
  EXPECT_TRUE(std::includes(kinds.begin(), kinds.end(), speculative.begin(), speculative.end()));
  // A tree, and small chunks.
  const Args tree = {"--draft-top-k", "3", "--draft-depth", "2", "--prefill-chunk", "5"};
  ExpectDone(Haast(Args{"generate"} + chain + tree + Args{"hello there"}));
  ExpectClean(path);
  ExpectDone(Haast(Args{"generate"} + chain + Args{"--no-speculation", "hello there"}));
  EXPECT_EQ(ExpectClean(path), (Kinds{{"target", "extend"}, {"target", "decode"}}));
  ExpectDone(Haast(Args{"chat"} + chain, "hello\nagain\n/quit\n"));
  ExpectClean(path);
  const std::string prompts = Write("p.jsonl", "{\"turns\": [\"one\"]}\n{\"turns\": [\"two\"]}\n{\"turns\": [\"three\"]}\n");
  const Ran bench = Haast(Args{"bench", "--no-steps", "--repeats", "1", "--prompts", prompts, "--concurrency", "3"} + chain);
  ASSERT_EQ(bench.code, kExitOk) << bench.err;
  ExpectClean(path);
}

TEST_F(CheckTest, TracesThatCannotBeWrittenAreErrors) {
  const Args flags = files_->Flags() + Args{"--max-tokens", "8", "--ignore-eos"};
  const Ran nowhere = Haast(Args{"generate"} + flags + Args{"--trace-metadata", Path("none/trace.jsonl"), "hello"});
  EXPECT_EQ(nowhere.code, kExitFile);
  EXPECT_EQ(nowhere.out, "") << "refused before anything runs";
  EXPECT_THAT(nowhere.err, HasSubstr("none/trace.jsonl: launch metadata cannot be written there: No such file or directory"));
  const Ran full = Haast(Args{"generate"} + flags + Args{"--trace-metadata", "/dev/full", "hello"});
  EXPECT_EQ(full.code, kExitFile);
  EXPECT_EQ(full.out, Haast(Args{"generate"} + flags + Args{"hello"}).out) << "the answer is whole";
  EXPECT_THAT(full.err, HasSubstr("/dev/full: writing launch metadata failed after 0 whole launches: No space left on device"));
  const Ran steps = Haast(Args{"bench"} + flags + Args{"--trace-metadata", Path("trace.jsonl")});
  EXPECT_EQ(steps.code, kExitUsage);
  EXPECT_THAT(steps.err, HasSubstr("give --prompts FILE"));
}

}  // namespace
}  // namespace haast::cli::testing
