// Speculative sampling is exact in distribution: chi-square tests at a significance of 1e-4 with fixed seeds, and wrong rules that
// the same tests refuse.
#include "sampling/rejection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "sampling/draft.h"
#include "support/chi_square.h"

namespace haast::sampling {
namespace {

using haast::testing::ChiSquare;
using haast::testing::Compare;
using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kDraws = 20000;

const kernels::Ops& BestOps() { return kernels::CpuOps(base::BestIsa()); }

std::vector<float> LogOf(const std::vector<double>& p) {
  std::vector<float> logits;
  for (const double each : p) logits.push_back(each > 0.0 ? static_cast<float>(std::log(each)) : -kInf);
  return logits;
}

struct Pair {
  const char* name;
  std::vector<double> p;
  std::vector<double> q;
};

const std::vector<Pair>& Pairs() {
  static const std::vector<Pair> pairs = {
      {"close", {0.4, 0.3, 0.2, 0.1}, {0.35, 0.3, 0.25, 0.1}},
      {"equal", {0.25, 0.5, 0.125, 0.125}, {0.25, 0.5, 0.125, 0.125}},
      {"reversed", {0.6, 0.25, 0.1, 0.05}, {0.05, 0.1, 0.25, 0.6}},
      {"disjoint", {0.5, 0.5, 0.0, 0.0}, {0.0, 0.0, 0.3, 0.7}},
      {"q_without_some_of_p", {0.3, 0.3, 0.2, 0.2}, {0.8, 0.2, 0.0, 0.0}},
      {"p_without_some_of_q", {0.7, 0.3, 0.0, 0.0}, {0.25, 0.25, 0.25, 0.25}},
      {"q_is_a_point_mass", {0.2, 0.3, 0.4, 0.1}, {0.0, 1.0, 0.0, 0.0}},
      {"p_is_a_point_mass", {0.0, 0.0, 1.0, 0.0}, {0.25, 0.25, 0.25, 0.25}},
      {"flat_and_peaked", {0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125, 0.125}, {0.65, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05}},
  };
  return pairs;
}

// A rule: the token for (target logits, draft, q, parameters).
using Rule = std::function<int32_t(const std::vector<float>&, int32_t, const WeightedTokens&, const SamplingParams&)>;

// The tokens of `rule` for kDraws seeds, each with a draft of its own.
std::vector<int> Counts(const Pair& pair, SamplingParams params, const Rule& rule) {
  DraftSampler drafts({}, BestOps());
  const std::vector<float> target = LogOf(pair.p), draft = LogOf(pair.q);
  std::vector<int> counts(pair.p.size());
  for (params.seed = 0; params.seed < kDraws; ++params.seed) {
    const DraftSampler::Drawn drawn = drafts.Draw(draft, params, 7);
    ++counts[static_cast<size_t>(rule(target, drawn.token, drawn.q, params))];
  }
  return counts;
}

int32_t Right(const std::vector<float>& target, int32_t draft, const WeightedTokens& q, const SamplingParams& params) {
  SamplerScratch scratch(static_cast<int64_t>(target.size()));
  return SampleByRejection(target, draft, q, params, 7, BestOps(), &scratch);
}

// Degrees of freedom: outcomes of p above 0, less one (1 to 7).
TEST(SampleByRejection, EmittedTokensHaveTheTargetsDistribution) {
  for (const Pair& pair : Pairs()) {
    const ChiSquare fit = Compare(Counts(pair, {.temperature = 1.0f}, Right), pair.p);
    EXPECT_TRUE(fit.fits()) << pair.name << ": " << fit.statistic << " above " << fit.critical() << ", " << fit.impossible << " impossible";
  }
}

// Temperature and filters change p and q alike.
TEST(SampleByRejection, TemperatureAndFiltersActOnBoth) {
  const Pair pair{"filtered", {0.3, 0.25, 0.2, 0.1, 0.1, 0.05}, {0.05, 0.1, 0.1, 0.2, 0.25, 0.3}};
  const auto expect = [&](const SamplingParams& params, std::vector<double> p) {
    double total = 0.0;
    for (double& each : p) total += each = std::pow(each, 1.0 / double{params.temperature});
    for (double& each : p) each /= total;
    const ChiSquare fit = Compare(Counts(pair, params, Right), p);
    EXPECT_TRUE(fit.fits()) << fit.statistic << " above " << fit.critical() << ", " << fit.impossible << " impossible";
  };
  expect({.temperature = 0.7f}, pair.p);
  expect({.temperature = 2.0f}, pair.p);
  expect({.temperature = 1.0f, .top_k = 3}, {0.3, 0.25, 0.2, 0.0, 0.0, 0.0});
  expect({.temperature = 1.5f, .top_p = 0.7f}, {0.3, 0.25, 0.2, 0.1, 0.0, 0.0});
  expect({.temperature = 1.0f, .min_p = 0.5f}, {0.3, 0.25, 0.2, 0.0, 0.0, 0.0});
}

// What the tests above would say of three errors: a replacement from p, a draft kept too often, and one that shares the target's noise.
TEST(SampleByRejection, WrongRulesAreFound) {
  const Rule from_p = [](const std::vector<float>& target, int32_t draft, const WeightedTokens& q, const SamplingParams& params) {
    if (Right(target, draft, q, params) == draft) return draft;
    SamplerScratch scratch(static_cast<int64_t>(target.size()));
    return SampleToken(target, params, 7, BestOps(), &scratch);
  };
  const Rule always = [](const std::vector<float>&, int32_t draft, const WeightedTokens&, const SamplingParams&) { return draft; };
  const Rule same_noise = [](const std::vector<float>& target, int32_t, const WeightedTokens& q, const SamplingParams& params) {
    SamplerScratch scratch(static_cast<int64_t>(target.size()));
    std::vector<float> logits(target.size(), -kInf);
    for (size_t i = 0; i < q.tokens.size(); ++i) logits[static_cast<size_t>(q.tokens[i])] = std::log(q.weights[i]);
    const int32_t draft = SampleToken(logits, params, 7, BestOps(), &scratch);
    return Right(target, draft, q, params);
  };
  const Pair& pair = Pairs()[2];
  for (const Rule& rule : {from_p, always, same_noise}) EXPECT_FALSE(Compare(Counts(pair, {.temperature = 1.0f}, rule), pair.p).fits());
  // Even a small difference: a q that is not the one the draft came from.
  const Rule other_q = [](const std::vector<float>& target, int32_t draft, const WeightedTokens&, const SamplingParams& params) {
    const std::vector<int32_t> tokens = {0, 1, 2, 3};
    const std::vector<float> weights = {0.4f, 0.3f, 0.2f, 0.1f};
    return Right(target, draft, {tokens, weights}, params);
  };
  EXPECT_FALSE(Compare(Counts(Pairs()[0], {.temperature = 1.0f}, other_q), Pairs()[0].p).fits());
}

// A draft is kept with probability sum of min(p, q): no correct rule that draws drafts from q keeps more.
TEST(SampleByRejection, KeepsAsManyDraftsAsCanBe) {
  for (const Pair& pair : Pairs()) {
    double overlap = 0.0;
    for (size_t i = 0; i < pair.p.size(); ++i) overlap += std::min(pair.p[i], pair.q[i]);
    int kept = 0;
    Counts(pair, {.temperature = 1.0f}, [&](const auto& target, int32_t draft, const WeightedTokens& q, const SamplingParams& params) {
      const int32_t token = Right(target, draft, q, params);
      kept += token == draft;
      return token;
    });
    EXPECT_NEAR(static_cast<double>(kept) / kDraws, overlap, 4.0 * std::sqrt(0.25 / kDraws)) << pair.name;
  }
}

// A head of half the vocabulary: its ids become target ids, and what it cannot draft is drawn all the same.
TEST(SampleByRejection, DraftIdsAreMapped) {
  const std::vector<int32_t> to_target = {5, 1, 3};
  const std::vector<double> p = {0.2, 0.3, 0.1, 0.2, 0.15, 0.05};
  DraftSampler drafts(to_target, BestOps());
  const std::vector<float> target = LogOf(p), head = LogOf({0.5, 0.3, 0.2});
  std::vector<int> counts(p.size()), drafted(p.size());
  SamplingParams params{.temperature = 1.0f};
  for (params.seed = 0; params.seed < kDraws; ++params.seed) {
    const DraftSampler::Drawn drawn = drafts.Draw(head, params, 7);
    ++drafted[static_cast<size_t>(drawn.token)];
    ++counts[static_cast<size_t>(Right(target, drawn.token, drawn.q, params))];
  }
  EXPECT_TRUE(Compare(counts, p).fits());  // 5 degrees of freedom
  EXPECT_TRUE(Compare(drafted, std::vector<double>{0.0, 0.3, 0.0, 0.2, 0.0, 0.5}).fits()) << "drafts are drawn from q";
}

// Positions follow one another: the pair of two tokens has the product of their distributions.
TEST(SampleByRejection, PositionsAreIndependent) {
  const Pair& pair = Pairs()[2];
  DraftSampler drafts({}, BestOps());
  const std::vector<float> target = LogOf(pair.p), draft = LogOf(pair.q);
  std::vector<int> counts(16);
  std::vector<double> p(16);
  for (size_t i = 0; i < 16; ++i) p[i] = pair.p[i / 4] * pair.p[i % 4];
  SamplerScratch scratch(4);
  SamplingParams params{.temperature = 1.0f};
  for (params.seed = 0; params.seed < kDraws; ++params.seed) {
    size_t cell = 0;
    for (int64_t position = 7; position < 9; ++position) {
      const DraftSampler::Drawn drawn = drafts.Draw(draft, params, position);
      cell = cell * 4 + static_cast<size_t>(SampleByRejection(target, drawn.token, drawn.q, params, position, BestOps(), &scratch));
    }
    ++counts[cell];
  }
  EXPECT_TRUE(Compare(counts, p).fits());  // 15 degrees of freedom
}

TEST(SampleByRejection, TemperatureZeroIsGreedy) {
  SamplerScratch scratch(3);
  DraftSampler drafts({}, BestOps());
  const std::vector<float> target = {1.0f, 3.0f, 3.0f};
  for (const std::vector<float>& head : {std::vector<float>{5.0f, 0.0f, 1.0f}, {0.0f, 1.0f, 0.0f}, {0.0f, 0.0f, 1.0f}}) {
    for (uint64_t seed = 0; seed < 50; ++seed) {
      const SamplingParams params{.seed = seed};
      const DraftSampler::Drawn drawn = drafts.Draw(head, params, 0);
      EXPECT_EQ(drawn.token, BestOps().argmax(head.data(), 3));
      EXPECT_EQ(SampleByRejection(target, drawn.token, drawn.q, params, 0, BestOps(), &scratch), 1) << "the lower of two equal ones";
    }
  }
}

TEST(SampleByRejection, OddLogits) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  SamplerScratch scratch(3);
  DraftSampler drafts({}, BestOps());
  const SamplingParams params{.temperature = 1.0f, .seed = 3};
  for (const std::vector<float>& head :
       {std::vector<float>{kNan, kNan, kNan}, {-kInf, -kInf, -kInf}, {0.0f, kInf, kNan}, {kNan, 1.0f, 1.0f}}) {
    const DraftSampler::Drawn drawn = drafts.Draw(head, params, 0);
    EXPECT_EQ(SampleByRejection(std::vector<float>{-kInf, kNan, 0.0f}, drawn.token, drawn.q, params, 0, BestOps(), &scratch), 2);
  }
}

// p and q differ by less than fp32 tells: the rest of p is nothing, and p itself is drawn from. Never a token that p lacks.
TEST(SampleByRejection, WhereNothingIsLeftOfTheDifference) {
  SamplerScratch scratch(3);
  const std::vector<int32_t> tokens = {0, 1, 2};
  const std::vector<float> weights = {0.5f, 0.5f, 1e-40f};
  for (uint64_t seed = 0; seed < 50; ++seed) {
    const SamplingParams params{.temperature = 1.0f, .seed = seed};
    const std::vector<float> target = {0.0f, 0.0f, -kInf};
    EXPECT_EQ(SampleByRejection(target, 2, {tokens, weights}, params, 0, BestOps(), &scratch),
              SampleToken(target, params, 0, BestOps(), &scratch));
  }
}

TEST(Distribution, IsWhatSampleTokenDrawsFrom) {
  SamplerScratch scratch(4);
  const std::vector<float> logits = LogOf({0.1, 0.4, 0.3, 0.2});
  const auto tokens = [&](const SamplingParams& params) {
    const WeightedTokens p = Distribution(logits, params, BestOps(), &scratch);
    return std::vector<int32_t>(p.tokens.begin(), p.tokens.end());
  };
  EXPECT_THAT(tokens({.temperature = 1.0f}), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(tokens({.temperature = 1.0f, .top_k = 2}), ElementsAre(1, 2));
  EXPECT_THAT(tokens({.temperature = 1.0f, .top_p = 0.8f}), ElementsAre(1, 2, 3));
  EXPECT_THAT(tokens({.temperature = 1.0f, .min_p = 0.6f}), ElementsAre(1, 2));
  EXPECT_THAT(tokens({.temperature = 0.001f}), ElementsAre(1)) << "weights that exp rounds to 0 are left out";
  EXPECT_THAT(tokens({}), ElementsAre(1));
  const WeightedTokens p = Distribution(logits, {.temperature = 1.0f}, BestOps(), &scratch);
  EXPECT_NEAR(p.weights[0] / p.weights[1], 0.25, 1e-6);
}

TEST(DraftDistributions, KeepsRowsInOrder) {
  DraftDistributions rows;
  const std::vector<int32_t> tokens = {4, 9};
  const std::vector<float> weights = {0.25f, 0.75f};
  rows.Append({tokens, weights});
  rows.Append({std::span(tokens).last(1), std::span(weights).last(1)});
  ASSERT_EQ(rows.size(), 2);
  EXPECT_THAT(rows.Row(0).tokens, ElementsAre(4, 9));
  EXPECT_THAT(rows.Row(1).tokens, ElementsAre(9));
  EXPECT_THAT(rows.Row(1).weights, ElementsAre(0.75f));
  rows.Clear();
  EXPECT_EQ(rows.size(), 0);
}

TEST(SampleByRejectionDeathTest, BugsOfTheCaller) {
  SamplerScratch scratch(2);
  const std::vector<int32_t> tokens = {0};
  const std::vector<float> weights = {1.0f};
  const std::vector<float> logits = {0.0f, 0.0f};
  EXPECT_DEATH(SampleByRejection(logits, 1, {tokens, weights}, {.temperature = 1.0f}, 0, BestOps(), &scratch), "draft 1 cannot have been");
  DraftDistributions rows;
  EXPECT_DEATH(rows.Row(0), "distribution 0 of 0");
  EXPECT_DEATH(rows.Append({tokens, {}}), "1 tokens, 0 weights");
}

}  // namespace
}  // namespace haast::sampling
