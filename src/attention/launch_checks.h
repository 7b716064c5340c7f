// The parts of CheckLaunch, each tolerant of what the parts before it complain about: nothing is read where the arrays
// contradict each other.
#pragma once

#include "attention/invariants.h"
#include "attention/launch_view.h"

namespace haast::attention {

// Sizes, indptr arrays, row counts, lengths, maxima, the shape of block_table: O(B).
void CheckStructure(const LaunchView& launch, Findings* findings);

// The new rows: slots, positions, masks; at the full level also all older KV entries and the shape of trees.
void CheckRows(const LaunchView& launch, CheckLevel level, Findings* findings);

// The full level between sequences: pages, owners, writers, what padding touches.
void CheckSharing(const LaunchView& launch, Findings* findings);

// All of them.
void CheckInvariants(const LaunchView& launch, CheckLevel level, Findings* findings);

}  // namespace haast::attention
