// ForwardMetadata: everything that a launch knows about its batch. Built by one function for every mode
// (metadata_builder.h) and compared with the tensors of the launch before every launch (metadata_check.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace haast::attention {

// Page 0 belongs to no request: the padding of fixed-shape launches lives there.
inline constexpr int32_t kReservedPage = 0;
inline constexpr int64_t kMaxTreeRows = 64;  // bits of one tree_mask word

// Pages that `tokens` tokens take.
inline int64_t PagesOf(int64_t tokens, int64_t page_size) { return tokens / page_size + (tokens % page_size != 0 ? 1 : 0); }

// A label for traces and tests. No array is computed by branching on it.
enum class ForwardMode { kExtend, kDecode, kDraftDecode, kTargetVerify, kDraftExtend, kIdle };
const char* ForwardModeName(ForwardMode mode);  // "extend", "decode", "draft_decode", "target_verify", ...

// B sequences, R query rows, P pages in the widest row of the block table.
struct ForwardMetadata {
  ForwardMode mode = ForwardMode::kIdle;
  int page_size = 1;
  std::vector<int32_t> qo_indptr{0};  // [B+1] rows of sequence b are [qo_indptr[b], qo_indptr[b+1])
  std::vector<int32_t> kv_indptr{0};  // [B+1] KV entries, including the tokens of this launch
  std::vector<int32_t> kv_indices;    // [kv_indptr[B]] token slot of each entry
  std::vector<int32_t> block_table;   // [B, P] the same as pages; unused cells are -1
  int64_t block_table_stride = 0;     // P
  std::vector<int64_t> kv_len;        // [B] differences of kv_indptr; 64-bit because it feeds addresses
  std::vector<int32_t> out_slots;     // [R] where this launch writes K and V
  std::vector<int32_t> positions;     // [R] absolute position of each row
  std::vector<uint8_t> tree_flags;    // [B] 0: causal, 1: tree_mask decides
  std::vector<int32_t> tree_cached;   // [B] tree rows that earlier launches of the round wrote: the entries just before this launch's
  std::vector<uint64_t> tree_mask;    // [R] bit j: may see row j of the same tree, cached rows first (itself included)
  int64_t max_q_len = 0;              // true maxima, dummies included
  int64_t max_kv_len = 0;
  int padded_sequences = 0;  // the last of the batch are dummies of a fixed-shape launch, on the reserved page

  int real_batch() const { return batch() - padded_sequences; }
  int64_t real_rows() const { return qo_indptr[static_cast<size_t>(real_batch())]; }
  int batch() const { return static_cast<int>(kv_len.size()); }
  int64_t rows() const { return qo_indptr.back(); }
  // Empties every array and keeps its memory; checked builds poison it first.
  void Clear();
};

// Calls fn(name, array...) for every array of a launch, with the array of that name of each of `launches`: ForwardMetadata, and whatever
// else has members of these names. The one list of them for all that clear, compare, view, write and read launches.
template <typename Fn, typename... Launches>
void ForEachArray(Fn&& fn, Launches&... launches) {
  fn("qo_indptr", launches.qo_indptr...);
  fn("kv_indptr", launches.kv_indptr...);
  fn("kv_indices", launches.kv_indices...);
  fn("block_table", launches.block_table...);
  fn("kv_len", launches.kv_len...);
  fn("out_slots", launches.out_slots...);
  fn("positions", launches.positions...);
  fn("tree_flags", launches.tree_flags...);
  fn("tree_cached", launches.tree_cached...);
  fn("tree_mask", launches.tree_mask...);
}

// The launch without its dummies, as an eager launch of the same sequences has it. `metadata` must have passed its check.
ForwardMetadata WithoutPadding(const ForwardMetadata& metadata);

}  // namespace haast::attention
