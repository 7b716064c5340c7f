#include "model/rope.h"

#include <gtest/gtest.h>

#include <cmath>

namespace haast::model {
namespace {

io::ModelConfig Config(int head_dim, float theta) {
  io::ModelConfig config;
  config.head_dim = head_dim;
  config.rope_theta = theta;
  return config;
}

TEST(Rope, PlainFrequencies) {
  const std::vector<double> frequencies = RopeFrequencies(Config(8, 10000.0f), {});
  ASSERT_EQ(frequencies.size(), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(frequencies[i], std::pow(10000.0, -i / 4.0), 1e-12);
}

TEST(Rope, LinearScalingDividesAll) {
  io::ModelConfig config = Config(8, 10000.0f);
  config.rope_scaling = {io::RopeScaling::Kind::kLinear, 4.0f};
  const std::vector<double> frequencies = RopeFrequencies(config, {});
  for (int i = 0; i < 4; ++i) EXPECT_NEAR(frequencies[i], std::pow(10000.0, -i / 4.0) / 4.0, 1e-12);
}

// Llama 3.1's own settings; inverse frequencies as Hugging Face transformers computes them for rope_type "llama3".
TEST(Rope, Llama3ScalingKeepsShortWavesAndStretchesLongOnes) {
  io::ModelConfig config = Config(128, 500000.0f);
  config.rope_scaling = {io::RopeScaling::Kind::kLlama3, 8.0f, 1.0f, 4.0f, 8192};
  const std::vector<double> frequencies = RopeFrequencies(config, {});
  EXPECT_DOUBLE_EQ(frequencies[0], 1.0);
  const double last = std::pow(500000.0, -126.0 / 128.0);
  EXPECT_NEAR(frequencies[63] / (last / 8.0), 1.0, 1e-9);
  for (int i = 1; i < 64; ++i) EXPECT_LT(frequencies[i], frequencies[i - 1]);
  // Inside the band: wavelength between 8192 / 4 and 8192 / 1.
  const double plain = std::pow(500000.0, -60.0 / 128.0);  // i = 30
  const double wavelength = 2.0 * M_PI / plain;
  ASSERT_GT(wavelength, 2048.0);
  ASSERT_LT(wavelength, 8192.0);
  const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
  EXPECT_NEAR(frequencies[30], (1.0 - smooth) * plain / 8.0 + smooth * plain, 1e-12);
}

TEST(Rope, FactorsOfAGgufReplaceTheScaling) {
  io::ModelConfig config = Config(4, 100.0f);
  config.rope_scaling = {io::RopeScaling::Kind::kLlama3, 8.0f, 1.0f, 4.0f, 8192};
  const float factors[] = {1.0f, 2.0f};
  const std::vector<double> frequencies = RopeFrequencies(config, factors);
  EXPECT_DOUBLE_EQ(frequencies[0], 1.0);
  EXPECT_NEAR(frequencies[1], 0.05, 1e-9);
}

TEST(Rope, TableHoldsCosAndSinOfEachPosition) {
  const auto table = MakeRopeTable(Config(4, 100.0f), {}, 10);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->max_position, 10);
  EXPECT_FLOAT_EQ(table->cos.as<float>()[0], 1.0f);
  EXPECT_FLOAT_EQ(table->sin.as<float>()[2 * 7], std::sin(7.0f));
  EXPECT_FLOAT_EQ(table->sin.as<float>()[2 * 7 + 1], std::sin(0.7f));
}

}  // namespace
}  // namespace haast::model
