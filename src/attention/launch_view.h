// One launch as its check sees it: the arrays of ForwardMetadata and the tensors' rows, from the engine or from a dump.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attention/metadata.h"
#include "attention/metadata_check.h"

namespace haast::attention {

// An array that a dump may lack. Its memory outlives it.
template <typename T>
class MaybeArray {
 public:
  MaybeArray() = default;
  MaybeArray(std::span<const T> values)  // NOLINT(google-explicit-constructor): a view
      : data_(values.data()), size_(static_cast<int64_t>(values.size())), present_(true) {}
  MaybeArray(const std::vector<T>& values) : MaybeArray(std::span<const T>(values)) {}  // NOLINT(google-explicit-constructor)

  bool present() const { return present_; }
  int64_t size() const { return size_; }
  T operator[](int64_t i) const { return data_[i]; }
  // Elements [first, last) are there.
  bool Holds(int64_t first, int64_t last) const { return present_ && first >= 0 && first <= last && last <= size_; }

 private:
  const T* data_ = nullptr;
  int64_t size_ = 0;
  bool present_ = false;
};

// Absent arrays and numbers are not checked. B sequences, R rows, P pages in a row of block_table.
struct LaunchView {
  const char* mode = "launch";
  int64_t batch = 0;
  int64_t padded_sequences = 0;  // the last of the batch
  int64_t page_size = 1;
  int64_t reserved_page = kReservedPage;  // -1: none
  std::optional<int64_t> unused_page;     // what cells of block_table behind a sequence's pages hold
  std::optional<int64_t> skip_slot;       // padding rows with this slot write nothing; kernels know it
  MaybeArray<int32_t> qo_indptr;          // [B+1]
  MaybeArray<int32_t> kv_indptr;          // [B+1]
  MaybeArray<int32_t> kv_indices;         // [kv_indptr[B]]
  MaybeArray<int32_t> block_table;        // [B, P]
  int64_t block_table_stride = 0;         // P
  MaybeArray<int64_t> kv_len;             // [B]
  MaybeArray<int32_t> out_slots;          // [R]
  MaybeArray<int32_t> positions;          // [R]
  MaybeArray<uint8_t> tree_flags;         // [B]; absent: causal
  MaybeArray<int32_t> tree_cached;        // [B]; absent: 0
  MaybeArray<uint64_t> tree_mask;         // [R]
  MaybeArray<int32_t> page_owner;         // [pages]
  MaybeArray<int32_t> sequence_owner;     // [B], or of the real sequences
  std::optional<int64_t> max_q_len, max_kv_len;
  std::optional<int64_t> plan_max_q_len, plan_max_kv_len;   // bounds of a captured plan
  std::optional<int64_t> q_rows, k_rows, v_rows, out_rows;  // rows of the tensors
  std::optional<int64_t> real_rows;                         // rows whose results are used
  std::optional<int64_t> pool_slots;
  std::optional<int64_t> window, layer_window;  // tokens a row sees, itself included; 0: all

  bool has_rows() const { return qo_indptr.present() && qo_indptr.size() > 0; }
  int64_t rows() const { return has_rows() ? qo_indptr[qo_indptr.size() - 1] : 0; }
  int64_t real_batch() const { return batch - padded_sequences; }
  bool is_padding(int64_t b) const { return b >= real_batch(); }
  bool is_tree(int64_t b) const { return tree_flags.Holds(b, b + 1) && tree_flags[b] == 1; }
  int64_t cached(int64_t b) const { return tree_cached.Holds(b, b + 1) ? tree_cached[b] : 0; }
  // Leading sequences whose indptr ranges do not run backwards: theirs do not overlap, so a walk over all of them ends.
  int64_t sound_sequences() const;
  // block_table can be indexed as [B, P].
  bool table_usable() const;
};

// What sequence b says of itself where its indptr arrays are sound.
struct Extent {
  int64_t row = 0;      // its first query row
  int64_t rows = 0;     // of them
  int64_t before = -1;  // entries before those of the launch; -1: the launch has no KV lengths
  int64_t cached = 0;   // of them, tree rows of earlier launches
  int64_t kv_len = -1;
  int64_t entry = -1;  // its first entry of kv_indices; -1: not there
};

// Nothing where the arrays contradict each other (which other checks report).
std::optional<Extent> ExtentOf(const LaunchView& launch, int64_t b);

LaunchView ViewOf(const ForwardMetadata& metadata, const LaunchShape& shape);

}  // namespace haast::attention
