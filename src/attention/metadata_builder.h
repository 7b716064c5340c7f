// The one place where launch metadata is made.
#pragma once

#include <cstdint>
#include <span>

#include "attention/metadata.h"
#include "haast/result.h"

namespace haast::attention {

// One sequence of a launch. A causal sequence has `tree_parents` empty; row j stands at position kv_before + j. A tree
// has one parent per row (index of a row of the same sequence, smaller than its own; -1 = child of the last committed
// token); row j stands at position kv_before + depth(j) and sees the committed tokens, its ancestors and itself. A tree that
// grows level by level launches its new rows only: the `tree_cached` rows before them were written by earlier launches.
struct SequenceRows {
  std::span<const int32_t> pages;         // page ids in order, covering kv_before + num_rows tokens
  int64_t kv_before = 0;                  // committed tokens: KV valid before this launch, tree rows not counted
  int64_t num_rows = 0;                   // query rows of this launch; their KV entries are written by it
  std::span<const int32_t> tree_parents;  // [tree_cached + num_rows] or empty; at most 64 rows
  int64_t tree_cached = 0;                // rows of the tree that are in the KV cache already; 0 without a tree
};

// The fixed shape of a captured launch: batch and rows are exact, the rest are the bounds that its plan was made for.
struct Bucket {
  int64_t batch = 0;       // sequences, dummies included
  int64_t rows = 0;        // query rows, padding included
  int64_t max_q_len = 0;   // of one sequence
  int64_t max_kv_len = 0;  // of one sequence
};

// The first of `buckets` (smallest first) that has room for the sequences; null: none, the launch keeps its own shape.
const Bucket* ChooseBucket(std::span<const Bucket> buckets, std::span<const SequenceRows> sequences);

// Fills `out` (its memory is reused). Entry t of a sequence lives in slot pages[t / page_size] * page_size + t % page_size;
// the rows of a tree, cached ones first, occupy the entries from kv_before on in row order.
// With a bucket the launch gets exactly its shape: dummy sequences behind the real ones share the padding rows, read and
// write only the reserved page, and have at least one KV entry, so that no kernel meets a length of 0 or a page of -1. The
// arrays of one `out` and bucket keep their addresses, and block_table its stride, from launch to launch. On the host two
// rows may write one reserved slot: run such launches with one thread.
// Errors: too few pages, a parent that is not before its child, more than 64 tree rows, sizes beyond 32 bits, sequences that
// the bucket has no room for.
Status BuildMetadata(ForwardMode mode, int page_size, std::span<const SequenceRows> sequences, ForwardMetadata* out,
                     const Bucket* bucket = nullptr);

}  // namespace haast::attention
