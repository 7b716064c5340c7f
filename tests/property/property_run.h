// Runs a random case: after every step the invariants between steps hold, at the end every answer is, bit for bit, that of a lone
// plain run of its request.
#pragma once

#include <array>

#include "property/property_case.h"

namespace haast::testing {

// What the cases of a run came by: a test that they reach what they are for.
struct PropertyCounts {
  int64_t cases = 0;
  int64_t steps = 0;
  int64_t requests = 0;
  int64_t cancelled = 0;
  int64_t preemptions = 0;
  int64_t swaps = 0;
  int64_t prefix_hit_tokens = 0;
  int64_t prefix_evictions = 0;
  int64_t resumed = 0;           // requests that went on in a new engine
  int64_t inspected = 0;         // requests whose KV and drafter state were compared with fresh ones
  int64_t checked_launches = 0;  // of traced runs
  int64_t other_branches = 0;    // rounds whose accepted drafts were not the first rows of their tree
  int64_t automatic_rounds = 0;
  int64_t rejection_rounds = 0;
  std::array<int64_t, kNumSpeculativeAlgorithms> accepted{};
};

// Fails the calling test where something does not hold, and stops there.
void RunPropertyCase(const PropertyCase& property, PropertyCounts* counts);

}  // namespace haast::testing
