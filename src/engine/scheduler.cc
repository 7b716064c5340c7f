#include "engine/scheduler.h"

#include <algorithm>

namespace haast::engine {

int64_t TokensToStart(int64_t tokens, int64_t draft_rows, int64_t most) { return std::min(tokens + 1 + draft_rows, most); }

int64_t DraftRows(const spec::TreeShape& shape) {
  if (shape.top_k == 1 || shape.depth == 0) return shape.num_tokens;
  return std::max<int64_t>(shape.num_tokens, int64_t{shape.top_k} * (shape.depth - 1));
}

spec::TreeShape FitShape(const spec::TreeShape& shape, int64_t room) {
  if (shape.depth > 0 && DraftRows(shape) <= room) return shape;
  const int chain = static_cast<int>(std::clamp<int64_t>(room, 0, std::min(shape.depth, shape.num_tokens)));
  return {.num_tokens = chain, .depth = chain, .top_k = 1};
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
