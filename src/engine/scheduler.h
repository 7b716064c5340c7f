// Who runs and how many rows each gets: pure functions of counts, first come first served.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "spec/draft_tree.h"

namespace haast::engine {

// Tokens whose pages must be there when a request starts that has `tokens` tokens and never more than `most`: those, the one
// that prefill samples and the rows of a round. Later ones are found as they come.
int64_t TokensToStart(int64_t tokens, int64_t draft_rows, int64_t most);

// KV entries after the newest token's that a round of this shape writes: drafts that are verified, or nodes of a tree that a
// drafter expands.
int64_t DraftRows(const spec::TreeShape& shape);

// The shape where there is room for `room` such entries: a tree that does not fit becomes a chain, a chain shorter. No room:
// num_tokens and depth are 0.
spec::TreeShape FitShape(const spec::TreeShape& shape, int64_t room);

// Rows of each running request (in order of arrival): all of them where one is pending (decoding); of the others as many
// prompt rows as `prefill_rows` leaves, in order.
std::vector<int64_t> AssignRows(std::span<const int64_t> pending, int64_t prefill_rows);

// Drafts of the next round: at most `wanted`, and so few that the round can end neither past `remaining` generated tokens
// nor past `context_left` positions after the newest token. Never negative.
int CountDrafts(int wanted, int64_t remaining, int64_t context_left);

}  // namespace haast::engine
