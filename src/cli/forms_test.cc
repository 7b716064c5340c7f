// What is shown: statistics, JSON, marked drafts; and the state of a chat.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "cli/chat_session.h"
#include "cli/compare.h"
#include "cli/draft_view.h"
#include "cli/json_forms.h"
#include "cli/speculation_bench.h"

namespace haast::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// 9 tokens: one of the prompt, then 3 rounds of 3 drafts with 2, 3 and 0 accepted.
Answer ExampleAnswer() {
  Answer answer;
  answer.text = "text";
  for (int i = 0; i < 9; ++i) answer.tokens.push_back({.token = 100 + i, .logprob = -0.5f});
  answer.finish = FinishReason::kLength;
  answer.speculation = {.rounds = 3, .drafted = 9, .accepted = 5, .emitted = 8, .accepted_at = {2, 2, 1}};
  answer.timings = {.queue_seconds = 0.0, .prefill_seconds = 0.5, .decode_seconds = 2.0, .prompt_tokens = 20, .generated_tokens = 9};
  return answer;
}

TEST(AnswerTest, RatesAndShares) {
  const Answer answer = ExampleAnswer();
  EXPECT_DOUBLE_EQ(DecodeTokensPerSecond(answer.timings), 4.0);
  EXPECT_DOUBLE_EQ(PrefillTokensPerSecond(answer.timings), 40.0);
  EXPECT_THAT(PositionAcceptance(answer.speculation), ElementsAre(2.0 / 3, 2.0 / 3, 1.0 / 3));
  EXPECT_EQ(StatisticsLine(answer),
            "9 tokens, 4.0 tokens/s; prompt 20 tokens, 40.0 tokens/s; tau 2.67 over 3 rounds, accepted by position: 67% 67% 33%; finished: "
            "length");
  EXPECT_DOUBLE_EQ(DecodeTokensPerSecond({.decode_seconds = 0.0, .generated_tokens = 1}), 0.0);
}

TEST(AnswerTest, BytesAreThoseOfEveryPass) {
  Answer answer = ExampleAnswer();
  EXPECT_DOUBLE_EQ(BytesRead(answer.speculation, answer.timings, 100, 10), 3 * 100.0 + 9 * 10.0);
  answer.speculation = {};
  EXPECT_DOUBLE_EQ(BytesRead(answer.speculation, answer.timings, 100, 10), 8 * 100.0);
}

TEST(AnswerTest, SpreadOfOddAndEvenCounts) {
  EXPECT_EQ(SpreadOf({3, 1, 2}).median, 2.0);
  EXPECT_EQ(SpreadOf({4, 1, 2, 3}).median, 2.5);
  EXPECT_EQ(SpreadOf({4, 1}).max, 4.0);
  EXPECT_EQ(SpreadOf({}).median, 0.0);
}

TEST(JsonTest, SpeculationAndTimings) {
  const Answer answer = ExampleAnswer();
  EXPECT_EQ(Dump(SpeculationJson(answer.speculation, {SpeculativeAlgorithm::kEagle3, 3})),
            "{\"algorithm\":\"eagle3\",\"num_draft_tokens\":3,\"automatic\":false,\"sampling\":\"coupled\",\"rounds\":3,\"drafted\":9,"
            "\"accepted\":5,\"tau\":2."
            "6666666666666665,"
            "\"position_acceptance\":[0.6666666666666666,0.6666666666666666,0.3333333333333333]}\n");
  EXPECT_EQ(SpeculationJson({}, {})["algorithm"], "none");
  EXPECT_EQ(SpeculationJson({}, {})["tau"], 0.0);
  const Json timings = TimingsJson(answer.timings, 0.25);
  EXPECT_EQ(timings["load_seconds"], 0.25);
  EXPECT_EQ(timings["generated_tokens"], 9);
  EXPECT_EQ(timings["tokens_per_second"], 4.0);
}

TEST(JsonTest, LogprobsOfTokensAndTheirRivals) {
  Answer answer;
  answer.tokens.push_back({.token = 7, .logprob = -0.25f, .top = {{7, -0.25f}, {9, -2.0f}}});
  const auto text = [](int32_t token) { return "t" + std::to_string(token); };
  EXPECT_EQ(Dump(LogprobsJson(answer.tokens, text)),
            "[{\"token_id\":7,\"token\":\"t7\",\"logprob\":-0.25,\"top\":[{\"token_id\":7,\"token\":\"t7\",\"logprob\":-0.25},"
            "{\"token_id\":9,\"token\":\"t9\",\"logprob\":-2.0}]}]\n");
}

TEST(JsonTest, DumpTakesAnyBytesAndNumbers) {
  EXPECT_EQ(Dump({{"text", "a\xff\n"}, {"value", std::nan("")}}), "{\"text\":\"a\xEF\xBF\xBD\\n\",\"value\":null}\n");
}

TEST(JsonTest, BenchHasTheDocumentedFields) {
  BenchReport report;
  report.decode_tps = {1, 2, 3};
  report.verify = {{1, {4, 5, 6}}, {16, {7, 8, 9}}};
  report.decode_roofline = 0.5;
  const Json json = BenchJson(report);
  EXPECT_EQ(json["decode_tps"], 2.0);
  EXPECT_EQ(Dump(json["verify_ms"]), "{\"1\":5.0,\"16\":8.0}\n");
  EXPECT_EQ(json["roofline"], 0.5);
  EXPECT_EQ(json["spread"]["verify_ms"]["16"]["max"], 9.0);
  for (const char* field : {"prefill_tps", "draft_step_ms", "draft_extend_ms", "read_gb_per_s", "int8_tops", "bytes_per_pass"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_TRUE(json["profile"].is_null());
}

TEST(JsonTest, BenchProfilesHaveSharesOfStepAndMemory) {
  BenchReport report;
  report.verify = {{4, {1, 1, 1}, 0.75}};
  report.draft_extend_roofline = 0.25;
  report.read_gb_per_s = 20.0;
  report.profile = {{"verify(4)", 4, 2.0, 10000000, 7, {{"attention", 30, 500.0, 5000000}, {"the rest", 0, 100.0, 0}}}};
  const Json json = BenchJson(report);
  EXPECT_EQ(json["rooflines"]["verify"]["4"], 0.75);
  EXPECT_EQ(json["rooflines"]["draft_extend"], 0.25);
  EXPECT_EQ(Dump(json["profile"][0]["ops"][0]),
            "{\"op\":\"attention\",\"calls\":30,\"microseconds\":500.0,\"share\":0.25,\"bytes\":5000000,\"gb_per_s\":10.0,"
            "\"bandwidth_fraction\":0.5}\n");
  EXPECT_EQ(json["profile"][0]["ops"][1]["share"], 0.05);
}

TEST(JsonTest, HeadsHaveTheirOwnFields) {
  ModelInfo info;
  info.dtypes = {"Q4_1 x 210"};
  EXPECT_FALSE(ModelJson(info).contains("tap_layers"));
  info.target_hidden_size = 64;
  info.tap_layers = {0, 1, 2};
  EXPECT_EQ(Dump(ModelJson(info)["tap_layers"]), "[0,1,2]\n");
}

TEST(DraftViewTest, RejectedDraftsStandBeforeTheBonus) {
  Event event;
  event.tokens = {{.token = 1, .from_draft = true}, {.token = 2}};
  event.drafts = {1, 5, 6};
  event.num_accepted = 1;
  const std::vector<Segment> segments = DraftSegments(event, {" a", " b"}, {" x", "\ny"});
  EXPECT_THAT(segments, ElementsAre(Segment{Mark::kAccepted, " a"}, Segment{Mark::kRejected, " x"}, Segment{Mark::kRejected, "\ny"},
                                    Segment{Mark::kTarget, " b"}));
  EXPECT_EQ(Paint(segments, false), "{ a}[- x-][-\\ny-] b");
  EXPECT_EQ(Paint(segments, true), "\x1b[32m a\x1b[0m\x1b[9;31m x\x1b[0m\x1b[9;31m\\ny\x1b[0m\x1b[1m b\x1b[0m");
}

TEST(DraftViewTest, DraftsAfterTheEndWereNeverJudged) {
  Event event;
  event.tokens = {{.token = 1, .from_draft = true}};
  event.drafts = {1, 5};
  event.num_accepted = 1;
  event.finish = FinishReason::kStop;
  EXPECT_THAT(DraftSegments(event, {"a"}, {"x"}), ElementsAre(Segment{Mark::kAccepted, "a"}));
}

TEST(DraftViewTest, PlainTokensAndEmptyTextsHaveNoMarks) {
  Event event;
  event.tokens = {{.token = 1}};
  EXPECT_EQ(Paint(DraftSegments(event, {"a"}, {}), false), "a");
  EXPECT_EQ(Paint({{Mark::kAccepted, ""}}, true), "");
  EXPECT_EQ(DraftLegend(false), "{accepted draft} [-rejected draft-] the model's own token");
}

TEST(CompareTest, FirstDifferenceIsInTokensLogprobBitsOrLength) {
  const Answer a = ExampleAnswer();
  EXPECT_EQ(FirstDifference(a, a), -1);
  Answer b = a;
  b.tokens[3].token = 0;
  EXPECT_EQ(FirstDifference(a, b), 3);
  b = a;
  b.tokens[5].logprob = std::nextafter(-0.5f, 0.0f);
  EXPECT_EQ(FirstDifference(a, b), 5);
  b = a;
  b.tokens.pop_back();
  EXPECT_EQ(FirstDifference(a, b), 8);
  b = a;
  b.tokens[2].top = {{1, -1.0f}};
  EXPECT_EQ(FirstDifference(a, b), 2);
}

TEST(CompareTest, TextSaysIdenticalOrWhereNot) {
  Comparison comparison;
  comparison.answer = ExampleAnswer();
  comparison.plain_tps = {90, 100, 110};
  comparison.speculative_tps = {140, 150, 160};
  comparison.runs = 3;
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("1.50x, medians of 3 runs"));
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("identical in all runs (9)"));
  comparison.first_difference = 4;
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("DIFFERENT from token 4 on"));
  EXPECT_EQ(ComparisonJson(comparison)["identical"], false);
  EXPECT_EQ(ComparisonJson(comparison)["speedup"], 1.5);
}

TEST(SpeculationBenchTest, TotalWeighsSpeedsByTokens) {
  FileReport a;
  a.prompts = 1;
  a.plain = {.tps = {100}, .decode_tps = {100}, .tokens = 100};        // one second
  a.speculative = {.tps = {200}, .decode_tps = {200}, .tokens = 100};  // half a second
  FileReport b = a;
  b.plain = {.tps = {50}, .decode_tps = {50}, .tokens = 100};  // two seconds
  b.different = 1;
  b.first_difference = "prompt 1, token 2";
  b.path = "b";
  const FileReport total = Total({a, b});
  EXPECT_EQ(total.prompts, 2);
  EXPECT_EQ(total.plain.tokens, 200);
  EXPECT_NEAR(total.plain.tps[0], 200.0 / 3.0, 1e-9);
  EXPECT_NEAR(total.speedup(), 3.0, 1e-9);
  EXPECT_EQ(total.first_difference, "b, prompt 1, token 2");
  EXPECT_THAT(SpeculationText({a, b}, {}), HasSubstr("1 answers DIFFER"));
  const Json json = SpeculationBenchJson({a, b}, {});
  EXPECT_EQ(json["identical"], false);
  EXPECT_EQ(json["files"].size(), 2u);
  EXPECT_EQ(json["files"][0]["identical"], true);
}

TEST(ChatSessionTest, TurnsAlternateUnderTheSystemMessage) {
  ChatSession session("be brief");
  EXPECT_EQ(session.Handle("hello").action, ChatSession::Action::kAnswer);
  session.Answered("hi");
  EXPECT_EQ(session.Handle("//etc?").action, ChatSession::Action::kAnswer);
  ASSERT_EQ(session.messages().size(), 4u);
  EXPECT_EQ(session.messages()[0].content, "be brief");
  EXPECT_EQ(session.messages()[2].role, "assistant");
  EXPECT_EQ(session.messages()[3].content, "/etc?");
  session.Answered("");  // cancelled before its first character
  EXPECT_EQ(session.messages().size(), 3u);
}

TEST(ChatSessionTest, Commands) {
  ChatSession session("");
  EXPECT_EQ(session.Handle("/quit").action, ChatSession::Action::kQuit);
  EXPECT_THAT(session.Handle("/help").reply, HasSubstr("/system TEXT"));
  EXPECT_THAT(session.Handle("/system").reply, HasSubstr("no system message"));
  EXPECT_THAT(session.Handle("/system  speak Latin").reply, HasSubstr("speak Latin"));
  session.Handle("hello");
  session.Answered("salve");
  session.Handle("/reset");
  ASSERT_EQ(session.messages().size(), 1u);
  EXPECT_EQ(session.messages()[0].role, "system");
  EXPECT_THAT(session.Handle("/quitt").reply, HasSubstr("expected /system, /reset, /help or /quit, got /quitt"));
  EXPECT_EQ(session.Handle("   ").action, ChatSession::Action::kSay);
  EXPECT_THAT(session.Handle("\xff").reply, HasSubstr("expected UTF-8"));
  EXPECT_EQ(session.messages().size(), 1u);
}

}  // namespace
}  // namespace haast::cli
