// The coupled rule: at each position the target draws its own token with its own key; a draft is accepted iff it equals
// that token. Greedy and sampled answers are then identical to plain decoding, whatever was drafted.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace haast::sampling {

// Drafts only; a round commits one token more. A type of its own, since the field mixes the two counts.
struct NumAccepted {
  int value = 0;
};

struct AcceptResult {
  std::vector<int> rows;        // verified rows on the accepted path, root first; rows.size() tokens were emitted
  std::vector<int32_t> tokens;  // the target's token after each of `rows`
  std::vector<int> drafts;      // indices of the accepted drafts
  NumAccepted num_accepted;     // how many: tokens that equal a draft
  bool finished = false;        // `emit` ended the answer
};

// Walks a draft tree (a chain is a tree). Row 0 is the root (the newest committed token); row j > 0 holds draft
// drafts[j - 1] under row parents[j] (< j; parents[0] = -1). `draw(row, depth)` gives the target's token after `row`;
// `emit(token, from_draft)` takes it and says whether the answer ends with it. After the end nothing is drawn.
AcceptResult AcceptTree(std::span<const int32_t> drafts, std::span<const int32_t> parents,
                        const std::function<int32_t(int row, int depth)>& draw,
                        const std::function<bool(int32_t token, bool from_draft)>& emit);

}  // namespace haast::sampling
