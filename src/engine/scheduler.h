// Who runs and how many rows each gets: pure functions of counts, first come first served.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace haast::engine {

// How many of the waiting requests (in order of arrival; pages each may need in all) start now. None overtakes another: the
// first that does not fit ends the list, so a large request is never starved by small ones.
int CountAdmissions(std::span<const int64_t> pages_needed, int running, int max_batch, int64_t free_pages);

// Rows of each running request (in order of arrival): all of them where one is pending (decoding); of the others as many
// prompt rows as `prefill_rows` leaves, in order.
std::vector<int64_t> AssignRows(std::span<const int64_t> pending, int64_t prefill_rows);

// Drafts of the next round: at most `wanted`, and so few that the round can end neither past `remaining` generated tokens
// nor past `context_left` positions after the newest token. Never negative.
int CountDrafts(int wanted, int64_t remaining, int64_t context_left);

}  // namespace haast::engine
