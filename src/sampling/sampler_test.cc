#include "sampling/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/format.h"
#include "sampling/race.h"

namespace haast::sampling {
namespace {

using ::testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<const kernels::Ops*> Backends() {
  std::vector<const kernels::Ops*> backends = {&kernels::RefOps()};
  for (const base::Isa isa : base::SupportedIsas()) backends.push_back(&kernels::CpuOps(isa));
  return backends;
}

int32_t Draw(const std::vector<float>& logits, const SamplingParams& params, int64_t position = 0,
             const kernels::Ops& ops = kernels::RefOps()) {
  SamplerScratch scratch(static_cast<int64_t>(logits.size()));
  return SampleToken(logits, params, position, ops, &scratch);
}

// The definition, in double and with whole sorts: probability of each token after all filters.
std::vector<double> Definition(const std::vector<float>& logits, const SamplingParams& params) {
  const size_t n = logits.size();
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), size_t{0});
  const auto level = [&](size_t i) { return std::isnan(logits[i]) ? -kInf : logits[i]; };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return level(a) != level(b) ? level(a) > level(b) : a < b; });
  std::vector<double> p(n);
  for (size_t i = 0; i < n; ++i) p[i] = std::exp((double{level(i)} - double{level(order[0])}) / double{params.temperature});
  if (params.top_k > 0) {
    for (size_t rank = static_cast<size_t>(params.top_k); rank < n; ++rank) p[order[rank]] = 0.0;
  }
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  if (params.top_p < 1.0f) {
    double sum = 0.0;
    for (size_t rank = 0; rank < n; ++rank) {
      if (sum >= double{params.top_p} * total) p[order[rank]] = 0.0;
      sum += p[order[rank]];
    }
  }
  for (double& value : p) value = value < double{params.min_p} * p[order[0]] ? 0.0 : value;
  const double kept = std::accumulate(p.begin(), p.end(), 0.0);
  for (double& value : p) value /= kept;
  return p;
}

double ChiSquare(const std::vector<int>& counts, const std::vector<double>& p, int draws) {
  double chi_square = 0.0;
  for (size_t i = 0; i < p.size(); ++i) {
    if (p[i] == 0.0) {
      EXPECT_EQ(counts[i], 0) << "token " << i << " was filtered out";
      continue;
    }
    const double expected = p[i] * draws;
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  return chi_square;
}

TEST(CheckSamplingParams, Ranges) {
  const auto error = [](const SamplingParams& params) {
    const Status status = CheckSamplingParams(params, 50);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(error({}), "");
  EXPECT_EQ(error({.temperature = 100.0f, .top_k = 2147483647, .top_p = 1e-30f, .min_p = 1.0f, .seed = ~uint64_t{0}}), "");
  for (const float bad : {-0.1f, 100.1f, kInf, -kInf, kNan}) {
    EXPECT_THAT(error({.temperature = bad}), HasSubstr(fmt::format("temperature is {}, expected a number in [0, 100]", bad)));
  }
  EXPECT_THAT(error({.top_k = -1}), HasSubstr("top_k is -1"));
  for (const float bad : {0.0f, -0.5f, 1.01f, kInf, -kInf, kNan}) {
    EXPECT_THAT(error({.top_p = bad}), HasSubstr(fmt::format("top_p is {}, expected a number in (0, 1]", bad)));
  }
  for (const float bad : {-0.01f, 1.01f, kInf, kNan}) {
    EXPECT_THAT(error({.min_p = bad}), HasSubstr(fmt::format("min_p is {}, expected a number in [0, 1]", bad)));
  }
  EXPECT_EQ(error({.repetition_penalty = 100.0f, .frequency_penalty = 2.0f, .presence_penalty = -2.0f, .logit_bias = {{49, -100.0f}}}), "");
  for (const float bad : {0.0f, -1.0f, 100.1f, kInf, kNan}) {
    EXPECT_THAT(error({.repetition_penalty = bad}), HasSubstr(fmt::format("repetition_penalty is {}, expected a number in (0, 100]", bad)));
  }
  for (const float bad : {-2.01f, 2.01f, kInf, kNan}) {
    EXPECT_THAT(error({.frequency_penalty = bad}), HasSubstr(fmt::format("frequency_penalty is {}, expected a number in [-2, 2]", bad)));
    EXPECT_THAT(error({.presence_penalty = bad}), HasSubstr(fmt::format("presence_penalty is {}, expected a number in [-2, 2]", bad)));
  }
  for (const float bad : {-100.1f, 100.1f, -kInf, kNan}) {
    EXPECT_THAT(error({.logit_bias = {{1, 0.0f}, {7, bad}}}), HasSubstr(fmt::format("logit_bias of token 7 is {}", bad)));
  }
  for (const int32_t bad : {-1, 50}) {
    EXPECT_THAT(error({.logit_bias = {{bad, 1.0f}}}),
                HasSubstr(fmt::format("logit_bias of token {} is 1, expected a token in [0, 50)", bad)));
  }
}

TEST(SampleToken, GreedyIsTheLowestLargest) {
  EXPECT_EQ(Draw({1.0f, 3.0f, 2.0f, 3.0f}, {}), 1);
  EXPECT_EQ(Draw({1.0f, 3.0f, 2.0f, 3.0f}, {.top_k = 1, .top_p = 0.1f, .min_p = 1.0f, .seed = 5}, 77), 1);
  EXPECT_EQ(Draw({-kInf, kNan, -5.0f, -5.0f}, {}), 2);
  EXPECT_EQ(Draw({0.0f, kInf, kInf}, {}), 1);
}

TEST(SampleToken, RowsWithoutFiniteLogits) {
  for (const float temperature : {0.0f, 1.0f}) {
    EXPECT_EQ(Draw({-kInf, -kInf, -kInf}, {.temperature = temperature}), 0);
    EXPECT_EQ(Draw({kNan, kNan}, {.temperature = temperature}), 0);
    EXPECT_EQ(Draw({kNan, -kInf}, {.temperature = temperature}), 0);
    EXPECT_EQ(Draw({kNan, -kInf, kInf, 3.0f, kInf}, {.temperature = temperature}), 2);
  }
}

TEST(SampleToken, ForbiddenTokensAreNeverDrawn) {
  for (const kernels::Ops* ops : Backends()) {
    std::vector<float> logits(700, -kInf);
    for (const int id : {3, 255, 256, 690}) logits[id] = 0.5f;
    logits[300] = kNan;
    std::vector<int> counts(700);
    for (const SamplingParams& params :
         {SamplingParams{.temperature = 1.0f}, SamplingParams{.temperature = 1.0f, .top_k = 600},
          SamplingParams{.temperature = 1.0f, .top_p = 0.999f}, SamplingParams{.temperature = 1.0f, .min_p = 0.5f}}) {
      for (int64_t position = 0; position < 200; ++position) ++counts[Draw(logits, params, position, *ops)];
    }
    EXPECT_EQ(counts[3] + counts[255] + counts[256] + counts[690], 800) << ops->name;
    for (const int id : {3, 255, 256, 690}) EXPECT_GT(counts[id], 120) << ops->name;
  }
}

TEST(SampleToken, ExtremeTemperatures) {
  const std::vector<float> logits = {1.0f, 1.5f, 1.49f};
  for (const float temperature : {1e-45f, 1e-38f, 1e-10f, 1e-4f})
    EXPECT_EQ(Draw(logits, {.temperature = temperature}, 3), 1) << temperature;
  std::vector<int> counts(3);
  for (int64_t position = 0; position < 3000; ++position) ++counts[Draw(logits, {.temperature = 100.0f}, position)];
  for (const int count : counts) EXPECT_NEAR(count, 1000, 110);
}

TEST(SampleToken, KeysAreSeedAndPosition) {
  std::vector<float> logits(300);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = static_cast<float>(i % 7);
  int seeds = 0, positions = 0;
  for (int64_t i = 0; i < 50; ++i) {
    const SamplingParams params{.temperature = 1.0f, .seed = static_cast<uint64_t>(i)};
    EXPECT_EQ(Draw(logits, params, i), Draw(logits, params, i));
    seeds += Draw(logits, params, 4) != Draw(logits, {.temperature = 1.0f, .seed = 1000}, 4);
    positions += Draw(logits, {.temperature = 1.0f}, i) != Draw(logits, {.temperature = 1.0f}, int64_t{1} << 40);
  }
  EXPECT_GT(seeds, 40);
  EXPECT_GT(positions, 40);
}

// What was drawn before leaves no trace in the scratch memory.
TEST(SampleToken, ScratchCarriesNothingOver) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  SamplerScratch reused(500);
  for (int64_t i = 0; i < 200; ++i) {
    std::vector<float> logits(500);
    for (float& value : logits) value = 3.0f * normal(random);
    const SamplingParams params{.temperature = 0.5f + static_cast<float>(random() % 3),
                                .top_k = static_cast<int>(random() % 3 * 40),
                                .top_p = random() % 2 ? 1.0f : 0.9f,
                                .min_p = random() % 2 ? 0.0f : 0.05f,
                                .seed = 9};
    EXPECT_EQ(SampleToken(logits, params, i, kernels::RefOps(), &reused), Draw(logits, params, i));
  }
}

TEST(SampleToken, TopKKeepsExactlyKTiesByLowerId) {
  const std::vector<float> logits = {1.0f, 2.0f, 1.0f, 2.0f, 1.0f, 0.0f};
  std::vector<int> counts(6);
  for (int64_t position = 0; position < 600; ++position) ++counts[Draw(logits, {.temperature = 1.0f, .top_k = 3}, position)];
  EXPECT_GT(counts[0], 0);
  EXPECT_GT(counts[1], 0);
  EXPECT_GT(counts[3], 0);
  EXPECT_EQ(counts[2] + counts[4] + counts[5], 0);
  for (int64_t position = 0; position < 50; ++position) EXPECT_EQ(Draw(logits, {.temperature = 5.0f, .top_k = 1}, position), 1);
}

TEST(SampleToken, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 0.4, 0.3, 0.2, 0.1.
  const std::vector<float> logits = {std::log(0.1f), std::log(0.4f), std::log(0.2f), std::log(0.3f)};
  const auto support = [&](const SamplingParams& params) {
    std::vector<bool> drawn(4);
    for (int64_t position = 0; position < 400; ++position) drawn[Draw(logits, params, position)] = true;
    return drawn;
  };
  EXPECT_THAT(support({.temperature = 1.0f, .top_p = 1e-6f}), ::testing::ElementsAre(false, true, false, false));
  EXPECT_THAT(support({.temperature = 1.0f, .top_p = 0.39f}), ::testing::ElementsAre(false, true, false, false));
  EXPECT_THAT(support({.temperature = 1.0f, .top_p = 0.41f}), ::testing::ElementsAre(false, true, false, true));
  EXPECT_THAT(support({.temperature = 1.0f, .top_p = 0.71f}), ::testing::ElementsAre(false, true, true, true));
  EXPECT_THAT(support({.temperature = 1.0f, .top_p = 0.91f}), ::testing::ElementsAre(true, true, true, true));
  // After top-k 2 the shares are 4/7 and 3/7: 0.5 needs one token, where 0.5 of everything would need two.
  EXPECT_THAT(support({.temperature = 1.0f, .top_k = 2, .top_p = 0.5f}), ::testing::ElementsAre(false, true, false, false));
  EXPECT_THAT(support({.temperature = 1.0f, .top_p = 0.5f}), ::testing::ElementsAre(false, true, false, true));
  // Top-p before min-p: min-p first would leave 0.4 and 0.3, of which 0.55 needs one token only.
  EXPECT_THAT(support({.temperature = 1.0f, .top_p = 0.55f, .min_p = 0.6f}), ::testing::ElementsAre(false, true, false, true));
  EXPECT_THAT(support({.temperature = 1.0f, .min_p = 0.45f}), ::testing::ElementsAre(false, true, true, true));
  EXPECT_THAT(support({.temperature = 1.0f, .min_p = 1.0f}), ::testing::ElementsAre(false, true, false, false));
  // Equal shares: exactly half of four equal tokens is two, the lower ids.
  std::vector<bool> even(4);
  for (int64_t position = 0; position < 200; ++position)
    even[Draw({1.0f, 1.0f, 1.0f, 1.0f}, {.temperature = 1.0f, .top_p = 0.5f}, position)] = true;
  EXPECT_THAT(even, ::testing::ElementsAre(true, true, false, false));
}

TEST(SampleToken, DistributionMatchesWithAndWithoutFilters) {
  const std::vector<float> logits = {0.3f, 2.1f, -1.0f, 1.2f, 2.1f, 0.0f, -3.0f, 1.9f, 0.7f, -0.4f, 1.1f, -kInf};
  const SamplingParams all[] = {{.temperature = 1.0f, .seed = 1},
                                {.temperature = 0.6f, .seed = 2},
                                {.temperature = 1.7f, .seed = 3},
                                {.temperature = 1.0f, .top_k = 5, .seed = 4},
                                {.temperature = 1.0f, .top_p = 0.8f, .seed = 5},
                                {.temperature = 1.0f, .min_p = 0.2f, .seed = 6},
                                {.temperature = 1.3f, .top_k = 9, .top_p = 0.9f, .min_p = 0.15f, .seed = 7}};
  constexpr int kDraws = 40000;
  for (const kernels::Ops* ops : Backends()) {
    SamplerScratch scratch(static_cast<int64_t>(logits.size()));
    for (const SamplingParams& params : all) {
      std::vector<int> counts(logits.size());
      for (int64_t position = 0; position < kDraws; ++position) ++counts[SampleToken(logits, params, position, *ops, &scratch)];
      // At most 10 degrees of freedom: 35.6 is exceeded with probability 1e-4.
      EXPECT_LT(ChiSquare(counts, Definition(logits, params), kDraws), 35.6) << ops->name << " seed " << params.seed;
    }
  }
}

// How much later than the first of all tokens `token` arrives in the race of `p`, as a ratio; infinite where it takes no part.
double Lateness(const std::vector<double>& p, int32_t token, uint64_t seed, int64_t position) {
  const Noise noise(seed, position);
  double first = INFINITY;
  double its = INFINITY;
  for (int32_t id = 0; id < static_cast<int32_t>(p.size()); ++id) {
    const double time = noise.Time(noise.BlockOf(id), id) / p[id];
    first = std::min(first, time);
    if (id == token) its = time;
  }
  return its / first;
}

// The token itself, against the definition: of all tokens the filters keep, the first to arrive. Weights in fp32 may let
// another one win that arrives at nearly the same time.
TEST(SampleToken, RandomRowsMatchTheDefinition) {
  std::mt19937 random(8);
  std::normal_distribution<float> normal;
  int compared = 0;
  for (const kernels::Ops* ops : Backends()) {
    for (int round = 0; round < 400; ++round) {
      const int64_t n = 1 + static_cast<int64_t>(random() % 3000);
      std::vector<float> logits(static_cast<size_t>(n));
      const float spread = 0.5f + static_cast<float>(random() % 5);
      for (float& value : logits) value = spread * normal(random);
      if (round % 5 == 0) logits[random() % n] = -kInf;
      if (round % 7 == 0) {
        for (float& value : logits) value = std::round(value);  // many ties
      }
      const SamplingParams params{.temperature = 0.3f + 0.1f * static_cast<float>(random() % 15),
                                  .top_k = random() % 2 ? 0 : static_cast<int>(random() % 200),
                                  .top_p = random() % 2 ? 1.0f : 0.05f * static_cast<float>(1 + random() % 19),
                                  .min_p = random() % 2 ? 0.0f : 0.01f * static_cast<float>(random() % 30),
                                  .seed = random()};
      SamplerScratch scratch(n);
      const int32_t token = SampleToken(logits, params, round, *ops, &scratch);
      const std::vector<double> p = Definition(logits, params);
      ASSERT_TRUE(token >= 0 && token < n);
      EXPECT_LE(Lateness(p, token, params.seed, round), 1.00001)
          << ops->name << " round " << round << " token " << token << " n " << n << " k " << params.top_k << " p " << params.top_p
          << " min " << params.min_p;
      ++compared;
    }
  }
  EXPECT_GE(compared, 400);
}

// A large vocabulary takes every path of the selection: many blocks, pre-selection, several sorts.
TEST(SampleToken, LargeVocabularyMatchesTheDefinition) {
  constexpr int64_t kVocab = 49152;
  std::mt19937 random(15);
  std::normal_distribution<float> normal;
  std::vector<float> logits(kVocab);
  for (float& value : logits) value = 2.0f * normal(random);
  const SamplingParams all[] = {{.temperature = 1.0f},
                                {.temperature = 1.0f, .top_k = 40},
                                {.temperature = 1.0f, .top_k = 2000},
                                {.temperature = 1.0f, .top_k = 49151},
                                {.temperature = 1.0f, .top_k = 60000},
                                {.temperature = 1.0f, .top_p = 0.95f},
                                {.temperature = 0.7f, .top_k = 1000, .top_p = 0.9f, .min_p = 0.01f}};
  for (const kernels::Ops* ops : Backends()) {
    SamplerScratch scratch(kVocab);
    for (const SamplingParams& params : all) {
      const std::vector<double> p = Definition(logits, params);
      for (int64_t position = 0; position < 5; ++position) {
        const int32_t token = SampleToken(logits, params, position, *ops, &scratch);
        EXPECT_LE(Lateness(p, token, params.seed, position), 1.00001) << ops->name << " k " << params.top_k << " p " << params.top_p;
      }
    }
  }
}

TEST(SampleTokenDeathTest, ScratchOfAnotherVocabulary) {
  SamplerScratch scratch(4);
  const std::vector<float> logits(5);
  EXPECT_DEATH(SampleToken(logits, {}, 0, kernels::RefOps(), &scratch), "5 logits, scratch for 4");
}

TEST(FillLogprobs, RawLogSoftmaxAndTop) {
  const std::vector<float> logits = {1.0f, 4.0f, 2.0f, 4.0f, -2.0f, 3.0f};
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(double{logit});
  for (const kernels::Ops* ops : Backends()) {
    TokenOutput output{.token = 2};
    FillLogprobs(logits, 4, *ops, &output);
    EXPECT_NEAR(output.logprob, 2.0 - std::log(sum), 1e-6) << ops->name;
    ASSERT_EQ(output.top.size(), 4u);
    const int32_t expected[] = {1, 3, 5, 2};
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(output.top[i].token, expected[i]);
      EXPECT_NEAR(output.top[i].logprob, double{logits[expected[i]]} - std::log(sum), 1e-6);
    }
    EXPECT_EQ(output.top[3].logprob, output.logprob) << "one number for one token";
    FillLogprobs(logits, 0, *ops, &output);
    EXPECT_TRUE(output.top.empty());
    FillLogprobs(logits, 20, *ops, &output);
    EXPECT_EQ(output.top.size(), 6u);
  }
}

TEST(FillLogprobs, TopMatchesASort) {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<float> logits(1 + random() % 200);
    for (float& value : logits) value = static_cast<float>(random() % 20);
    std::vector<int32_t> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
    const size_t n = random() % 21;
    TokenOutput output;
    FillLogprobs(logits, static_cast<int>(n), kernels::RefOps(), &output);
    ASSERT_EQ(output.top.size(), std::min(n, logits.size()));
    for (size_t i = 0; i < output.top.size(); ++i) ASSERT_EQ(output.top[i].token, order[i]);
  }
}

TEST(FillLogprobs, InfiniteLogits) {
  TokenOutput output{.token = 0};
  FillLogprobs(std::vector<float>{-kInf, 1.0f, -kInf}, 3, kernels::RefOps(), &output);
  EXPECT_EQ(output.logprob, -kInf);
  ASSERT_EQ(output.top.size(), 1u) << "impossible tokens are not listed";
  EXPECT_EQ(output.top[0].token, 1);
  output.token = 1;
  FillLogprobs(std::vector<float>{0.0f, kInf}, 2, kernels::RefOps(), &output);
  EXPECT_EQ(output.logprob, 0.0f);
  EXPECT_EQ(output.top[1].logprob, -kInf);
}

TEST(FillLogprobsDeathTest, TokenOutsideTheVocabulary) {
  TokenOutput output{.token = 3};
  EXPECT_DEATH(FillLogprobs(std::vector<float>(3), 0, kernels::RefOps(), &output), "token 3 of 3");
}

}  // namespace
}  // namespace haast::sampling
