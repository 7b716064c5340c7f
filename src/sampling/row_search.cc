#include "sampling/row_search.h"

#include <cmath>

namespace haast::sampling {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

using FourFloats = float __attribute__((vector_size(16)));

// Written with vectors: compilers leave a loop of fp32 maxima scalar, for the sake of NaN. Here a NaN never wins.
FourFloats Larger(FourFloats value, FourFloats than) { return value > than ? value : than; }

}  // namespace

float BlockMaximum(const float* values, int64_t count) {
  const FourFloats lowest = FourFloats{} - kInfinity;
  FourFloats lanes[4] = {lowest, lowest, lowest, lowest};
  int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    FourFloats next[4];
    std::memcpy(next, values + i, sizeof(next));
    for (int j = 0; j < 4; ++j) lanes[j] = Larger(next[j], lanes[j]);
  }
  const FourFloats all = Larger(Larger(lanes[0], lanes[1]), Larger(lanes[2], lanes[3]));
  float largest = -kInfinity;
  for (int j = 0; j < 4; ++j) largest = all[j] > largest ? all[j] : largest;
  for (; i < count; ++i) largest = values[i] > largest ? values[i] : largest;
  return largest;
}

void FindLargest(std::span<const float> values, int count, std::vector<TokenLogprob>* largest) {
  largest->clear();
  if (count <= 0) return;
  const size_t wanted = std::min(static_cast<size_t>(count), values.size());
  largest->reserve(wanted + 1);
  float bound = std::numeric_limits<float>::lowest();
  ForEachAtLeast(values, bound, [&](int32_t id) {
    // Behind those it equals: of equal ones the earlier stays.
    const auto place =
        std::find_if(largest->begin(), largest->end(), [&](const TokenLogprob& other) { return other.logprob < values[id]; });
    largest->insert(place, {id, values[id]});
    if (largest->size() > wanted) largest->pop_back();
    if (largest->size() == wanted) bound = std::nextafter(largest->back().logprob, kInfinity);
  });
}

}  // namespace haast::sampling
