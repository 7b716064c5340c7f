// The one place where launch metadata is made.
#pragma once

#include <cstdint>
#include <span>

#include "attention/metadata.h"
#include "haast/result.h"

namespace haast::attention {

// One sequence of a launch. A causal sequence has `tree_parents` empty; row j stands at position kv_before + j. A tree
// has one parent per row (index of a row of the same sequence, smaller than its own; -1 = child of the last committed
// token); row j stands at position kv_before + depth(j) and sees the committed tokens, its ancestors and itself.
struct SequenceRows {
  std::span<const int32_t> pages;         // page ids in order, covering kv_before + num_rows tokens
  int64_t kv_before = 0;                  // tokens whose KV is valid before this launch
  int64_t num_rows = 0;                   // query rows of this launch; their KV entries are written by it
  std::span<const int32_t> tree_parents;  // [num_rows] or empty; at most 64 rows
};

// Fills `out` (its memory is reused). Entry t of a sequence lives in slot pages[t / page_size] * page_size + t % page_size;
// the rows of a tree occupy entries kv_before .. kv_before + num_rows - 1 in row order.
// Errors: too few pages, a parent that is not before its child, more than 64 tree rows, sizes beyond 32 bits.
Status BuildMetadata(ForwardMode mode, int page_size, std::span<const SequenceRows> sequences, ForwardMetadata* out);

}  // namespace haast::attention
