// Refuses a launch whose metadata does not describe its tensors.
#pragma once

#include <cstdint>
#include <span>

#include "attention/metadata.h"
#include "haast/result.h"

namespace haast::attention {

// Owner of a page that every sequence may read and none may write: full pages that several sequences begin with.
inline constexpr int32_t kSharedPageOwner = -3;

// What the launch really passes to the kernels.
struct LaunchShape {
  int64_t q_rows = 0;      // rows of q
  int64_t kv_rows = 0;     // rows of the new k and v
  int64_t out_rows = 0;    // rows of out
  int64_t pool_slots = 0;  // token slots of the KV pool
  int64_t real_rows = -1;  // rows whose results are used; -1: not told
  // Owner of each page (any number; -1 = free, kSharedPageOwner = read-only), or empty where the caller does not track it. Checked in
  // full mode.
  std::span<const int32_t> page_owner;
  std::span<const int32_t> sequence_owner;  // [B], dummies or not: the owner whose pages sequence b may use
};

enum class CheckLevel {
  kLaunch,  // always on: O(B), and O(new rows) slots: indptr, row counts, kv_len >= q_len, true maxima, new slots in the pool
  kFull,    // checked builds and tests: every slot and page, positions, masks, ownership, duplicates
};

// Stops at the first of the invariants (invariants.h) that is violated and names the numbers: "draft_extend: q has 4 rows but qo_indptr
// ends at 80 (sequence 0 of 1)".
Status CheckLaunch(const ForwardMetadata& metadata, const LaunchShape& shape, CheckLevel level);

// Element by element; names the first array, index and both values that differ. The eager and the fixed-buffer form of
// one launch must agree.
Status CompareMetadata(const ForwardMetadata& expected, const ForwardMetadata& actual);

}  // namespace haast::attention
