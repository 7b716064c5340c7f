#include "attention/diagnosis.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>

namespace haast::attention {
namespace {

using std::string_view;

// Rows of the launch's tensors, whatever its indptr says.
int64_t TensorRows(const LaunchDump& launch) {
  if (launch.view.q_rows) return *launch.view.q_rows;
  return std::max({launch.view.out_slots.size(), launch.view.positions.size(), int64_t{0}});
}

bool SameArray(const LaunchDump& a, const LaunchDump& b, string_view name) {
  bool same = false;
  const auto compare = [&](string_view array, const auto& x, const auto& y) { same |= array == name && !x.empty() && x == y; };
  if (name != "tree_flags") ForEachArray(compare, a, b);  // flags of other launches are often equal
  if (name == "max_q_len") return a.view.max_q_len == b.view.max_q_len;
  if (name == "max_kv_len") return a.view.max_kv_len == b.view.max_kv_len;
  return same;
}

// The arrays that a violated invariant compares; any of them may be the old one.
std::vector<string_view> Compared(const Finding& finding) {
  switch (finding.site.invariant) {
    case Invariant::kRowCount: return {"qo_indptr", finding.site.array};
    case Invariant::kKvLength: return {"kv_indptr", "kv_len"};
    case Invariant::kKvCoversRows: return {"qo_indptr", "kv_indptr", "kv_len"};
    case Invariant::kEntryCount: return {"kv_indptr", "kv_indices"};
    case Invariant::kSlotOfPage: return {"kv_indices", "block_table"};
    case Invariant::kWriteIsRead: return {"out_slots", "kv_indices", "block_table"};
    case Invariant::kMaxQueryLength: return {"max_q_len", "qo_indptr"};
    case Invariant::kMaxKvLength: return {"max_kv_len", "kv_indptr", "kv_len"};
    default: return {finding.site.array};
  }
}

// An array that equals the one of an earlier launch of another size was not rebuilt.
std::string Stale(const Finding& finding, const LaunchDump& launch, const std::vector<EarlierLaunch>& earlier) {
  for (const EarlierLaunch& before : earlier) {
    if (TensorRows(*before.dump) == TensorRows(launch)) continue;
    for (const string_view name : Compared(finding)) {
      if (!SameArray(launch, *before.dump, name)) continue;
      return fmt::format("stale: {} is that of line {} ({}, {} rows), not rebuilt for the {} rows of this launch", name, before.line,
                         before.dump->mode, TensorRows(*before.dump), TensorRows(launch));
    }
  }
  return "";
}

// The value that `bits` bits keep of another, signed and unsigned.
bool IsNarrowed(int64_t wide, int64_t narrow, int bits) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const int64_t half = int64_t{1} << (bits - 1);
  if (wide >= -half && wide < half) return false;
  const int64_t kept = static_cast<int64_t>(static_cast<uint64_t>(wide) & mask);
  return narrow == kept || narrow == (kept >= half ? kept - 2 * half : kept);
}

std::string Narrow(const Finding& finding, const LaunchDump& launch) {
  const Site& site = finding.site;
  if (site.invariant == Invariant::kIntegerRange) {
    return "the writer's integers are wider than the kernel's: offsets of large pools need 64 bits, indices must stay below 2^31";
  }
  if (!site.actual || *site.actual == 0 || site.invariant == Invariant::kWindow) return "";
  for (const int bits : {16, 32}) {
    if (site.expected && IsNarrowed(*site.expected, *site.actual, bits)) {
      return fmt::format("narrow integer: {} is what {} bits keep of {}", *site.actual, bits, *site.expected);
    }
  }
  const bool slot = site.invariant == Invariant::kSlotInPool;
  if ((!slot && site.invariant != Invariant::kPageInPool) || *site.actual >= -1 || !launch.view.pool_slots) return "";
  const int64_t limit = slot ? *launch.view.pool_slots : *launch.view.pool_slots / launch.view.page_size;  // a used page has a size
  for (const int bits : {16, 32}) {
    const int64_t half = int64_t{1} << (bits - 1);
    if (*site.actual >= -half && *site.actual + 2 * half < limit) {
      return fmt::format("narrow integer: {} is what {} signed bits keep of {}, which the pool has", *site.actual, bits,
                         *site.actual + 2 * half);
    }
  }
  return "";
}

std::string Unwritten(const Finding& finding) {
  if (!finding.site.actual) return "";
  const int64_t value = *finding.site.actual;
  constexpr std::array<int64_t, 5> kPatterns = {0x7f7f7f7f, 0x7f7f7f7f7f7f7f7f, static_cast<int32_t>(0xcdcdcdcd),
                                                static_cast<int32_t>(0xdeadbeef), static_cast<int32_t>(0xbaadf00d)};
  if (std::find(kPatterns.begin(), kPatterns.end(), value) == kPatterns.end()) return "";
  return fmt::format("unwritten: {:#x} is a fill pattern of memory that nobody wrote", value);
}

// Rows a sequence where all have the same; 0 otherwise.
int64_t Stride(const MaybeArray<int32_t>& indptr) {
  if (indptr.size() < 2) return 0;
  const int64_t stride = int64_t{indptr[1]} - indptr[0];
  for (int64_t b = 1; b + 1 < indptr.size(); ++b) {
    if (int64_t{indptr[b + 1]} - indptr[b] != stride) return 0;
  }
  return stride;
}

std::string RowCountCause(const Finding& finding, const LaunchView& l) {
  if (string_view(finding.site.array) != "qo_indptr") {
    return fmt::format("{} was made for another batch than qo_indptr", finding.site.array);
  }
  const int64_t rows = *finding.site.expected, ends = *finding.site.actual;
  const int64_t stride = Stride(l.qo_indptr);
  if (rows > ends && l.real_rows == ends) {
    return fmt::format("padded rows: q has the {} rows of a bucket but qo_indptr ends with the {} real ones: add dummy sequences", rows,
                       ends);
  }
  if (stride > 0 && l.batch > 0 && rows % l.batch == 0 && (l.batch > 1 || std::abs(stride - rows) == 1)) {
    return fmt::format(
        "wrong stride: qo_indptr counts {} rows a sequence, q has {}: drafts and rows differ by the root, tree width and depth "
        "are not the same",
        stride, rows / l.batch);
  }
  if (rows > ends) return "padded rows: q was padded after qo_indptr was built";
  return "qo_indptr was built for another batch than q";
}

std::string LengthCause(const Finding& finding, const LaunchView& l) {
  const int64_t b = finding.site.sequence;
  const int64_t rows = l.qo_indptr.Holds(b, b + 2) ? int64_t{l.qo_indptr[b + 1]} - l.qo_indptr[b] : 0;
  if (finding.site.invariant == Invariant::kKvCoversRows) {
    return "kv shorter than q: the KV length may count the tokens before the launch only; add the query rows";
  }
  const int64_t more = *finding.site.actual - *finding.site.expected;
  if (rows > 0 && more == rows) return "kv_indptr counts the tokens before the launch only; add the query rows";
  if (rows > 0 && more == -rows) return "kv_len counts the tokens before the launch only; add the query rows";
  return "one of the two is of another launch";
}

std::string MaximumCause(const Finding& finding) {
  const int64_t actual = *finding.site.actual, expected = *finding.site.expected;
  const string_view name = finding.site.array;
  if (actual == 0) return fmt::format("{} is 0, what a field holds before anybody sets it", name);
  if (actual > expected) return fmt::format("{} may be a plan's bound (those are called plan_{}), or of another launch", name, name);
  return fmt::format("{} is of another launch, or padding was added after it was computed", name);
}

std::string PositionCause(const Finding& finding, const LaunchView& l) {
  const Site& site = finding.site;
  const auto extent = ExtentOf(l, site.sequence);
  if (!site.expected || !extent) return "positions of another launch";
  const int64_t j = site.index - extent->row;
  const int64_t shift = *site.actual - *site.expected;
  if (l.is_tree(site.sequence) && *site.actual == extent->before + j) {
    return "positions count rows, not depth: siblings of a tree share a position";
  }
  bool all = !l.is_tree(site.sequence) && l.positions.Holds(extent->row, extent->row + extent->rows);
  for (int64_t row = 1; all && row < extent->rows; ++row) {
    all &= l.positions[extent->row + row] == l.positions[extent->row] + row;
  }
  if (all && std::abs(shift) == 1) {
    return fmt::format(
        "off by one: all positions of the sequence are shifted by {:+}: the newest token's own position is the number of tokens "
        "before it",
        shift);
  }
  if (all && l.layer_window && *l.layer_window > 0 && extent->kv_len <= *l.layer_window && shift > 1) {
    return "window: the KV arrays were cut to the sliding window but positions count the whole context";
  }
  return all ? fmt::format("all positions of the sequence are shifted by {:+}: they belong to another context length", shift)
             : "positions of another launch";
}

std::string MaskCause(const Finding& finding, const LaunchView& l) {
  const auto extent = ExtentOf(l, finding.site.sequence);
  const uint64_t word = l.tree_mask[finding.site.index];
  if (word == 0) return "the word was never set";
  if (!extent) return "";
  bool upward = extent->cached == 0;  // no row shows an earlier one
  for (int64_t j = 0; upward && j < extent->rows; ++j) upward &= (l.tree_mask[extent->row + j] & ((uint64_t{1} << j) - 1)) == 0;
  if (finding.site.invariant == Invariant::kMaskLaterRows && upward && extent->rows > 1)
    return "the mask looks transposed: rows show their descendants";
  if (finding.site.invariant == Invariant::kMaskSelf)
    return "the mask lists ancestors without the row itself, or its rows are those of another tree";
  if (finding.site.invariant == Invariant::kMaskAncestors) return "not ancestor-closed: the mask holds parents but not their ancestors";
  return "the rows are those of another tree, or siblings were taken for a chain";
}

std::string SharingCause(const Finding& finding, const LaunchView& l) {
  const Site& site = finding.site;
  switch (site.invariant) {
    case Invariant::kPageOwner:
      if (site.actual == -1) return "the page is free: used after it was given back";
      if (site.actual == kSharedPageOwner) return "the prefix was shared beyond its last full page, or not copied before it is written";
      return "slot of another request: a table row of another batch place, or a page given out twice";
    case Invariant::kSlotWrittenOnce: {
      for (int64_t row = 0; row < site.index; ++row) {
        if (l.out_slots[row] != *site.actual || !l.positions.Holds(row, site.index + 1)) continue;
        const auto extent = ExtentOf(l, site.sequence);
        const bool same_sequence = extent && row >= extent->row;
        if (!same_sequence)
          return "duplicated write slots: two sequences hold the same page, or dummies were not sent to the reserved page";
        if (l.positions[row] == l.positions[site.index])
          return "duplicated write slots: rows of one depth share the slot of their position; siblings need their own";
      }
      return "duplicated write slots";
    }
    case Invariant::kSlotReadByOther: return "slot of another request: two sequences hold the page that one of them writes";
    case Invariant::kPaddingReserved: return "padding kept the slots of an earlier, larger batch";
    case Invariant::kRealReserved:
      return "a slot or page of 0 was never set, or the engine uses page 0 for requests (then write reserved_page -1)";
    default: return "";
  }
}

std::string AddressCause(const Finding& finding, const LaunchView& l) {
  const Site& site = finding.site;
  switch (site.invariant) {
    case Invariant::kPageInPool:
      if (site.actual == -1) return "the cell was never set: the table is shorter than the sequence";
      if (l.page_size > 1 && l.pool_slots && *site.actual < *l.pool_slots) return "wrong unit: block_table holds token slots, not pages";
      return "";
    case Invariant::kSlotOfPage:
      if (l.page_size > 1 && *site.actual == *site.expected / l.page_size) return "wrong unit: kv_indices holds pages, not token slots";
      if (std::abs(*site.actual - *site.expected) == 1) return "off by one within the page";
      return "the two arrays are of different sequences or launches, or the page size is another";
    case Invariant::kWriteIsRead:
      if (std::abs(*site.actual - *site.expected) == 1) return "off by one: the slot of the token before or after";
      return "out_slots are of another launch, or of another place in the batch";
    case Invariant::kSurplusPage: return "left from a longer sequence in the same row";
    case Invariant::kTableWidth: return "the table was made for a shorter context, or its page size is another";
    case Invariant::kTableShape: return "wrong stride: the width of another batch's table";
    default: return "";
  }
}

std::string OwnCause(const Finding& finding, const LaunchView& l) {
  switch (finding.site.invariant) {
    case Invariant::kRowCount: return RowCountCause(finding, l);
    case Invariant::kKvLength:
    case Invariant::kKvCoversRows: return LengthCause(finding, l);
    case Invariant::kMaxQueryLength:
    case Invariant::kMaxKvLength: return MaximumCause(finding);
    case Invariant::kPlanBound:
      return "a captured plan is replayed for a batch that it was not made for: take a larger bucket or the eager path";
    case Invariant::kPositionRange:
    case Invariant::kPositionDepth: return PositionCause(finding, l);
    case Invariant::kMaskSelf:
    case Invariant::kMaskLaterRows:
    case Invariant::kMaskAncestors:
    case Invariant::kMaskBranches: return MaskCause(finding, l);
    case Invariant::kEntryCount: return "one of the two is of another launch, or the tokens of this launch are in one of them only";
    case Invariant::kIndptrSize:
    case Invariant::kSequenceCount: return "the batch size changed after the array was made (padding, or a request that ended)";
    case Invariant::kIndptrOrder: return "lengths where their running sum belongs, or elements of a larger batch behind it";
    case Invariant::kPaddingCounts: return "padded rows counted as real, or the count of another launch";
    case Invariant::kWindow:
      if (finding.site.actual == *finding.site.expected - 1)
        return "window: the tokens to the left (w - 1) were given where the width w is meant";
      return "window: switched off or taken from another layer for this mode";
    default: break;
  }
  const std::string shared = SharingCause(finding, l);
  return shared.empty() ? AddressCause(finding, l) : shared;
}

}  // namespace

std::string LikelyCause(const Finding& finding, const LaunchDump& launch, const std::vector<EarlierLaunch>& earlier) {
  const bool maximum = finding.site.invariant == Invariant::kMaxQueryLength || finding.site.invariant == Invariant::kMaxKvLength;
  if (maximum && finding.site.actual == 0) return MaximumCause(finding);
  std::string cause = Stale(finding, launch, earlier);
  if (cause.empty()) cause = Narrow(finding, launch);
  if (cause.empty()) cause = Unwritten(finding);
  return cause.empty() ? OwnCause(finding, launch.view) : cause;
}

}  // namespace haast::attention
