#include "attention/metadata_builder.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#ifdef HAAST_CHECKED
#include <cstring>
#endif

#include "base/format.h"

namespace haast::attention {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();
struct Totals {
  int64_t rows = 0;
  int64_t entries = 0;
  int64_t widest_row = 0;  // pages
  int64_t max_q_len = 0;
  int64_t max_kv_len = 0;
};

// What the messages of one sequence begin and end with.
struct Where {
  const char* mode;
  size_t sequence;
  size_t batch;
};

// KV entries that the launch reads and writes.
int64_t Entries(const SequenceRows& sequence) { return sequence.kv_before + sequence.tree_cached + sequence.num_rows; }

Status CheckTree(const Where& where, const SequenceRows& sequence) {
  const auto& parents = sequence.tree_parents;
  const int64_t rows = Entries(sequence) - sequence.kv_before;
  if (parents.empty() && sequence.tree_cached == 0) return {};
  if (static_cast<int64_t>(parents.size()) != rows) {
    return Err(ErrorCode::kInvalidArgument, "{}: {} tree parents for {} rows, {} of them cached (sequence {} of {})", where.mode,
               parents.size(), rows, sequence.tree_cached, where.sequence, where.batch);
  }
  if (rows > kMaxTreeRows) {
    return Err(ErrorCode::kInvalidArgument, "{}: a tree of {} rows, at most {} fit the mask (sequence {} of {})", where.mode, rows,
               kMaxTreeRows, where.sequence, where.batch);
  }
  for (int64_t row = 0; row < rows; ++row) {
    if (parents[row] < -1 || parents[row] >= row) {
      return Err(ErrorCode::kInvalidArgument,
                 "{}: row {} of the tree has parent {}, which must be -1 or an earlier row (sequence {} of {})", where.mode, row,
                 parents[row], where.sequence, where.batch);
    }
  }
  return {};
}

Status CheckSequence(const Where& where, int page_size, const SequenceRows& sequence) {
  if (sequence.kv_before < 0 || sequence.num_rows < 0 || sequence.tree_cached < 0) {
    return Err(ErrorCode::kInvalidArgument,
               "{}: {} tokens before the launch, {} cached tree rows and {} rows in it; all must be at least 0 (sequence {} of {})",
               where.mode, sequence.kv_before, sequence.tree_cached, sequence.num_rows, where.sequence, where.batch);
  }
  // No sum of three numbers below 2^62 overflows.
  if (std::max({sequence.kv_before, sequence.tree_cached, sequence.num_rows}) > kMaxInt32 || Entries(sequence) > kMaxInt32) {
    return Err(ErrorCode::kInvalidArgument, "{}: {} + {} tokens exceed the 32-bit limit {} (sequence {} of {})", where.mode,
               sequence.kv_before, sequence.num_rows, kMaxInt32, where.sequence, where.batch);
  }
  const int64_t pages = PagesOf(Entries(sequence), page_size);
  if (static_cast<int64_t>(sequence.pages.size()) < pages) {
    return Err(ErrorCode::kInvalidArgument, "{}: {} tokens need {} pages of {} slots but the sequence has {} (sequence {} of {})",
               where.mode, Entries(sequence), pages, page_size, sequence.pages.size(), where.sequence, where.batch);
  }
  const int64_t num_addressable = (kMaxInt32 + 1) / page_size;
  for (int64_t i = 0; i < pages; ++i) {
    if (sequence.pages[i] < 0 || sequence.pages[i] >= num_addressable) {
      return Err(ErrorCode::kInvalidArgument, "{}: page {} of the sequence has id {}, outside [0, {}) (sequence {} of {})", where.mode, i,
                 sequence.pages[i], num_addressable, where.sequence, where.batch);
    }
  }
  return CheckTree(where, sequence);
}

Result<Totals> CheckAll(ForwardMode mode, int page_size, std::span<const SequenceRows> sequences) {
  const char* name = ForwardModeName(mode);
  if (page_size < 1) return Err(ErrorCode::kInvalidArgument, "{}: page size {} must be at least 1", name, page_size);
  Totals totals;
  for (size_t b = 0; b < sequences.size(); ++b) {
    const SequenceRows& sequence = sequences[b];
    HAAST_RETURN_IF_ERROR(CheckSequence({name, b, sequences.size()}, page_size, sequence));
    const int64_t kv_len = Entries(sequence);
    totals.rows += sequence.num_rows;
    totals.entries += kv_len;
    totals.widest_row = std::max(totals.widest_row, PagesOf(kv_len, page_size));
    totals.max_q_len = std::max(totals.max_q_len, sequence.num_rows);
    totals.max_kv_len = std::max(totals.max_kv_len, kv_len);
    if (totals.entries > kMaxInt32) {
      return Err(ErrorCode::kInvalidArgument, "{}: {} KV entries up to sequence {} of {} exceed the 32-bit limit {}; use a smaller batch",
                 name, totals.entries, b, sequences.size(), kMaxInt32);
    }
  }
  return totals;
}

// Every element is written afterwards; checked builds make sure that one which is not cannot look plausible.
template <typename T>
T* Resize(std::vector<T>* values, int64_t size) {
  values->resize(static_cast<size_t>(size));
#ifdef HAAST_CHECKED
  if (size > 0) std::memset(values->data(), 0x7f, values->size() * sizeof(T));
#endif
  return values->data();
}

void FillSlots(std::span<const int32_t> pages, int page_size, int64_t count, int32_t* slots) {
  for (size_t i = 0; count > 0; ++i) {
    const int32_t base = pages[i] * page_size;
    const int32_t n = static_cast<int32_t>(std::min<int64_t>(page_size, count));
    for (int32_t offset = 0; offset < n; ++offset) slots[offset] = base + offset;
    slots += n;
    count -= n;
  }
}

void FillRows(const SequenceRows& sequence, int32_t* positions, uint64_t* masks) {
  const int32_t before = static_cast<int32_t>(sequence.kv_before);
  if (sequence.tree_parents.empty()) {
    for (int64_t row = 0; row < sequence.num_rows; ++row) {
      positions[row] = before + static_cast<int32_t>(row);
      masks[row] = 0;
    }
    return;
  }
  std::array<uint64_t, kMaxTreeRows> seen;  // by every row of the tree, cached ones too
  for (size_t row = 0; row < sequence.tree_parents.size(); ++row) {
    const int32_t parent = sequence.tree_parents[row];
    seen[row] = (parent < 0 ? 0 : seen[static_cast<size_t>(parent)]) | uint64_t{1} << row;
  }
  for (int64_t row = 0; row < sequence.num_rows; ++row) {
    masks[row] = seen[static_cast<size_t>(sequence.tree_cached + row)];
    positions[row] = before + std::popcount(masks[row]) - 1;
  }
}

void Fill(int page_size, std::span<const SequenceRows> sequences, const Totals& totals, ForwardMetadata* out) {
  const int64_t batch = static_cast<int64_t>(sequences.size());
  const int64_t stride = out->block_table_stride;
  int32_t* qo_indptr = Resize(&out->qo_indptr, batch + 1);
  int32_t* kv_indptr = Resize(&out->kv_indptr, batch + 1);
  int32_t* kv_indices = Resize(&out->kv_indices, totals.entries);
  int32_t* block_table = Resize(&out->block_table, batch * stride);
  int64_t* kv_len = Resize(&out->kv_len, batch);
  int32_t* out_slots = Resize(&out->out_slots, totals.rows);
  int32_t* positions = Resize(&out->positions, totals.rows);
  uint8_t* tree_flags = Resize(&out->tree_flags, batch);
  int32_t* tree_cached = Resize(&out->tree_cached, batch);
  uint64_t* tree_mask = Resize(&out->tree_mask, totals.rows);

  qo_indptr[0] = 0;
  kv_indptr[0] = 0;
  for (int64_t b = 0; b < batch; ++b) {
    const SequenceRows& sequence = sequences[b];
    const int64_t row = qo_indptr[b];
    const int64_t entry = kv_indptr[b];
    kv_len[b] = Entries(sequence);
    qo_indptr[b + 1] = static_cast<int32_t>(row + sequence.num_rows);
    kv_indptr[b + 1] = static_cast<int32_t>(entry + kv_len[b]);
    FillSlots(sequence.pages, page_size, kv_len[b], kv_indices + entry);
    std::copy_n(kv_indices + entry + kv_len[b] - sequence.num_rows, sequence.num_rows, out_slots + row);
    int32_t* table = block_table + b * stride;
    const int64_t pages = PagesOf(kv_len[b], page_size);
    std::copy_n(sequence.pages.data(), pages, table);
    std::fill(table + pages, table + stride, -1);
    tree_flags[b] = sequence.tree_parents.empty() ? 0 : 1;
    tree_cached[b] = static_cast<int32_t>(sequence.tree_cached);
    FillRows(sequence, positions + row, tree_mask + row);
  }
}

int64_t RowsOf(std::span<const SequenceRows> sequences) {
  int64_t rows = 0;
  for (const SequenceRows& sequence : sequences) rows += sequence.num_rows;
  return rows;
}

// Rows of the longest dummy; -1 where the sequences do not fit.
int64_t DummyRows(const Bucket& bucket, std::span<const SequenceRows> sequences) {
  const int64_t dummies = bucket.batch - static_cast<int64_t>(sequences.size());
  const int64_t padding = bucket.rows - RowsOf(sequences);
  if (dummies < 0 || padding < 0 || (dummies == 0 && padding > 0)) return -1;
  for (const SequenceRows& sequence : sequences) {
    if (sequence.num_rows > bucket.max_q_len || Entries(sequence) > bucket.max_kv_len) return -1;
  }
  const int64_t longest = dummies == 0 ? 0 : (padding + dummies - 1) / dummies;
  return longest <= bucket.max_q_len && std::max<int64_t>(longest, 1) <= bucket.max_kv_len ? longest : -1;
}

// One address for the whole life of a bucket: no later launch of it needs more.
void Reserve(const Bucket& bucket, int64_t stride, ForwardMetadata* out) {
  const auto size = [](int64_t count) { return static_cast<size_t>(count); };
  out->qo_indptr.reserve(size(bucket.batch + 1));
  out->kv_indptr.reserve(size(bucket.batch + 1));
  out->kv_indices.reserve(size(bucket.batch * bucket.max_kv_len));
  out->block_table.reserve(size(bucket.batch * stride));
  out->kv_len.reserve(size(bucket.batch));
  out->out_slots.reserve(size(bucket.rows));
  out->positions.reserve(size(bucket.rows));
  out->tree_flags.reserve(size(bucket.batch));
  out->tree_cached.reserve(size(bucket.batch));
  out->tree_mask.reserve(size(bucket.rows));
}

Status BuildPadded(int page_size, std::span<const SequenceRows> sequences, const Bucket& bucket, ForwardMetadata* out) {
  const char* mode = ForwardModeName(out->mode);
  const int64_t longest = DummyRows(bucket, sequences);
  if (longest < 0) {
    return Err(ErrorCode::kInvalidArgument,
               "{}: {} sequences of {} rows do not fit the bucket of {} sequences, {} rows, {} query rows and {} KV entries a sequence",
               mode, sequences.size(), RowsOf(sequences), bucket.batch, bucket.rows, bucket.max_q_len, bucket.max_kv_len);
  }
  if (bucket.max_kv_len > kMaxInt32 / std::max<int64_t>(bucket.batch, 1)) {
    return Err(ErrorCode::kInvalidArgument, "{}: a bucket of {} sequences of {} KV entries exceeds the 32-bit limit {}", mode, bucket.batch,
               bucket.max_kv_len, kMaxInt32);
  }
  const int64_t dummies = bucket.batch - static_cast<int64_t>(sequences.size());
  const int64_t padding = bucket.rows - RowsOf(sequences);
  const std::vector<int32_t> reserved(static_cast<size_t>(PagesOf(std::max<int64_t>(longest, 1), page_size)), kReservedPage);
  std::vector<SequenceRows> padded(sequences.begin(), sequences.end());
  for (int64_t i = 0; i < dummies; ++i) {
    const int64_t rows = padding / dummies + (i < padding % dummies ? 1 : 0);
    padded.push_back({.pages = reserved, .kv_before = rows == 0 ? 1 : 0, .num_rows = rows, .tree_parents = {}});
  }
  HAAST_ASSIGN_OR_RETURN(const Totals totals, CheckAll(out->mode, page_size, padded));
  out->block_table_stride = PagesOf(bucket.max_kv_len, page_size);
  out->max_q_len = totals.max_q_len;
  out->max_kv_len = totals.max_kv_len;
  out->padded_sequences = static_cast<int>(dummies);
  Reserve(bucket, out->block_table_stride, out);
  Fill(page_size, padded, totals, out);
  return {};
}

}  // namespace

const Bucket* ChooseBucket(std::span<const Bucket> buckets, std::span<const SequenceRows> sequences) {
  const auto fits = [&](const Bucket& bucket) { return DummyRows(bucket, sequences) >= 0; };
  const auto found = std::find_if(buckets.begin(), buckets.end(), fits);
  return found == buckets.end() ? nullptr : &*found;
}

Status BuildMetadata(ForwardMode mode, int page_size, std::span<const SequenceRows> sequences, ForwardMetadata* out, const Bucket* bucket) {
  out->Clear();
  HAAST_ASSIGN_OR_RETURN(const Totals totals, CheckAll(mode, page_size, sequences));
  out->mode = mode;
  out->page_size = page_size;
  if (bucket != nullptr) {
    const Status padded = BuildPadded(page_size, sequences, *bucket, out);
    if (!padded) out->Clear();  // a refused build leaves an idle launch
    return padded;
  }
  out->max_q_len = totals.max_q_len;
  out->max_kv_len = totals.max_kv_len;
  out->block_table_stride = totals.widest_row;
  Fill(page_size, sequences, totals, out);
  return {};
}

}  // namespace haast::attention
