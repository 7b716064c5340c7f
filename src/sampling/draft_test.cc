#include "sampling/draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "sampling/sampler.h"

namespace haast::sampling {
namespace {

using ::testing::ElementsAre;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<float> RandomLogits(std::mt19937& random, size_t n, float spread) {
  std::normal_distribution<float> normal;
  std::vector<float> logits(n);
  for (float& logit : logits) logit = spread * normal(random);
  return logits;
}

std::vector<Candidate> Choose(DraftSampler& sampler, const std::vector<float>& logits, const SamplingParams& params, int64_t position,
                              int count) {
  const auto chosen = sampler.Choose(logits, params, position, count);
  return {chosen.begin(), chosen.end()};
}

std::vector<int32_t> Tokens(const std::vector<Candidate>& candidates) {
  std::vector<int32_t> tokens;
  for (const Candidate& candidate : candidates) tokens.push_back(candidate.token);
  return tokens;
}

const kernels::Ops& BestOps() { return kernels::CpuOps(base::BestIsa()); }

TEST(DraftSampler, AHeadThatAgreesDrawsTheTargetsToken) {
  std::mt19937 random(1);
  DraftSampler drafts({}, BestOps());
  for (const float temperature : {0.0f, 0.3f, 1.0f, 2.0f, 100.0f}) {
    for (int64_t position = 0; position < 300; ++position) {
      const std::vector<float> logits = RandomLogits(random, 1 + random() % 2000, 2.0f);
      SamplerScratch scratch(static_cast<int64_t>(logits.size()));
      const SamplingParams params{.temperature = temperature, .seed = random()};
      ASSERT_EQ(drafts.Choose(logits, params, position, 1)[0].token, SampleToken(logits, params, position, BestOps(), &scratch));
    }
  }
}

// A head of half the vocabulary, in order or not: as a target to which the other half is forbidden.
TEST(DraftSampler, MappedIdsRaceAsTargetIds) {
  std::mt19937 random(2);
  for (const bool shuffled : {false, true}) {
    std::vector<int32_t> to_target;
    for (int32_t id = 0; id < 1000; id += 1 + static_cast<int32_t>(random() % 3)) to_target.push_back(id);
    if (shuffled) std::shuffle(to_target.begin(), to_target.end(), random);
    DraftSampler drafts(to_target, BestOps());
    SamplerScratch scratch(1000);
    for (int64_t position = 0; position < 300; ++position) {
      const std::vector<float> logits = RandomLogits(random, to_target.size(), 2.0f);
      std::vector<float> target(1000, -kInf);
      for (size_t i = 0; i < to_target.size(); ++i) target[to_target[i]] = logits[i];
      const SamplingParams params{.temperature = 1.0f, .seed = 5};
      ASSERT_EQ(drafts.Choose(logits, params, position, 1)[0].token, SampleToken(target, params, position, BestOps(), &scratch));
    }
  }
}

// Candidates after the first are what the race would give without those before them.
TEST(DraftSampler, MoreCandidatesAreTheNextArrivals) {
  std::mt19937 random(3);
  DraftSampler drafts({}, BestOps());
  for (int64_t position = 0; position < 200; ++position) {
    std::vector<float> logits = RandomLogits(random, 300, 2.0f);
    const SamplingParams params{.temperature = 0.8f, .seed = 6};
    const std::vector<Candidate> candidates = Choose(drafts, logits, params, position, 8);
    ASSERT_EQ(candidates.size(), 8u);
    for (size_t i = 1; i < candidates.size(); ++i) EXPECT_LE(candidates[i].score, candidates[i - 1].score);
    for (const Candidate& candidate : candidates) {
      SamplerScratch scratch(300);
      ASSERT_EQ(SampleToken(logits, params, position, BestOps(), &scratch), candidate.token);
      logits[candidate.token] = -kInf;
    }
  }
}

TEST(DraftSampler, ScoresAreLogsOfConfidences) {
  std::mt19937 random(4);
  DraftSampler drafts({}, BestOps());
  for (int64_t position = 0; position < 50; ++position) {
    const std::vector<float> logits = RandomLogits(random, 50, 2.0f);
    double sum = 0.0;
    for (const float logit : logits) sum += std::exp(double{logit});
    for (const Candidate& candidate : Choose(drafts, logits, {}, position, 50)) {
      EXPECT_NEAR(candidate.score, double{logits[candidate.token]} - std::log(sum), 1e-5) << "greedy: the head's probability";
    }
    double confidence = 0.0;
    for (const Candidate& candidate : Choose(drafts, logits, {.temperature = 1.0f}, position, 50)) {
      confidence += std::exp(double{candidate.score});
      EXPECT_LE(candidate.score, 0.0f);
    }
    EXPECT_NEAR(confidence, 1.0, 1e-5);
    EXPECT_EQ(drafts.Choose(logits, {.temperature = 1.0f}, position, 1)[0].score, 0.0f);
  }
}

TEST(DraftSampler, GreedyIsTheLargestTiesByLowerIndex) {
  const std::vector<int32_t> to_target = {40, 30, 20, 10};
  DraftSampler drafts(to_target, kernels::RefOps());
  const std::vector<float> logits = {1.0f, 3.0f, 3.0f, 2.0f};
  EXPECT_THAT(Tokens(Choose(drafts, logits, {}, 0, 1)), ElementsAre(30));
  EXPECT_THAT(Tokens(Choose(drafts, logits, {}, 0, 3)), ElementsAre(30, 20, 10));
  EXPECT_THAT(Tokens(Choose(drafts, logits, {}, 0, 9)), ElementsAre(30, 20, 10, 40));
  EXPECT_THAT(Tokens(Choose(drafts, logits, {.temperature = 1e-45f}, 0, 2)), ElementsAre(30, 20)) << "1 / temperature overflows";
}

TEST(DraftSampler, OddLogits) {
  DraftSampler drafts({}, BestOps());
  for (const float temperature : {0.0f, 1.0f}) {
    const SamplingParams params{.temperature = temperature};
    EXPECT_THAT(Tokens(Choose(drafts, {kNan, kNan}, params, 0, 2)), ElementsAre(0));
    EXPECT_THAT(Tokens(Choose(drafts, {-kInf, -kInf}, params, 0, 2)), ElementsAre(0));
    EXPECT_THAT(Tokens(Choose(drafts, {0.0f, kInf}, params, 0, 2)), ElementsAre(1));
    EXPECT_THAT(Tokens(Choose(drafts, {-kInf, 1.0f, kNan}, params, 0, 3)), ElementsAre(1)) << "what cannot be drawn is no draft";
    EXPECT_EQ(drafts.Choose(std::vector<float>{1.0f, kNan}, params, 0, 2)[0].score, 0.0f);
  }
}

TEST(DraftSamplerDeathTest, BugsOfTheCaller) {
  const std::vector<int32_t> to_target = {1, 2};
  DraftSampler drafts(to_target, kernels::RefOps());
  EXPECT_DEATH(drafts.Choose(std::vector<float>(3), {}, 0, 1), "3 logits for 2 ids, 1 drafts");
  EXPECT_DEATH(drafts.Choose(std::vector<float>(2), {}, 0, 0), "0 drafts");
}

}  // namespace
}  // namespace haast::sampling
