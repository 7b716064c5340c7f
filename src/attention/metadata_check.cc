#include "attention/metadata_check.h"

#include <algorithm>
#include <bit>
#include <string>
#include <unordered_map>

#include "base/format.h"

namespace haast::attention {
namespace {

constexpr int64_t kMaxTreeRows = 64;  // bits of one tree_mask word

// "draft_extend: <what> (sequence 0 of 1)"
template <typename... Args>
tl::unexpected<Error> Refuse(const ForwardMetadata& m, int64_t sequence, fmt::format_string<Args...> format, Args&&... args) {
  const std::string what = fmt::format(format, std::forward<Args>(args)...);
  if (sequence < 0) return Err(ErrorCode::kInvalidArgument, "{}: {} ({} sequences)", ForwardModeName(m.mode), what, m.batch());
  return Err(ErrorCode::kInvalidArgument, "{}: {} (sequence {} of {})", ForwardModeName(m.mode), what, sequence, m.batch());
}

int64_t QueryLength(const ForwardMetadata& m, int64_t b) { return int64_t{m.qo_indptr[b + 1]} - m.qo_indptr[b]; }

Status CheckIndptr(const ForwardMetadata& m, const char* name, const std::vector<int32_t>& indptr) {
  const int64_t batch = m.batch();
  if (static_cast<int64_t>(indptr.size()) != batch + 1) {
    return Refuse(m, -1, "{} has {} elements but kv_len has {}, so it needs {}", name, indptr.size(), batch, batch + 1);
  }
  if (indptr[0] != 0) return Refuse(m, batch == 0 ? -1 : 0, "{} starts at {} instead of 0", name, indptr[0]);
  for (int64_t b = 0; b < batch; ++b) {
    if (indptr[b + 1] < indptr[b]) return Refuse(m, b, "{} decreases from {} to {}", name, indptr[b], indptr[b + 1]);
  }
  return {};
}

Status CheckRowCounts(const ForwardMetadata& m, const LaunchShape& shape) {
  struct Count {
    const char* name;
    int64_t rows;
  };
  const Count counts[] = {{"q", shape.q_rows},
                          {"k and v", shape.kv_rows},
                          {"out", shape.out_rows},
                          {"out_slots", static_cast<int64_t>(m.out_slots.size())},
                          {"positions", static_cast<int64_t>(m.positions.size())},
                          {"tree_mask", static_cast<int64_t>(m.tree_mask.size())}};
  for (const Count& count : counts) {
    if (count.rows == m.rows()) continue;
    return Refuse(m, m.batch() - 1, "{} has {} rows but qo_indptr ends at {}", count.name, count.rows, m.rows());
  }
  const int64_t entries = m.kv_indptr.back();
  if (static_cast<int64_t>(m.kv_indices.size()) != entries) {
    return Refuse(m, m.batch() - 1, "kv_indices has {} entries but kv_indptr ends at {}", m.kv_indices.size(), entries);
  }
  if (static_cast<int64_t>(m.tree_flags.size()) != m.batch()) {
    return Refuse(m, -1, "tree_flags has {} elements but kv_len has {}", m.tree_flags.size(), m.batch());
  }
  if (static_cast<int64_t>(m.tree_cached.size()) != m.batch()) {
    return Refuse(m, -1, "tree_cached has {} elements but kv_len has {}", m.tree_cached.size(), m.batch());
  }
  return {};
}

Status CheckTreeSize(const ForwardMetadata& m, int64_t b, int64_t q_len) {
  const int64_t cached = m.tree_cached[b];
  if (m.tree_flags[b] == 0 && cached != 0) return Refuse(m, b, "{} cached tree rows but no tree", cached);
  if (cached < 0 || cached > m.kv_len[b] - q_len) {
    return Refuse(m, b, "{} cached tree rows among {} KV entries before the launch", cached, m.kv_len[b] - q_len);
  }
  if (m.tree_flags[b] == 1 && cached + q_len > kMaxTreeRows) {
    return Refuse(m, b, "a tree of {} rows, {} of them cached; at most {} fit the mask", cached + q_len, cached, kMaxTreeRows);
  }
  return {};
}

Status CheckLengths(const ForwardMetadata& m) {
  int64_t longest_q = 0, longest_kv = 0;
  int64_t q_sequence = -1, kv_sequence = -1;
  for (int64_t b = 0; b < m.batch(); ++b) {
    const int64_t q_len = QueryLength(m, b);
    const int64_t entries = int64_t{m.kv_indptr[b + 1]} - m.kv_indptr[b];
    if (m.kv_len[b] != entries) return Refuse(m, b, "kv_len is {} but kv_indptr holds {} entries", m.kv_len[b], entries);
    if (entries < q_len) return Refuse(m, b, "kv_len {} is less than its {} query rows", entries, q_len);
    if (m.tree_flags[b] > 1) return Refuse(m, b, "tree flag is {}, neither 0 nor 1", m.tree_flags[b]);
    HAAST_RETURN_IF_ERROR(CheckTreeSize(m, b, q_len));
    if (q_len > longest_q || q_sequence < 0) longest_q = q_len, q_sequence = b;
    if (entries > longest_kv || kv_sequence < 0) longest_kv = entries, kv_sequence = b;
  }
  if (m.max_q_len != longest_q)
    return Refuse(m, q_sequence, "max_q_len is {} but the longest sequence has {} query rows", m.max_q_len, longest_q);
  if (m.max_kv_len != longest_kv) {
    return Refuse(m, kv_sequence, "max_kv_len is {} but the longest sequence has {} KV entries", m.max_kv_len, longest_kv);
  }
  return {};
}

Status CheckBlockTableShape(const ForwardMetadata& m) {
  if (m.page_size < 1) return Refuse(m, -1, "page size {} must be at least 1", m.page_size);
  const int64_t stride = m.block_table_stride;
  const int64_t cells = static_cast<int64_t>(m.block_table.size());
  // Divides instead of multiplying: a wild stride must not overflow.
  const bool consistent = stride >= 0 && (m.batch() == 0 || stride == 0 ? cells == 0 : cells % stride == 0 && cells / stride == m.batch());
  if (!consistent) return Refuse(m, -1, "block_table has {} cells but its stride is {}", cells, stride);
  for (int64_t b = 0; b < m.batch(); ++b) {
    const int64_t pages = m.kv_len[b] / m.page_size + (m.kv_len[b] % m.page_size != 0 ? 1 : 0);
    if (pages > stride) {
      return Refuse(m, b, "{} KV entries need {} pages of {} slots but a row of block_table has {}", m.kv_len[b], pages, m.page_size,
                    stride);
    }
  }
  return {};
}

// Entry `t` of sequence b: its slot lies in the pool and is the one its block table names.
Status CheckEntry(const ForwardMetadata& m, const LaunchShape& shape, int64_t b, int64_t t) {
  const int64_t index = m.kv_indptr[b] + t;
  const int64_t slot = m.kv_indices[index];
  if (slot < 0 || slot >= shape.pool_slots) {
    return Refuse(m, b, "kv_indices[{}] is slot {}, outside the pool of {} slots", index, slot, shape.pool_slots);
  }
  const int64_t page = m.block_table[b * m.block_table_stride + t / m.page_size];
  if (page < 0 || page >= shape.pool_slots / m.page_size) {
    return Refuse(m, b, "block_table names page {} for token {}, outside the pool of {} pages of {} slots", page, t,
                  shape.pool_slots / m.page_size, m.page_size);
  }
  const int64_t expected = page * m.page_size + t % m.page_size;
  if (slot != expected) {
    return Refuse(m, b, "kv_indices[{}] is slot {} but page {} of block_table puts token {} into slot {}", index, slot, page, t, expected);
  }
  return {};
}

// A row sees itself and rows before it only; a wild bit would read KV of another sequence.
Status CheckMaskWord(const ForwardMetadata& m, int64_t b, int64_t j) {
  const uint64_t word = m.tree_mask[m.qo_indptr[b] + j];
  const uint64_t self = uint64_t{1} << (m.tree_cached[b] + j);
  if ((word & self) == 0) return Refuse(m, b, "tree_mask of row {} is {:#x}, which hides the row from itself", j, word);
  if ((word & ~(self | (self - 1))) != 0) {
    return Refuse(m, b, "tree_mask of row {} is {:#x}, which shows rows after it", j, word);
  }
  return {};
}

Status CheckNewRows(const ForwardMetadata& m, const LaunchShape& shape) {
  for (int64_t b = 0; b < m.batch(); ++b) {
    const int64_t q_len = QueryLength(m, b);
    const int64_t before = m.kv_len[b] - q_len;
    for (int64_t j = 0; j < q_len; ++j) {
      const int64_t row = m.qo_indptr[b] + j;
      const int64_t slot = m.out_slots[row];
      if (slot < 0 || slot >= shape.pool_slots) {
        return Refuse(m, b, "out_slots[{}] is slot {}, outside the pool of {} slots", row, slot, shape.pool_slots);
      }
      HAAST_RETURN_IF_ERROR(CheckEntry(m, shape, b, before + j));
      const int64_t read = m.kv_indices[m.kv_indptr[b] + before + j];
      if (read != slot) {
        return Refuse(m, b, "row {} writes slot {} (out_slots) but is read from slot {} (kv_indices[{}])", row, slot, read,
                      m.kv_indptr[b] + before + j);
      }
      const int64_t committed = before - m.tree_cached[b];
      if (m.positions[row] < committed || m.positions[row] >= m.kv_len[b]) {
        return Refuse(m, b, "row {} is at position {}, outside [{}, {})", row, m.positions[row], committed, m.kv_len[b]);
      }
      if (m.tree_flags[b] == 1) HAAST_RETURN_IF_ERROR(CheckMaskWord(m, b, j));
    }
  }
  return {};
}

// Ancestors of a visible row are visible too, and the position of a row is its depth below the committed tokens.
Status CheckTreeRow(const ForwardMetadata& m, int64_t b, int64_t j) {
  const uint64_t* masks = m.tree_mask.data() + m.qo_indptr[b];
  const int cached = m.tree_cached[b];  // their masks belong to earlier launches
  const uint64_t ancestors = masks[j] & ~(uint64_t{1} << (cached + j));
  const uint64_t launched = ancestors >> cached << cached;
  uint64_t closure = 0;
  for (uint64_t rest = launched; rest != 0; rest &= rest - 1) closure |= masks[std::countr_zero(rest) - cached];
  if ((closure & ~masks[j]) != 0) {
    return Refuse(m, b, "tree_mask of row {} is {:#x} but the rows it shows also see {:#x}: not the ancestors of one row", j, masks[j],
                  closure & ~masks[j]);
  }
  // On one path every row sees all the rows of the path before it; siblings do not.
  if (launched != 0 && masks[std::bit_width(ancestors) - 1 - cached] != ancestors) {
    return Refuse(m, b, "tree_mask of row {} is {:#x}, which shows rows of two branches", j, masks[j]);
  }
  return {};
}

Status CheckPositions(const ForwardMetadata& m) {
  for (int64_t b = 0; b < m.batch(); ++b) {
    const int64_t q_len = QueryLength(m, b);
    const int64_t before = m.kv_len[b] - q_len;
    for (int64_t j = 0; j < q_len; ++j) {
      const int64_t row = m.qo_indptr[b] + j;
      if (m.tree_flags[b] == 1) HAAST_RETURN_IF_ERROR(CheckTreeRow(m, b, j));
      const int64_t depth = m.tree_flags[b] == 1 ? std::popcount(m.tree_mask[row]) - 1 : j;
      if (m.positions[row] != before - m.tree_cached[b] + depth) {
        return Refuse(m, b, "row {} is at position {} but {} tokens precede the launch and its depth is {}", row, m.positions[row],
                      before - m.tree_cached[b], depth);
      }
    }
  }
  return {};
}

Status CheckPages(const ForwardMetadata& m, const LaunchShape& shape) {
  std::vector<int32_t> sorted;
  for (int64_t b = 0; b < m.batch(); ++b) {
    const auto row = m.block_table.begin() + b * m.block_table_stride;
    const int64_t used = m.kv_len[b] / m.page_size + (m.kv_len[b] % m.page_size != 0 ? 1 : 0);
    for (int64_t i = used; i < m.block_table_stride; ++i) {
      if (row[i] != -1) return Refuse(m, b, "block_table has page {} in cell {} but the sequence uses {} pages", row[i], i, used);
    }
    sorted.assign(row, row + used);
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end()) return Refuse(m, b, "block_table names page {} twice", *twice);
    if (shape.page_owner.empty()) continue;
    for (int64_t i = 0; i < used; ++i) {
      const int64_t page = row[i];
      if (page >= static_cast<int64_t>(shape.page_owner.size())) {
        return Refuse(m, b, "block_table names page {} but only {} pages have an owner", page, shape.page_owner.size());
      }
      if (shape.page_owner[page] == kSharedPageOwner) {
        const int64_t before = m.kv_len[b] - QueryLength(m, b);
        if ((i + 1) * m.page_size <= before) continue;
        return Refuse(m, b, "page {} is shared and read-only, but tokens from {} on are written and it holds tokens {} to {}", page, before,
                      i * m.page_size, (i + 1) * m.page_size - 1);
      }
      if (shape.page_owner[page] != shape.sequence_owner[b]) {
        return Refuse(m, b, "page {} belongs to owner {} but the sequence may use pages of owner {}", page, shape.page_owner[page],
                      shape.sequence_owner[b]);
      }
    }
  }
  return {};
}

// A slot is written by one row, and no other sequence reads it in the same launch. Page 0 is exempt: padding shares it.
Status CheckWriters(const ForwardMetadata& m) {
  std::unordered_map<int32_t, int64_t> writer;  // slot -> sequence
  for (int64_t b = 0; b < m.batch(); ++b) {
    for (int64_t row = m.qo_indptr[b]; row < m.qo_indptr[b + 1]; ++row) {
      const int32_t slot = m.out_slots[row];
      if (slot < m.page_size) continue;
      const auto [found, fresh] = writer.emplace(slot, b);
      if (!fresh) return Refuse(m, b, "row {} writes slot {}, which sequence {} writes too", row, slot, found->second);
    }
  }
  for (int64_t b = 0; b < m.batch(); ++b) {
    for (int64_t i = m.kv_indptr[b]; i < m.kv_indptr[b + 1]; ++i) {
      const auto found = writer.find(m.kv_indices[i]);
      if (found == writer.end() || found->second == b) continue;
      return Refuse(m, b, "kv_indices[{}] reads slot {}, which sequence {} writes", i, m.kv_indices[i], found->second);
    }
  }
  return {};
}

Status CheckFull(const ForwardMetadata& m, const LaunchShape& shape) {
  if (!shape.page_owner.empty() && static_cast<int64_t>(shape.sequence_owner.size()) != m.batch()) {
    return Refuse(m, -1, "{} sequence owners for {} sequences", shape.sequence_owner.size(), m.batch());
  }
  for (int64_t b = 0; b < m.batch(); ++b) {
    for (int64_t t = 0; t < m.kv_len[b]; ++t) HAAST_RETURN_IF_ERROR(CheckEntry(m, shape, b, t));
  }
  HAAST_RETURN_IF_ERROR(CheckPositions(m));
  HAAST_RETURN_IF_ERROR(CheckPages(m, shape));
  return CheckWriters(m);
}

template <typename T>
Status CompareScalar(const char* name, T expected, T actual) {
  if (expected == actual) return {};
  return Err(ErrorCode::kInvalidArgument, "{}: expected {}, got {}", name, expected, actual);
}

template <typename T>
Status CompareArray(const char* name, const std::vector<T>& expected, const std::vector<T>& actual) {
  const size_t common = std::min(expected.size(), actual.size());
  for (size_t i = 0; i < common; ++i) {
    if (expected[i] != actual[i]) return Err(ErrorCode::kInvalidArgument, "{}[{}]: expected {}, got {}", name, i, expected[i], actual[i]);
  }
  if (expected.size() == actual.size()) return {};
  return Err(ErrorCode::kInvalidArgument, "{}: expected {} elements, got {}", name, expected.size(), actual.size());
}

}  // namespace

Status CheckLaunch(const ForwardMetadata& metadata, const LaunchShape& shape, CheckLevel level) {
  HAAST_RETURN_IF_ERROR(CheckIndptr(metadata, "qo_indptr", metadata.qo_indptr));
  HAAST_RETURN_IF_ERROR(CheckIndptr(metadata, "kv_indptr", metadata.kv_indptr));
  HAAST_RETURN_IF_ERROR(CheckRowCounts(metadata, shape));
  HAAST_RETURN_IF_ERROR(CheckLengths(metadata));
  HAAST_RETURN_IF_ERROR(CheckBlockTableShape(metadata));
  HAAST_RETURN_IF_ERROR(CheckNewRows(metadata, shape));
  return level == CheckLevel::kFull ? CheckFull(metadata, shape) : Status{};
}

Status CompareMetadata(const ForwardMetadata& expected, const ForwardMetadata& actual) {
  HAAST_RETURN_IF_ERROR(
      CompareScalar("mode", std::string_view(ForwardModeName(expected.mode)), std::string_view(ForwardModeName(actual.mode))));
  HAAST_RETURN_IF_ERROR(CompareScalar("page_size", expected.page_size, actual.page_size));
  HAAST_RETURN_IF_ERROR(CompareArray("qo_indptr", expected.qo_indptr, actual.qo_indptr));
  HAAST_RETURN_IF_ERROR(CompareArray("kv_indptr", expected.kv_indptr, actual.kv_indptr));
  HAAST_RETURN_IF_ERROR(CompareArray("kv_indices", expected.kv_indices, actual.kv_indices));
  HAAST_RETURN_IF_ERROR(CompareScalar("block_table_stride", expected.block_table_stride, actual.block_table_stride));
  HAAST_RETURN_IF_ERROR(CompareArray("block_table", expected.block_table, actual.block_table));
  HAAST_RETURN_IF_ERROR(CompareArray("kv_len", expected.kv_len, actual.kv_len));
  HAAST_RETURN_IF_ERROR(CompareArray("out_slots", expected.out_slots, actual.out_slots));
  HAAST_RETURN_IF_ERROR(CompareArray("positions", expected.positions, actual.positions));
  HAAST_RETURN_IF_ERROR(CompareArray("tree_flags", expected.tree_flags, actual.tree_flags));
  HAAST_RETURN_IF_ERROR(CompareArray("tree_cached", expected.tree_cached, actual.tree_cached));
  HAAST_RETURN_IF_ERROR(CompareArray("tree_mask", expected.tree_mask, actual.tree_mask));
  HAAST_RETURN_IF_ERROR(CompareScalar("max_q_len", expected.max_q_len, actual.max_q_len));
  return CompareScalar("max_kv_len", expected.max_kv_len, actual.max_kv_len);
}

}  // namespace haast::attention
