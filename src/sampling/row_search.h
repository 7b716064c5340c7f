// Finds the few large values of a long row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "haast/event.h"

namespace haast::sampling {

inline constexpr int64_t kSearchBlock = 64;  // values skipped together when none of them is large enough

// The largest of `count` values that are not NaN; -infinity where there is none.
float BlockMaximum(const float* values, int64_t count);

// Calls visit(id) in ascending order for every value that is at least `bound` (a reference: visit may raise it).
template <typename Visit>
void ForEachAtLeast(std::span<const float> values, const float& bound, const Visit& visit) {
  const int64_t n = static_cast<int64_t>(values.size());
  for (int64_t begin = 0; begin < n; begin += kSearchBlock) {
    const int64_t count = std::min(kSearchBlock, n - begin);
    if (!(BlockMaximum(values.data() + begin, count) >= bound)) continue;
    for (int64_t i = begin; i < begin + count; ++i) {
      if (values[i] >= bound) visit(static_cast<int32_t>(i));
    }
  }
}

// The `count` largest values with their ids, largest first, ties by lower id, as (token, logprob) pairs whose logprob is the
// value. Neither -infinity nor NaN is listed.
void FindLargest(std::span<const float> values, int count, std::vector<TokenLogprob>* largest);

}  // namespace haast::sampling
