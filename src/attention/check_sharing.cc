#include <algorithm>
#include <unordered_map>

#include "attention/launch_checks.h"

namespace haast::attention {
namespace {

// Pages of sequence b; none where block_table cannot say.
int64_t UsedPages(const LaunchView& l, int64_t b) {
  const auto extent = ExtentOf(l, b);
  if (!extent || extent->kv_len < 0) return 0;
  const int64_t pages = PagesOf(extent->kv_len, l.page_size);
  return pages <= l.block_table_stride ? pages : 0;
}

void CheckReserved(const LaunchView& l, int64_t b, int64_t i, Findings* f) {
  const int64_t cell = b * l.block_table_stride + i;
  const int64_t page = l.block_table[cell];
  if (l.reserved_page < 0 || page < 0) return;
  if (l.is_padding(b) && page != l.reserved_page) {
    f->Add({Invariant::kPaddingReserved, "block_table", cell, b, l.reserved_page, page},
           "the padding sequence names page {}, not the reserved page {}", page, l.reserved_page);
  } else if (!l.is_padding(b) && page == l.reserved_page) {
    f->Add({Invariant::kRealReserved, "block_table", cell, b, std::nullopt, page},
           "the sequence names page {}, which is reserved for padding", page);
  }
}

// Page i of sequence b, which has `before` entries before the launch.
void CheckOwner(const LaunchView& l, int64_t b, int64_t i, int64_t before, Findings* f) {
  const int64_t cell = b * l.block_table_stride + i;
  const int64_t page = l.block_table[cell];
  if (!l.page_owner.present() || l.is_padding(b) || page < 0 || !l.sequence_owner.Holds(b, b + 1)) return;
  if (page >= l.page_owner.size()) {
    f->Add({Invariant::kPageOwner, "page_owner", -1, b, std::nullopt, page}, "block_table names page {} but only {} pages have an owner",
           page, l.page_owner.size());
  } else if (l.page_owner[page] == kSharedPageOwner) {
    if ((i + 1) * l.page_size <= before) return;
    f->Add({Invariant::kPageOwner, "block_table", cell, b, l.sequence_owner[b], kSharedPageOwner},
           "page {} is shared and read-only, but tokens from {} on are written and it holds tokens {} to {}", page, before, i * l.page_size,
           (i + 1) * l.page_size - 1);
  } else if (l.page_owner[page] != l.sequence_owner[b]) {
    f->Add({Invariant::kPageOwner, "block_table", cell, b, l.sequence_owner[b], l.page_owner[page]},
           "page {} belongs to owner {} but the sequence may use pages of owner {}", page, l.page_owner[page], l.sequence_owner[b]);
  }
}

void CheckPages(const LaunchView& l, Findings* f) {
  if (!l.table_usable()) return;
  std::vector<int32_t> sorted;
  for (int64_t b = 0; b < l.batch && !f->done(); ++b) {
    const int64_t first = b * l.block_table_stride;
    const int64_t used = UsedPages(l, b);
    const auto extent = ExtentOf(l, b);
    const bool check_unused = l.unused_page && extent && extent->kv_len >= 0;
    for (int64_t i = used; check_unused && i < l.block_table_stride && !f->done(); ++i) {
      if (l.block_table[first + i] == *l.unused_page) continue;
      f->Add({Invariant::kSurplusPage, "block_table", first + i, b, l.unused_page, l.block_table[first + i]},
             "block_table has page {} in cell {} but the sequence uses {} pages", l.block_table[first + i], i, used);
    }
    sorted.clear();
    for (int64_t i = 0; i < used; ++i) sorted.push_back(l.block_table[first + i]);
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end() && *twice >= 0 && !l.is_padding(b)) {
      f->Add({Invariant::kPageTwice, "block_table", -1, b, std::nullopt, *twice}, "block_table names page {} twice", *twice);
    }
    for (int64_t i = 0; i < used && !f->done(); ++i) {
      CheckOwner(l, b, i, extent->before, f);
      CheckReserved(l, b, i, f);
    }
  }
}

// KV entries against the reserved page where there is no block_table to say it.
void CheckReservedSlots(const LaunchView& l, Findings* f) {
  if (l.reserved_page < 0 || l.page_size < 1 || l.table_usable()) return;
  const int64_t sequences = l.sound_sequences();
  for (int64_t b = 0; b < sequences && !f->done(); ++b) {
    const auto extent = ExtentOf(l, b);
    if (!extent || extent->entry < 0) continue;
    for (int64_t i = extent->entry; i < extent->entry + extent->kv_len && !f->done(); ++i) {
      const int64_t slot = l.kv_indices[i];
      const bool reserved = slot >= 0 && slot / l.page_size == l.reserved_page;
      if (reserved == l.is_padding(b)) continue;
      f->Add({reserved ? Invariant::kRealReserved : Invariant::kPaddingReserved, "kv_indices", i, b, std::nullopt, slot},
             "kv_indices[{}] of a {} sequence is slot {}, which is {}on the reserved page {}", i, reserved ? "real" : "padding", slot,
             reserved ? "" : "not ", l.reserved_page);
    }
  }
}

// A slot is written by one row, and no other sequence reads it in the same launch. Padding shares the reserved page.
class Writers {
 public:
  Writers(const LaunchView& launch, Findings* findings)
      : l_(launch), f_(findings), sequences_(std::min(launch.sound_sequences(), launch.real_batch())) {}

  void Collect() {
    for (int64_t b = 0; b < sequences_ && !f_->done(); ++b) {
      const auto extent = ExtentOf(l_, b);
      if (!extent || !l_.out_slots.Holds(extent->row, extent->row + extent->rows)) continue;
      for (int64_t row = extent->row; row < extent->row + extent->rows && !f_->done(); ++row) Write(b, row);
    }
  }

  void CheckReaders() {
    for (int64_t b = 0; b < sequences_ && !f_->done(); ++b) {
      const auto extent = ExtentOf(l_, b);
      if (!extent || extent->entry < 0) continue;
      for (int64_t i = extent->entry; i < extent->entry + extent->kv_len && !f_->done(); ++i) Read(b, i);
    }
  }

 private:
  struct Writer {
    int64_t sequence;
    int64_t row;
  };

  void Write(int64_t b, int64_t row) {
    const int32_t slot = l_.out_slots[row];
    const auto [found, fresh] = writers_.emplace(slot, Writer{b, row});
    if (fresh) return;
    f_->Add({Invariant::kSlotWrittenOnce, "out_slots", row, b, std::nullopt, slot},
            "row {} writes slot {}, which row {} of sequence {} writes too", row, slot, found->second.row, found->second.sequence);
  }

  void Read(int64_t b, int64_t i) {
    const auto found = writers_.find(l_.kv_indices[i]);
    if (found == writers_.end() || found->second.sequence == b) return;
    f_->Add({Invariant::kSlotReadByOther, "kv_indices", i, b, std::nullopt, l_.kv_indices[i]},
            "kv_indices[{}] reads slot {}, which sequence {} writes", i, l_.kv_indices[i], found->second.sequence);
  }

  const LaunchView& l_;
  Findings* f_;
  const int64_t sequences_;
  std::unordered_map<int32_t, Writer> writers_;
};

}  // namespace

void CheckSharing(const LaunchView& l, Findings* f) {
  const int64_t owners = l.sequence_owner.size();
  if (l.sequence_owner.present() && owners != l.batch && owners != l.real_batch()) {
    f->Add({Invariant::kSequenceCount, "sequence_owner", -1, -1, l.real_batch(), owners}, "sequence_owner has {} elements for {} sequences",
           owners, l.real_batch());
  }
  CheckPages(l, f);
  CheckReservedSlots(l, f);
  Writers writers(l, f);
  writers.Collect();
  writers.CheckReaders();
}

}  // namespace haast::attention
