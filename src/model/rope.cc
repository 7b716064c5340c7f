#include "model/rope.h"

#include <cmath>
#include <numbers>

namespace haast::model {
namespace {

// As the Llama 3 configuration describes it: long waves are stretched, short ones kept, those between blended linearly in
// the number of turns over the original context.
double Llama3Frequency(double frequency, const io::RopeScaling& scaling) {
  const double wavelength = 2.0 * std::numbers::pi / frequency;
  const double low = static_cast<double>(scaling.original_context) / scaling.low_freq_factor;
  const double high = static_cast<double>(scaling.original_context) / scaling.high_freq_factor;
  if (wavelength < high) return frequency;
  if (wavelength > low) return frequency / scaling.factor;
  const double smooth = (static_cast<double>(scaling.original_context) / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1.0 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<double> RopeFrequencies(const io::ModelConfig& config, std::span<const float> factors) {
  const int half = config.head_dim / 2;
  std::vector<double> frequencies(static_cast<size_t>(half));
  for (int i = 0; i < half; ++i) {
    double frequency = std::pow(static_cast<double>(config.rope_theta), -2.0 * i / config.head_dim);
    if (!factors.empty()) {
      frequency /= factors[i];
    } else if (config.rope_scaling.kind == io::RopeScaling::Kind::kLlama3) {
      frequency = Llama3Frequency(frequency, config.rope_scaling);
    } else if (config.rope_scaling.kind == io::RopeScaling::Kind::kLinear) {
      frequency /= config.rope_scaling.factor;
    }
    frequencies[i] = frequency;
  }
  return frequencies;
}

Result<RopeTable> MakeRopeTable(const io::ModelConfig& config, std::span<const float> factors, int64_t max_position) {
  const std::vector<double> frequencies = RopeFrequencies(config, factors);
  const size_t bytes = static_cast<size_t>(max_position) * frequencies.size() * sizeof(float);
  RopeTable table;
  HAAST_ASSIGN_OR_RETURN(table.cos, Buffer::Allocate(bytes, "rope table"));
  HAAST_ASSIGN_OR_RETURN(table.sin, Buffer::Allocate(bytes, "rope table"));
  table.max_position = max_position;
  float* cos = table.cos.as<float>();
  float* sin = table.sin.as<float>();
  for (int64_t position = 0; position < max_position; ++position) {
    for (double frequency : frequencies) {
      const double angle = static_cast<double>(position) * frequency;
      *cos++ = static_cast<float>(std::cos(angle));
      *sin++ = static_cast<float>(std::sin(angle));
    }
  }
  return table;
}

}  // namespace haast::model
