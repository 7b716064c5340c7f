// What must hold between the metadata of a launch and its tensors, and the record of what does not. One list with two uses:
// the engine stops at the first violation before it launches, `haast check` collects all of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"

namespace haast::attention {

enum class Invariant {
  kIntegerRange,
  kPaddingCounts,
  kIndptrSize,
  kIndptrStart,
  kIndptrOrder,
  kRowCount,
  kEntryCount,
  kSequenceCount,
  kKvLength,
  kKvCoversRows,
  kTreeFlag,
  kTreeRows,
  kMaxQueryLength,
  kMaxKvLength,
  kPlanBound,
  kPageSize,
  kTableShape,
  kTableWidth,
  kSlotInPool,
  kPageInPool,
  kSlotOfPage,
  kWriteIsRead,
  kPositionRange,
  kPositionDepth,
  kMaskSelf,
  kMaskLaterRows,
  kMaskAncestors,
  kMaskBranches,
  kSurplusPage,
  kPageTwice,
  kPageOwner,
  kSlotWrittenOnce,
  kSlotReadByOther,
  kPaddingReserved,
  kRealReserved,
  kWindow,
};
inline constexpr int kNumInvariants = static_cast<int>(Invariant::kWindow) + 1;

// Name as reports and docs/check.md spell it ("row_count"), and what a kernel does where it is violated.
struct InvariantText {
  const char* name;
  const char* explanation;
};
const InvariantText& TextOf(Invariant invariant);

// Where a violation is and its two numbers, where there are two.
struct Site {
  Invariant invariant;
  const char* array;      // the array or field at fault, by its name in ForwardMetadata
  int64_t index = -1;     // in that array; -1: all of it, or a single number
  int64_t sequence = -1;  // -1: the launch
  std::optional<int64_t> expected = std::nullopt;
  std::optional<int64_t> actual = std::nullopt;
};

struct Finding {
  Site site;
  std::string message;  // the numbers in a sentence
  int64_t more = 0;     // further violations of this invariant by this array that were counted, not kept
};

class Findings {
 public:
  static Findings StopAtFirst() { return Findings(1, true); }
  // Keeps `each` findings of one invariant and array, and counts the others.
  static Findings CollectAll(int64_t each) { return Findings(each, false); }

  // Nobody wants to know more.
  bool done() const { return stop_at_first_ && !list_.empty(); }
  const std::vector<Finding>& list() const { return list_; }
  int64_t total() const { return total_; }

  template <typename... Args>
  void Add(const Site& site, fmt::format_string<Args...> format, Args&&... args) {
    if (done()) return;
    ++total_;
    Kind& kind = KindOf(site);
    if (++kind.count > each_) {
      ++list_[kind.last].more;
      return;
    }
    kind.last = list_.size();
    list_.push_back({site, fmt::format(format, std::forward<Args>(args)...)});
  }

 private:
  struct Kind {
    Invariant invariant;
    const char* array;
    int64_t count = 0;
    size_t last = 0;  // in list_
  };

  Findings(int64_t each, bool stop_at_first) : each_(each), stop_at_first_(stop_at_first) {}
  Kind& KindOf(const Site& site);

  int64_t each_;
  bool stop_at_first_;
  int64_t total_ = 0;
  std::vector<Finding> list_;
  std::vector<Kind> kinds_;
};

}  // namespace haast::attention
