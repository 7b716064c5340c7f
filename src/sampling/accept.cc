#include "sampling/accept.h"

#include "base/check.h"

namespace haast::sampling {
namespace {

// The first child of `row`, in row order, whose draft is `token`; -1 without one. Children come after their parent.
int FindChild(std::span<const int32_t> drafts, std::span<const int32_t> parents, int row, int32_t token) {
  for (size_t j = static_cast<size_t>(row) + 1; j < parents.size(); ++j) {
    if (parents[j] == row && drafts[j - 1] == token) return static_cast<int>(j);
  }
  return -1;
}

}  // namespace

AcceptResult AcceptTree(std::span<const int32_t> drafts, std::span<const int32_t> parents,
                        const std::function<int32_t(int row, int depth)>& draw,
                        const std::function<bool(int32_t token, bool from_draft)>& emit) {
  HAAST_CHECK(parents.size() == drafts.size() + 1 && parents[0] == -1) << drafts.size() << " drafts, " << parents.size() << " parents";
  for (size_t j = 1; j < parents.size(); ++j) {
    HAAST_CHECK(parents[j] >= 0 && parents[j] < static_cast<int32_t>(j)) << "row " << j << " has parent " << parents[j];
  }
  AcceptResult result;
  for (int row = 0, depth = 0; row >= 0; ++depth) {
    const int32_t token = draw(row, depth);
    const int child = FindChild(drafts, parents, row, token);
    result.rows.push_back(row);
    result.tokens.push_back(token);
    if (child >= 0) {
      result.drafts.push_back(child - 1);
      ++result.num_accepted.value;
    }
    result.finished = emit(token, child >= 0);
    if (result.finished) break;
    row = child;
  }
  return result;
}

}  // namespace haast::sampling
