// Pearson's chi-square test of counts against exact probabilities.
#pragma once

#include <cmath>
#include <span>

namespace haast::testing {

struct ChiSquare {
  double statistic = 0.0;
  int degrees = 0;
  int impossible = 0;  // counts of what has probability 0

  // What a true distribution exceeds with probability 1e-4 (Wilson and Hilferty 1931; 3.719 is that quantile of the normal
  // distribution).
  double critical() const {
    if (degrees == 0) return 0.0;
    const double ninth = 2.0 / (9.0 * degrees);
    return degrees * std::pow(1.0 - ninth + 3.719 * std::sqrt(ninth), 3.0);
  }
  bool fits() const { return impossible == 0 && statistic <= critical(); }
};

// Outcomes expected fewer than 5 times count as one.
inline ChiSquare Compare(std::span<const int> counts, std::span<const double> probabilities) {
  double draws = 0.0;
  for (const int count : counts) draws += count;
  ChiSquare result;
  result.degrees = -1;
  double rare_expected = 0.0;
  double rare_count = 0.0;
  const auto add = [&](double count, double expected) {
    result.statistic += (count - expected) * (count - expected) / expected;
    ++result.degrees;
  };
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = probabilities[i] * draws;
    if (expected == 0.0) {
      result.impossible += counts[i];
    } else if (expected < 5.0) {
      rare_expected += expected;
      rare_count += counts[i];
    } else {
      add(counts[i], expected);
    }
  }
  if (rare_expected > 0.0) add(rare_count, rare_expected);
  return result;
}

}  // namespace haast::testing
