#include "engine/scheduler.h"

#include <algorithm>

namespace haast::engine {

int CountAdmissions(std::span<const int64_t> pages_needed, int running, int max_batch, int64_t free_pages) {
  int count = 0;
  for (int64_t pages : pages_needed) {
    if (running + count >= max_batch || pages > free_pages) break;
    free_pages -= pages;
    ++count;
  }
  return count;
}

std::vector<int64_t> AssignRows(std::span<const int64_t> pending, int64_t prefill_rows) {
  std::vector<int64_t> rows;
  rows.reserve(pending.size());
  for (int64_t count : pending) {
    if (count <= 1) {
      rows.push_back(count);
      continue;
    }
    const int64_t chunk = std::min(count, prefill_rows);
    prefill_rows -= chunk;
    rows.push_back(chunk);
  }
  return rows;
}

int CountDrafts(int wanted, int64_t remaining, int64_t context_left) {
  return static_cast<int>(std::max<int64_t>(0, std::min({static_cast<int64_t>(wanted), remaining - 1, context_left - 1})));
}

}  // namespace haast::engine
