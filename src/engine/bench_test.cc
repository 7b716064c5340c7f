#include "haast/bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "support/tiny_models.h"

namespace haast {
namespace {

class BenchTest : public ::testing::Test {
 protected:
  BenchTest() {
    testing::TinyEagle3 head;
    engine_.model = testing::WriteTinyGguf(head.target, dir_.Join("model.gguf"));
    engine_.draft = testing::WriteTinyEagle3(head, dir_.Join("head"));
    engine_.threads = 1;
    engine_.prefill_chunk = 16;  // the depth needs several chunks
    options_.prefill_tokens = 40;
    options_.decode_tokens = 8;
    options_.depth = 50;
    options_.verify_rows = {1, 4, 16};
    options_.repeats = 2;
  }

  // RunBench must refuse `options_` with a message that has `part` in it.
  void ExpectRefused(const std::string& part) {
    const Result<BenchReport> report = RunBench(engine_, options_, nullptr);
    ASSERT_FALSE(report.has_value());
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(report.error().message, ::testing::HasSubstr(part));
  }

  testing::TempDir dir_;
  EngineOptions engine_;
  BenchOptions options_;
};

void ExpectOrdered(const Timing& timing) {
  EXPECT_GT(timing.min, 0.0);
  EXPECT_LE(timing.min, timing.median);
  EXPECT_LE(timing.median, timing.max);
}

TEST_F(BenchTest, MeasuresEveryStep) {
  std::vector<std::string> lines;
  const Result<BenchReport> report = RunBench(engine_, options_, [&](const std::string& line) { lines.push_back(line); });
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(lines.size(), 3u);  // loading and two repeats
  ExpectOrdered(report->prefill_tps);
  ExpectOrdered(report->decode_tps);
  ExpectOrdered(report->draft_step_ms);
  ExpectOrdered(report->draft_extend_ms);
  ASSERT_EQ(report->verify.size(), 3u);
  EXPECT_EQ(report->verify[2].rows, 16);
  for (const VerifyTiming& timing : report->verify) ExpectOrdered(timing.milliseconds);
  EXPECT_GT(report->bytes_per_pass, 0);
  EXPECT_GT(report->draft_bytes_per_pass, 0);
  for (const VerifyTiming& timing : report->verify) EXPECT_GT(timing.roofline, 0.0) << timing.rows;
  EXPECT_EQ(report->decode_roofline, report->verify[0].roofline);
  for (const double share : {report->prefill_roofline, report->draft_step_roofline, report->draft_extend_roofline}) EXPECT_GT(share, 0.0);
  EXPECT_TRUE(report->profile.empty());
}

TEST_F(BenchTest, ProfilesNameEveryOpAndItsBytes) {
  options_.profile = true;
  options_.verify_rows = {1};
  const Result<BenchReport> report = RunBench(engine_, options_, nullptr);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  std::vector<std::string> steps;
  for (const StepProfile& step : report->profile) steps.push_back(step.step);
  EXPECT_THAT(steps, ::testing::ElementsAre("verify(1)", "verify(4)", "verify(8)", "prompt(16)", "draft extend(4)", "draft step"));
  const testing::TinyEagle3 head;
  const testing::TinyLlama& model = head.target;
  const StepProfile& verify = report->profile[1];
  std::vector<std::string> ops;
  int64_t weights = 0;
  for (const OpProfile& op : verify.ops) {
    ops.push_back(op.op);
    EXPECT_GE(op.microseconds, 0.0);
    if (op.op.starts_with("linear")) weights += op.bytes;
  }
  const int qkv = (model.heads + 2 * model.kv_heads) * model.head_dim;
  EXPECT_THAT(ops,
              ::testing::ElementsAre(fmt::format("linear q_proj+k_proj+v_proj {}x{}", qkv, model.hidden), "rope_store", "attention",
                                     ::testing::StartsWith("linear o_proj "), ::testing::StartsWith("linear gate_proj+up_proj "),
                                     ::testing::StartsWith("linear down_proj "), ::testing::StartsWith("linear lm_head "), "the rest"));
  EXPECT_EQ(weights, report->bytes_per_pass) << "a pass reads each weight once";
  EXPECT_EQ(verify.ops[2].calls, model.layers);
  const int64_t entry = 2 * model.kv_heads * model.head_dim * 2;  // K and V, f16
  EXPECT_EQ(verify.ops[2].bytes, model.layers * (options_.depth + 4) * entry);
  EXPECT_EQ(report->profile[5].ops.back().calls, 0);
}

TEST_F(BenchTest, WithoutHeadDraftTimesAreZero) {
  engine_.draft.clear();
  const Result<BenchReport> report = RunBench(engine_, options_, nullptr);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->draft_step_ms.max, 0.0);
  EXPECT_EQ(report->draft_step_roofline, 0.0);
  EXPECT_EQ(report->draft_bytes_per_pass, 0);
}

TEST_F(BenchTest, RefusesWhatDoesNotFit) {
  const BenchOptions good = options_;
  options_.depth = 4090;
  ExpectRefused("needs 4106 tokens of context, but it has 4096");
  options_ = good;
  options_.verify_rows = {1, 0};
  ExpectRefused("verify with 0 rows: expected 1 to 1024");
  options_.verify_rows = {1025};
  ExpectRefused("verify with 1025 rows");
  options_ = good;
  options_.repeats = 0;
  ExpectRefused("repeats 0");
  options_ = good;
  engine_.kv_tokens = 128;
  ExpectRefused("KV pages of 16 tokens, but the pool has 8");
}

TEST_F(BenchTest, StepCostsOfRowsWithoutLogitsToo) {
  const Result<StepCosts> costs = MeasureStepCosts(engine_, 1);
  ASSERT_TRUE(costs.has_value()) << costs.error().message;
  EXPECT_EQ(costs->target.no_logits.rows, costs->target.one_logit.rows);
  EXPECT_EQ(costs->head_extend.no_logits.rows, costs->head_extend.one_logit.rows);
  // Nothing is subtracted from these, neither attention nor another curve, and no launch takes nothing.
  EXPECT_GT(costs->head_extend.no_logits.seconds.front(), 1e-8);
  EXPECT_TRUE(costs->head_step.no_logits.rows.empty());
}

TEST_F(BenchTest, LoadErrorsArePassedOn) {
  engine_.model = dir_.Join("none.gguf");
  const Result<BenchReport> report = RunBench(engine_, options_, nullptr);
  ASSERT_FALSE(report.has_value());
  EXPECT_THAT(report.error().message, ::testing::HasSubstr("none.gguf"));
}

TEST(ReadBandwidthTest, ReadsAllBytesOnEveryThreadCount) {
  // The measurement itself checks the sum of what was read.
  for (const int64_t bytes : {int64_t{1}, int64_t{64}, int64_t{1000}, int64_t{3} << 20}) {
    for (const int threads : {1, 2, 3}) {
      const Result<double> speed = MeasureReadBandwidth(threads, bytes);
      ASSERT_TRUE(speed.has_value()) << speed.error().message;
      EXPECT_GT(*speed, 0.0);
    }
  }
}

TEST(ReadBandwidthTest, RefusesNothingToMeasure) {
  EXPECT_EQ(MeasureReadBandwidth(0, 64).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(MeasureReadBandwidth(1, 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(MeasureReadBandwidth(1, int64_t{1} << 60).error().code, ErrorCode::kOutOfMemory);
}

}  // namespace
}  // namespace haast
