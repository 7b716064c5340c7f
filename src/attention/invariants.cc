#include "attention/invariants.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace haast::attention {
namespace {

// In the order of the enumeration.
constexpr std::array<InvariantText, kNumInvariants> kTexts = {{
    {"integer_range", "Every value fits the type of its array; a wider one wraps when the kernel's type is narrower."},
    {"padding_counts", "Real sequences and rows come first and are no more than there are; counting padding as real returns its garbage."},
    {"indptr_size", "An indptr has one element more than there are sequences; a kernel reads element B + 1 whether it is there or not."},
    {"indptr_start", "An indptr starts at 0; otherwise rows before the first sequence belong to nobody."},
    {"indptr_order", "An indptr never decreases; a negative length becomes a huge unsigned loop bound."},
    {"row_count",
     "qo_indptr ends at the rows of q, k, v, out and every array of one element a row; a kernel walks the rows of qo_indptr, past "
     "the end of a shorter tensor."},
    {"entry_count", "kv_indices has as many entries as kv_indptr ends at; otherwise slots are read behind the array."},
    {"sequence_count", "Arrays of one element a sequence have B elements."},
    {"kv_length",
     "kv_len is the difference of kv_indptr, both including the tokens of this launch; two lengths for one sequence mean that two "
     "kernels see different contexts."},
    {"kv_covers_rows",
     "A sequence has at least as many KV entries as query rows, since its rows write theirs first; fewer make the context "
     "before the launch negative."},
    {"tree_flag", "A tree flag is 0 (causal) or 1 (tree_mask decides)."},
    {"tree_rows", "A tree has at most 64 rows, the bits of one mask word."},
    {"max_q_len",
     "max_q_len is the longest sequence's query rows; a smaller one leaves rows without an answer, 0 launches nothing or "
     "everything."},
    {"max_kv_len",
     "max_kv_len is the longest sequence's KV entries; a smaller one cuts the context off, a stale one sizes scratch wrongly."},
    {"plan_bound", "What a captured or persistent plan was made for is at least the true maximum."},
    {"page_size", "A page holds at least one slot."},
    {"table_shape", "block_table has B rows of one stride; with another stride every row after the first is somebody else's."},
    {"table_width", "A row of block_table has room for all pages of its sequence; a narrower one reads the next sequence's pages."},
    {"slot_in_pool", "Every slot lies in the pool; another is an access out of bounds."},
    {"page_in_pool", "Every used page lies in the pool; -1 and unwritten cells are accesses out of bounds."},
    {"slot_of_page", "kv_indices and block_table name the same slot for the same token; otherwise flat and paged kernels disagree."},
    {"write_is_read", "A row's K and V go to the slot that its own entry is read from; otherwise the row attends to old content."},
    {"position_range",
     "A row's position lies between the tokens before the launch and the end of its sequence; others leave the rope table "
     "or rotate as another token."},
    {"position_depth",
     "A row stands at the tokens before the launch plus its depth (its index where causal). A shifted position does not "
     "crash: it only makes answers and acceptance worse."},
    {"mask_self", "A row sees itself; an empty row divides by a softmax sum of 0."},
    {"mask_later_rows", "A row sees itself and earlier rows only; a later bit reads rows of another branch or another sequence."},
    {"mask_ancestors", "What a row sees is closed under ancestors: the ancestors of a visible row are visible."},
    {"mask_branches", "A row sees one branch; two mix drafts that exclude each other."},
    {"surplus_page",
     "Cells of block_table behind a sequence's last page hold the value for unused ones; anything else is left from another launch."},
    {"page_twice", "A sequence names a page once; a page named twice is overwritten by its own later tokens."},
    {"page_owner", "A sequence reads and writes its own pages; another's page shows it another request's context."},
    {"slot_written_once", "One row writes a slot; of two the slower one wins."},
    {"slot_read_by_other", "A slot that one sequence writes is not read by another in the same launch."},
    {"padding_reserved", "Padding reads and writes the reserved page only; on a request's page it overwrites that request's context."},
    {"real_reserved", "No request uses the reserved page: padding of any launch may overwrite it."},
    {"window",
     "The launch passes the layer's own sliding window; off or off by one, rows see tokens that the model never saw in training."},
}};

}  // namespace

const InvariantText& TextOf(Invariant invariant) { return kTexts[static_cast<size_t>(invariant)]; }

Findings::Kind& Findings::KindOf(const Site& site) {
  const auto same = [&](const Kind& kind) { return kind.invariant == site.invariant && std::string_view(kind.array) == site.array; };
  const auto found = std::find_if(kinds_.begin(), kinds_.end(), same);
  if (found != kinds_.end()) return *found;
  return kinds_.emplace_back(Kind{site.invariant, site.array});
}

}  // namespace haast::attention
