// What the machine can do at most, and how near a step comes to it.
#pragma once

#include <algorithm>
#include <cstdint>

namespace haast::kernels {
struct Ops;
}

namespace haast::engine {

struct Roofline {
  double read_gb_per_s = 0.0;
  double int8_tops = 0.0;  // 1e12 operations a second; 0: not known

  // Seconds below which no step can read so much and compute so much.
  double Floor(int64_t bytes, int64_t operations) const {
    const double compute = int8_tops > 0.0 ? static_cast<double>(operations) / (int8_tops * 1e12) : 0.0;
    return std::max(static_cast<double>(bytes) / (read_gb_per_s * 1e9), compute);
  }
};

// Operations (1e12 a second) that all threads together reach with Ops::dot_loop, the median of several passes; 0 without one.
double MeasureInt8Rate(const kernels::Ops& ops, int threads);

}  // namespace haast::engine
