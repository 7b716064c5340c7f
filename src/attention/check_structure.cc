#include <algorithm>
#include <array>

#include "attention/launch_checks.h"

namespace haast::attention {
namespace {

void CheckPaddedSequences(const LaunchView& l, Findings* f) {
  if (l.padded_sequences >= 0 && l.padded_sequences <= l.batch) return;
  f->Add({Invariant::kPaddingCounts, "padded_sequences", -1, -1, std::nullopt, l.padded_sequences},
         "{} of {} sequences are said to be padding", l.padded_sequences, l.batch);
}

void CheckRealRows(const LaunchView& l, Findings* f) {
  if (!l.real_rows || l.padded_sequences < 0 || l.padded_sequences > l.batch || !l.qo_indptr.Holds(0, l.real_batch() + 1)) return;
  const int64_t rows = l.qo_indptr[l.real_batch()];
  if (*l.real_rows == rows) return;
  f->Add({Invariant::kPaddingCounts, "real_rows", -1, -1, rows, *l.real_rows},
         "{} rows are taken as real but the {} real sequences have {} (qo_indptr[{}])", *l.real_rows, l.real_batch(), rows, l.real_batch());
}

void CheckIndptr(const LaunchView& l, const char* name, const MaybeArray<int32_t>& indptr, Findings* f) {
  if (!indptr.present()) return;
  if (indptr.size() != l.batch + 1) {
    f->Add({Invariant::kIndptrSize, name, -1, -1, l.batch + 1, indptr.size()}, "{} has {} elements but {} sequences need {}", name,
           indptr.size(), l.batch, l.batch + 1);
  }
  if (indptr.size() == 0) return;
  if (indptr[0] != 0) {
    f->Add({Invariant::kIndptrStart, name, 0, l.batch == 0 ? -1 : 0, 0, indptr[0]}, "{} starts at {} instead of 0", name, indptr[0]);
  }
  for (int64_t b = 0; b + 1 < indptr.size() && !f->done(); ++b) {
    if (indptr[b + 1] >= indptr[b]) continue;
    f->Add({Invariant::kIndptrOrder, name, b + 1, b, std::nullopt, indptr[b + 1]}, "{} decreases from {} to {}", name, indptr[b],
           indptr[b + 1]);
  }
}

// A wrong row count is said once: what else has the same wrong count has it for the same reason.
void CheckRowCounts(const LaunchView& l, Findings* f) {
  if (!l.has_rows()) return;
  struct Count {
    const char* name;   // as the message calls it
    const char* array;  // at fault: the tensors are what they are, so it is qo_indptr
    std::optional<int64_t> rows;
  };
  const auto size = [](const auto& array) { return array.present() ? std::optional<int64_t>(array.size()) : std::nullopt; };
  const std::array counts = {Count{"q", "qo_indptr", l.q_rows},
                             Count{"k", "qo_indptr", l.k_rows},
                             Count{"v", "qo_indptr", l.v_rows},
                             Count{"out", "qo_indptr", l.out_rows},
                             Count{"out_slots", "out_slots", size(l.out_slots)},
                             Count{"positions", "positions", size(l.positions)},
                             Count{"tree_mask", "tree_mask", size(l.tree_mask)}};
  for (size_t i = 0; i < counts.size() && !f->done(); ++i) {
    const Count& count = counts[i];
    if (!count.rows || *count.rows == l.rows()) continue;
    if (std::any_of(counts.begin(), counts.begin() + i, [&](const Count& earlier) { return earlier.rows == count.rows; })) continue;
    const bool indptr = std::string_view(count.array) == "qo_indptr";
    f->Add({Invariant::kRowCount, count.array, indptr ? l.qo_indptr.size() - 1 : -1, l.batch - 1, indptr ? *count.rows : l.rows(),
            indptr ? l.rows() : *count.rows},
           "{} has {} rows but qo_indptr ends at {}", count.name, *count.rows, l.rows());
  }
}

void CheckSizes(const LaunchView& l, Findings* f) {
  if (l.kv_indptr.present() && l.kv_indptr.size() > 0 && l.kv_indices.present()) {
    const int64_t entries = l.kv_indptr[l.kv_indptr.size() - 1];
    if (l.kv_indices.size() != entries) {
      f->Add({Invariant::kEntryCount, "kv_indptr", l.kv_indptr.size() - 1, l.batch - 1, l.kv_indices.size(), entries},
             "kv_indices has {} entries but kv_indptr ends at {}", l.kv_indices.size(), entries);
    }
  }
  const auto per_sequence = [&](const char* name, const auto& array) {
    if (!array.present() || array.size() == l.batch) return;
    f->Add({Invariant::kSequenceCount, name, -1, -1, l.batch, array.size()}, "{} has {} elements for {} sequences", name, array.size(),
           l.batch);
  };
  per_sequence("kv_len", l.kv_len);
  per_sequence("tree_flags", l.tree_flags);
  per_sequence("tree_cached", l.tree_cached);
}

// Rows and KV entries of the longest sequences, as far as the arrays are sound.
struct Longest {
  int64_t q_len = 0, kv_len = 0;
  int64_t q_sequence = -1, kv_sequence = -1;
  bool sound = true;
};

void CheckTreeSize(const LaunchView& l, int64_t b, int64_t q_len, int64_t kv_len, Findings* f) {
  const int64_t cached = l.cached(b);
  if (!l.is_tree(b)) {
    if (cached != 0) f->Add({Invariant::kTreeRows, "tree_cached", b, b, 0, cached}, "{} cached tree rows but no tree", cached);
    return;
  }
  if (cached < 0 || (kv_len >= q_len && cached > kv_len - q_len)) {
    f->Add({Invariant::kTreeRows, "tree_cached", b, b, std::nullopt, cached}, "{} cached tree rows among {} KV entries before the launch",
           cached, kv_len - q_len);
  } else if (cached + q_len > kMaxTreeRows) {
    f->Add({Invariant::kTreeRows, "tree_flags", b, b, kMaxTreeRows, cached + q_len},
           "a tree of {} rows, {} of them cached; at most {} fit the mask", cached + q_len, cached, kMaxTreeRows);
  }
}

void CheckSequence(const LaunchView& l, int64_t b, Longest* longest, Findings* f) {
  const bool has_rows = l.qo_indptr.Holds(b, b + 2);
  const int64_t q_len = has_rows ? int64_t{l.qo_indptr[b + 1]} - l.qo_indptr[b] : 0;
  const bool has_entries = l.kv_indptr.Holds(b, b + 2);
  const int64_t entries = has_entries ? int64_t{l.kv_indptr[b + 1]} - l.kv_indptr[b] : -1;
  const bool has_len = l.kv_len.Holds(b, b + 1);
  const int64_t kv_len = has_entries ? entries : has_len ? l.kv_len[b] : -1;
  if (has_entries && has_len && l.kv_len[b] != entries) {
    f->Add({Invariant::kKvLength, "kv_len", b, b, entries, l.kv_len[b]}, "kv_len is {} but kv_indptr holds {} entries", l.kv_len[b],
           entries);
    longest->sound = false;
  } else if ((has_entries || has_len) && has_rows && kv_len < q_len) {
    f->Add({Invariant::kKvCoversRows, has_len ? "kv_len" : "kv_indptr", has_len ? b : b + 1, b, q_len, kv_len},
           "kv_len {} is less than its {} query rows", kv_len, q_len);
  }
  if (l.tree_flags.Holds(b, b + 1) && l.tree_flags[b] > 1) {
    f->Add({Invariant::kTreeFlag, "tree_flags", b, b, std::nullopt, l.tree_flags[b]}, "tree flag is {}, neither 0 nor 1", l.tree_flags[b]);
  }
  CheckTreeSize(l, b, q_len, kv_len, f);
  longest->sound &= has_rows && q_len >= 0 && kv_len >= 0;
  if (q_len > longest->q_len || longest->q_sequence < 0) longest->q_len = q_len, longest->q_sequence = b;
  if (kv_len > longest->kv_len || longest->kv_sequence < 0) longest->kv_len = kv_len, longest->kv_sequence = b;
}

void CheckMaxima(const LaunchView& l, const Longest& longest, Findings* f) {
  if (l.max_q_len && *l.max_q_len != longest.q_len) {
    f->Add({Invariant::kMaxQueryLength, "max_q_len", -1, longest.q_sequence, longest.q_len, *l.max_q_len},
           "max_q_len is {} but the longest sequence has {} query rows", *l.max_q_len, longest.q_len);
  }
  if (l.plan_max_q_len && *l.plan_max_q_len < longest.q_len) {
    f->Add({Invariant::kPlanBound, "plan_max_q_len", -1, longest.q_sequence, longest.q_len, *l.plan_max_q_len},
           "the plan was made for {} query rows a sequence but the longest has {}", *l.plan_max_q_len, longest.q_len);
  }
  if (!longest.sound) return;  // some sequence has no KV length
  if (l.max_kv_len && *l.max_kv_len != longest.kv_len) {
    f->Add({Invariant::kMaxKvLength, "max_kv_len", -1, longest.kv_sequence, longest.kv_len, *l.max_kv_len},
           "max_kv_len is {} but the longest sequence has {} KV entries", *l.max_kv_len, longest.kv_len);
  }
  if (l.plan_max_kv_len && *l.plan_max_kv_len < longest.kv_len) {
    f->Add({Invariant::kPlanBound, "plan_max_kv_len", -1, longest.kv_sequence, longest.kv_len, *l.plan_max_kv_len},
           "the plan was made for {} KV entries a sequence but the longest has {}", *l.plan_max_kv_len, longest.kv_len);
  }
}

void CheckTable(const LaunchView& l, Findings* f) {
  if (l.page_size < 1) {
    f->Add({Invariant::kPageSize, "page_size", -1, -1, std::nullopt, l.page_size}, "page size {} must be at least 1", l.page_size);
  }
  if (!l.block_table.present()) return;
  const int64_t stride = l.block_table_stride, cells = l.block_table.size();
  const bool empty = cells == 0 && stride >= 0 && (l.batch == 0 || stride == 0);
  const bool shaped = stride > 0 && l.batch > 0 && cells % stride == 0 && cells / stride == l.batch;
  if (!empty && !shaped) {
    f->Add({Invariant::kTableShape, "block_table", -1, -1, std::nullopt, stride}, "block_table has {} cells but its stride is {}", cells,
           stride);
    return;
  }
  if (l.page_size < 1) return;
  for (int64_t b = 0; b < l.batch && !f->done(); ++b) {
    const auto extent = ExtentOf(l, b);
    if (!extent || extent->kv_len < 0) continue;
    const int64_t pages = PagesOf(extent->kv_len, l.page_size);
    if (pages <= stride) continue;
    f->Add({Invariant::kTableWidth, "block_table", -1, b, pages, stride},
           "{} KV entries need {} pages of {} slots but a row of block_table has {}", extent->kv_len, pages, l.page_size, stride);
  }
}

void CheckWindow(const LaunchView& l, Findings* f) {
  if (!l.window || !l.layer_window || *l.window == *l.layer_window) return;
  f->Add({Invariant::kWindow, "window", -1, -1, *l.layer_window, *l.window},
         "the launch's window is {} but the layer's is {} (0: no window)", *l.window, *l.layer_window);
}

}  // namespace

void CheckStructure(const LaunchView& l, Findings* f) {
  CheckPaddedSequences(l, f);
  CheckIndptr(l, "qo_indptr", l.qo_indptr, f);
  CheckIndptr(l, "kv_indptr", l.kv_indptr, f);
  CheckRowCounts(l, f);
  CheckSizes(l, f);
  CheckRealRows(l, f);
  Longest longest;
  for (int64_t b = 0; b < l.batch && !f->done(); ++b) CheckSequence(l, b, &longest, f);
  if (l.qo_indptr.Holds(0, l.batch + 1)) CheckMaxima(l, longest, f);
  CheckTable(l, f);
  CheckWindow(l, f);
}

void CheckInvariants(const LaunchView& launch, CheckLevel level, Findings* findings) {
  CheckStructure(launch, findings);
  LaunchView sound = launch;
  if (launch.padded_sequences < 0 || launch.padded_sequences > launch.batch) sound.padded_sequences = 0;
  if (!findings->done()) CheckRows(sound, level, findings);
  if (!findings->done() && level == CheckLevel::kFull) CheckSharing(sound, findings);
}

}  // namespace haast::attention
