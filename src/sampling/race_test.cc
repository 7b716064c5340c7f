#include "sampling/race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace haast::sampling {
namespace {

double TimeOf(const Noise& noise, int32_t id) { return noise.Time(noise.BlockOf(id), id); }

// Bucket of an exponential number of mean 1 among `buckets` of equal probability.
int Quantile(double time, int buckets) { return std::min(static_cast<int>(-std::expm1(-time) * buckets), buckets - 1); }

double ChiSquare(const std::vector<int>& counts, double expected) {
  double sum = 0.0;
  for (const int count : counts) sum += (count - expected) * (count - expected) / expected;
  return sum;
}

TEST(Noise, EveryTokenWaitsForAnExponentialTime) {
  constexpr int kDraws = 20000;
  for (const int32_t id : {0, 1, 63, 64, 1000, 49151}) {
    std::vector<int> counts(64);
    for (int64_t position = 0; position < kDraws; ++position) ++counts[Quantile(TimeOf(Noise(3, position), id), 64)];
    EXPECT_LT(ChiSquare(counts, kDraws / 64.0), 112.0) << id << ": 63 degrees of freedom, exceeded with probability 1e-4";
  }
}

TEST(Noise, TokensOfABlockAreIndependent) {
  constexpr int kDraws = 40000;
  for (const int32_t other : {1, 17, 63, 64}) {
    std::vector<int> counts(64);
    for (int64_t position = 0; position < kDraws; ++position) {
      const Noise noise(4, position);
      ++counts[Quantile(TimeOf(noise, 0), 8) * 8 + Quantile(TimeOf(noise, other), 8)];
    }
    EXPECT_LT(ChiSquare(counts, kDraws / 64.0), 112.0) << other;
  }
}

TEST(Noise, BlocksTellTheirFirstToken) {
  std::vector<int> firsts(64);
  for (int64_t position = 0; position < 6400; ++position) {
    const Noise noise(5, position);
    const Noise::Block block = noise.BlockOf(130);
    double at_least = 0.0;
    noise.AtLeast(std::vector<uint32_t>{2}, {&at_least, 1});
    EXPECT_LE(at_least, block.time);
    EXPECT_GT(at_least, block.time / 64) << "1 - v is rarely below e^-64";
    EXPECT_EQ(TimeOf(noise, block.first_id), block.time);
    ++firsts[block.first_id - 128];
    if (position >= 100) continue;
    for (int32_t id = 128; id < 192; ++id) EXPECT_GE(TimeOf(noise, id), block.time);
  }
  EXPECT_LT(ChiSquare(firsts, 100.0), 112.0);
}

// All arrivals of a row, sorted: what a Race must find the head of.
std::vector<Arrival> AllArrivals(const Noise& noise, const std::vector<float>& weights, float threshold) {
  std::vector<Arrival> all;
  for (int32_t id = 0; id < static_cast<int32_t>(weights.size()); ++id) {
    if (weights[id] > 0.0f && weights[id] >= threshold) all.push_back({id, weights[id], TimeOf(noise, id) / weights[id]});
  }
  std::sort(all.begin(), all.end(), [](const Arrival& a, const Arrival& b) { return a.time < b.time; });
  return all;
}

void ExpectHead(const std::vector<Arrival>& all, const std::vector<Arrival>& head, size_t count) {
  ASSERT_EQ(head.size(), std::min(count, all.size()));
  for (size_t i = 0; i < head.size(); ++i) {
    EXPECT_EQ(head[i].token, all[i].token) << i;
    EXPECT_EQ(head[i].weight, all[i].weight);
    EXPECT_EQ(head[i].time, all[i].time);
  }
}

std::vector<float> RandomWeights(std::mt19937& random, size_t n, float spread) {
  std::normal_distribution<float> normal;
  std::vector<float> weights(n);
  for (float& weight : weights) weight = std::exp(spread * normal(random));
  const float largest = *std::max_element(weights.begin(), weights.end());
  for (float& weight : weights) weight /= largest;
  if (n > 3) weights[random() % n] = 0.0f;
  return weights;
}

// Skipping what cannot win changes nothing, with and without knowing early whom to expect.
TEST(Race, FindsTheFirstOfAll) {
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> weights = RandomWeights(random, 1 + random() % 700, 0.1f + static_cast<float>(random() % 50) / 10.0f);
    const Noise noise(random(), round);
    const size_t count = round % 3 == 0 ? 1 : 1 + random() % 12;
    const float threshold = round % 4 == 0 ? 0.01f : 0.0f;
    Race race(noise, static_cast<int>(count));
    std::vector<int32_t> order(weights.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return weights[a] > weights[b]; });
    order.resize(std::min(count, order.size()));
    const std::vector<Arrival> all = AllArrivals(noise, weights, threshold);
    if (round % 2 == 0 && all.size() >= count) {
      for (const int32_t id : order) race.Expect(id, weights[id]);
    }
    race.OfferRow(weights, threshold);
    ExpectHead(all, race.arrivals(), count);
  }
}

TEST(Race, TokensInAnyOrder) {
  std::mt19937 random(7);
  for (int round = 0; round < 100; ++round) {
    const std::vector<float> weights = RandomWeights(random, 500, 2.0f);
    std::vector<int32_t> tokens;
    std::vector<float> theirs;
    std::vector<float> others_zero(500);
    for (int32_t id = 0; id < 500; ++id) {
      if (random() % 3 == 0) tokens.push_back(id);
    }
    if (round % 2 == 0) std::shuffle(tokens.begin(), tokens.end(), random);
    for (const int32_t id : tokens) {
      theirs.push_back(weights[id]);
      others_zero[id] = weights[id];
    }
    const Noise noise(8, round);
    Race race(noise, 4);
    race.OfferTokens(tokens, theirs);
    ExpectHead(AllArrivals(noise, others_zero, 0.0f), race.arrivals(), 4);
  }
}

// One token of weight 1 and many light ones, alone or together: each wins as often as its share says.
TEST(Race, RareTokensKeepTheirShare) {
  constexpr int kDraws = 200000;
  std::vector<float> weights(256, 1e-6f);
  weights[100] = 1.0f;
  weights[200] = 1e-4f;
  int rare = 0;
  int light = 0;
  for (int64_t position = 0; position < kDraws; ++position) {
    Race race(Noise(9, position), 1);
    race.Expect(100, 1.0f);
    race.OfferRow(weights);
    const int32_t token = race.arrivals()[0].token;
    rare += token == 200 ? 1 : 0;
    light += token != 200 && token != 100 ? 1 : 0;
  }
  // Means 20 and 50.8; Poisson counts stay inside these with probability above 0.9999.
  EXPECT_NEAR(rare, 20, 18);
  EXPECT_NEAR(light, 51, 28);
}

TEST(Race, NobodyTakesPart) {
  Race race(Noise(1, 1), 2);
  race.Expect(0, 0.0f);
  race.OfferRow(std::vector<float>(70, 0.0f));
  race.OfferTokens({}, {});
  EXPECT_TRUE(race.arrivals().empty());
}

TEST(RaceDeathTest, TokensWithoutWeights) {
  Race race(Noise(1, 1), 1);
  const std::vector<int32_t> tokens = {1, 2};
  EXPECT_DEATH(race.OfferTokens(tokens, std::vector<float>{1.0f}), "2 tokens, 1 weights");
}

}  // namespace
}  // namespace haast::sampling
