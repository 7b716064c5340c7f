#include <algorithm>
#include <bit>

#include "attention/launch_checks.h"

namespace haast::attention {
namespace {

// One sequence whose arrays are sound enough to be walked.
struct Walk {
  const LaunchView& launch;
  int64_t b;
  Extent extent;
  bool has_table;  // its row of block_table holds all its pages
  Findings* findings;

  bool in_pool(int64_t slot) const { return slot >= 0 && (!launch.pool_slots || slot < *launch.pool_slots); }
  std::string pool() const { return launch.pool_slots ? fmt::format("the pool of {} slots", *launch.pool_slots) : "any pool"; }
  bool page_in_pool(int64_t page) const { return page >= 0 && (!launch.pool_slots || page < *launch.pool_slots / launch.page_size); }
  int64_t PageOf(int64_t t) const { return launch.block_table[b * launch.block_table_stride + t / launch.page_size]; }
};

// The page cells of tokens [first, last).
void CheckCells(const Walk& walk, int64_t first, int64_t last) {
  const LaunchView& l = walk.launch;
  if (!walk.has_table || first >= last) return;
  for (int64_t i = first / l.page_size; i <= (last - 1) / l.page_size && !walk.findings->done(); ++i) {
    const int64_t cell = walk.b * l.block_table_stride + i;
    if (walk.page_in_pool(l.block_table[cell])) continue;
    walk.findings->Add({Invariant::kPageInPool, "block_table", cell, walk.b, std::nullopt, l.block_table[cell]},
                       "page {} of the sequence is {} in block_table, outside {} of {} slots a page", i, l.block_table[cell], walk.pool(),
                       l.page_size);
  }
}

// Entry t: its slot lies in the pool and is the one that block_table names. The slot, or -1 where there is none to go by.
int64_t CheckEntry(const Walk& walk, int64_t t) {
  const LaunchView& l = walk.launch;
  const bool has_entry = walk.extent.entry >= 0;
  const int64_t index = walk.extent.entry + t;
  const int64_t slot = has_entry ? l.kv_indices[index] : -1;
  if (has_entry && !walk.in_pool(slot)) {
    walk.findings->Add({Invariant::kSlotInPool, "kv_indices", index, walk.b, std::nullopt, slot}, "kv_indices[{}] is slot {}, outside {}",
                       index, slot, walk.pool());
    return -1;
  }
  const int64_t page = walk.has_table ? walk.PageOf(t) : -1;
  if (!walk.page_in_pool(page)) return slot;
  const int64_t expected = page * l.page_size + t % l.page_size;
  if (has_entry && slot != expected) {
    walk.findings->Add({Invariant::kSlotOfPage, "kv_indices", index, walk.b, expected, slot},
                       "kv_indices[{}] is slot {} but page {} of block_table puts token {} into slot {}", index, slot, page, t, expected);
  }
  return has_entry ? slot : expected;
}

// Whether the slot can be compared with the entry it is read from.
bool CheckNewSlot(const Walk& walk, int64_t j) {
  const LaunchView& l = walk.launch;
  const int64_t row = walk.extent.row + j;
  const int64_t slot = l.out_slots[row];
  if (l.skip_slot && slot == *l.skip_slot && l.is_padding(walk.b)) return false;
  if (!walk.in_pool(slot)) {
    walk.findings->Add({Invariant::kSlotInPool, "out_slots", row, walk.b, std::nullopt, slot}, "out_slots[{}] is slot {}, outside {}", row,
                       slot, walk.pool());
    return false;
  }
  if (l.reserved_page < 0 || l.page_size < 1) return true;
  const bool on_reserved = slot / l.page_size == l.reserved_page;
  if (on_reserved == l.is_padding(walk.b)) return true;
  walk.findings->Add({on_reserved ? Invariant::kRealReserved : Invariant::kPaddingReserved, "out_slots", row, walk.b, std::nullopt, slot},
                     "{} row {} writes slot {}, which is {}on the reserved page {}", on_reserved ? "real" : "padding", row, slot,
                     on_reserved ? "" : "not ", l.reserved_page);
  return true;
}

// The entry that row j writes, and where it is read from. `compare`: its slot in out_slots is sound.
void CheckNewEntry(const Walk& walk, int64_t j, bool compare) {
  const LaunchView& l = walk.launch;
  const int64_t row = walk.extent.row + j;
  const int64_t t = walk.extent.before + j;
  const int64_t read = CheckEntry(walk, t);
  if (!compare || read < 0 || l.out_slots[row] == read) return;
  const std::string from = walk.extent.entry >= 0 ? fmt::format("kv_indices[{}]", walk.extent.entry + t) : "block_table";
  walk.findings->Add({Invariant::kWriteIsRead, "out_slots", row, walk.b, read, l.out_slots[row]},
                     "row {} writes slot {} (out_slots) but is read from slot {} ({})", row, l.out_slots[row], read, from);
}

// A row sees itself and rows before it only; a wild bit would read KV of another sequence.
bool CheckMaskWord(const Walk& walk, int64_t j) {
  const int64_t row = walk.extent.row + j;
  const uint64_t word = walk.launch.tree_mask[row];
  const uint64_t self = uint64_t{1} << (walk.extent.cached + j);
  if ((word & self) == 0) {
    walk.findings->Add({Invariant::kMaskSelf, "tree_mask", row, walk.b}, "tree_mask of row {} is {:#x}, which hides the row from itself", j,
                       word);
    return false;
  }
  if ((word & ~(self | (self - 1))) != 0) {
    walk.findings->Add({Invariant::kMaskLaterRows, "tree_mask", row, walk.b}, "tree_mask of row {} is {:#x}, which shows rows after it", j,
                       word);
    return false;
  }
  return true;
}

// Ancestors of a visible row are visible too, and there is one branch of them. The word itself is sound; of cached rows only
// their bits are known, since their masks belong to earlier launches.
bool CheckMaskTree(const Walk& walk, int64_t j) {
  const int64_t cached = walk.extent.cached;
  const auto mask = [&](int64_t tree_row) { return walk.launch.tree_mask[walk.extent.row + tree_row - cached]; };
  const uint64_t word = mask(cached + j);
  const uint64_t ancestors = word & ~(uint64_t{1} << (cached + j));
  const uint64_t launched = ancestors >> cached << cached;
  uint64_t closure = 0;
  for (uint64_t rest = launched; rest != 0; rest &= rest - 1) closure |= mask(std::countr_zero(rest));
  if ((closure & ~word) != 0) {
    walk.findings->Add({Invariant::kMaskAncestors, "tree_mask", walk.extent.row + j, walk.b},
                       "tree_mask of row {} is {:#x} but the rows it shows also see {:#x}: not the ancestors of one row", j, word,
                       closure & ~word);
    return false;
  }
  // On one path every row sees all the rows of the path before it; siblings do not.
  if (launched != 0 && mask(std::bit_width(ancestors) - 1) != ancestors) {
    walk.findings->Add({Invariant::kMaskBranches, "tree_mask", walk.extent.row + j, walk.b},
                       "tree_mask of row {} is {:#x}, which shows rows of two branches", j, word);
    return false;
  }
  return true;
}

// `depth`: rows between the committed tokens and the row; -1 where its mask does not say.
void CheckPosition(const Walk& walk, int64_t j, int64_t depth) {
  const Extent& e = walk.extent;
  const int64_t row = e.row + j;
  const int64_t position = walk.launch.positions[row];
  const int64_t committed = e.before - e.cached;
  const std::optional<int64_t> expected = depth >= 0 ? std::optional(committed + depth) : std::nullopt;
  if (position < committed || position >= e.kv_len) {
    walk.findings->Add({Invariant::kPositionRange, "positions", row, walk.b, expected, position},
                       "row {} is at position {}, outside [{}, {})", row, position, committed, e.kv_len);
  } else if (expected && position != *expected) {
    walk.findings->Add({Invariant::kPositionDepth, "positions", row, walk.b, expected, position},
                       "row {} is at position {} but {} tokens precede the launch and its depth is {}", row, position, committed, depth);
  }
}

// `full`: also the tree and the exact position.
void CheckNewRow(const Walk& walk, int64_t j, bool full) {
  const LaunchView& l = walk.launch;
  const int64_t row = walk.extent.row + j;
  const bool slot_sound = l.out_slots.Holds(row, row + 1) && CheckNewSlot(walk, j);
  if (walk.extent.before < 0) return;
  CheckNewEntry(walk, j, slot_sound);
  const bool tree = l.is_tree(walk.b);
  bool knows_depth = full && !tree;
  if (tree && l.tree_mask.Holds(walk.extent.row, walk.extent.row + walk.extent.rows)) {
    knows_depth = CheckMaskWord(walk, j) && full && CheckMaskTree(walk, j);
  }
  if (!l.positions.Holds(row, row + 1)) return;
  CheckPosition(walk, j, !knows_depth ? -1 : tree ? std::popcount(l.tree_mask[row]) - 1 : j);
}

}  // namespace

void CheckRows(const LaunchView& l, CheckLevel level, Findings* f) {
  const bool full = level == CheckLevel::kFull;
  const bool table = l.table_usable();
  const int64_t row_elements = std::max({l.out_slots.size(), l.positions.size(), l.tree_mask.size()});
  const int64_t sequences = l.sound_sequences();
  for (int64_t b = 0; b < sequences && !f->done(); ++b) {
    const auto extent = ExtentOf(l, b);
    if (!extent || (l.is_tree(b) && extent->cached + extent->rows > kMaxTreeRows)) continue;
    const bool has_table = table && extent->kv_len >= 0 && PagesOf(extent->kv_len, l.page_size) <= l.block_table_stride;
    const Walk walk{l, b, *extent, has_table, f};
    CheckCells(walk, full ? 0 : extent->before, extent->kv_len);
    // Only elements that are there are walked, however many rows a wild qo_indptr claims.
    const bool has_entries = extent->entry >= 0;
    const int64_t rows = has_entries ? extent->rows : std::min(extent->rows, row_elements - extent->row);
    for (int64_t j = 0; j < rows && !f->done(); ++j) CheckNewRow(walk, j, full);
    for (int64_t t = 0; full && has_entries && t < extent->before && !f->done(); ++t) CheckEntry(walk, t);
  }
}

}  // namespace haast::attention
