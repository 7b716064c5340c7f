#include "base/check.h"
#include "kernels/cpu/linear_layout.h"
#include "kernels/ops.h"

namespace haast::kernels {

Result<Workspace> Workspace::Create(int64_t max_rows, int64_t max_k) {
  HAAST_CHECK(max_rows > 0 && max_k > 0) << max_rows << " rows of " << max_k;
  const int64_t k = (max_k + kBlock - 1) / kBlock * kBlock;
  // A launch may need its rows rounded and as floats; a cache line between the two, and one to round the row up.
  const int64_t row_bytes = (QuantRowBytes(k) + FloatRowBytes(k) + 127) / 64 * 64;
  auto buffer = Buffer::Allocate(static_cast<size_t>((max_rows + kSpareRows) * row_bytes), "activation workspace");
  if (!buffer) return tl::make_unexpected(buffer.error());
  Workspace workspace;
  workspace.buffer_ = std::move(*buffer);
  workspace.max_rows_ = max_rows;
  workspace.max_k_ = max_k;
  return workspace;
}

}  // namespace haast::kernels
