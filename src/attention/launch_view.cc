#include "attention/launch_view.h"

namespace haast::attention {

int64_t LaunchView::sound_sequences() const {
  const auto backwards = [](const MaybeArray<int32_t>& indptr, int64_t b) { return indptr.Holds(b, b + 2) && indptr[b + 1] < indptr[b]; };
  for (int64_t b = 0; b < batch; ++b) {
    if (backwards(qo_indptr, b) || backwards(kv_indptr, b)) return b;
  }
  return batch;
}

bool LaunchView::table_usable() const {
  // Divides instead of multiplying: a wild stride must not overflow.
  if (!block_table.present() || page_size < 1 || block_table_stride < 1 || batch < 1) return false;
  return block_table.size() % block_table_stride == 0 && block_table.size() / block_table_stride == batch;
}

std::optional<Extent> ExtentOf(const LaunchView& launch, int64_t b) {
  if (!launch.qo_indptr.Holds(b, b + 2)) return std::nullopt;
  Extent extent;
  extent.row = launch.qo_indptr[b];
  extent.rows = int64_t{launch.qo_indptr[b + 1]} - extent.row;
  if (extent.row < 0 || extent.rows < 0) return std::nullopt;
  if (launch.kv_indptr.present()) {
    if (!launch.kv_indptr.Holds(b, b + 2) || launch.kv_indptr[b] < 0) return std::nullopt;
    extent.kv_len = int64_t{launch.kv_indptr[b + 1]} - launch.kv_indptr[b];
    if (launch.kv_len.Holds(b, b + 1) && launch.kv_len[b] != extent.kv_len) return std::nullopt;
    if (launch.kv_indices.Holds(launch.kv_indptr[b], launch.kv_indptr[b + 1])) extent.entry = launch.kv_indptr[b];
  } else if (launch.kv_len.Holds(b, b + 1)) {
    extent.kv_len = launch.kv_len[b];
  } else {
    return extent;
  }
  if (extent.kv_len < extent.rows) return std::nullopt;
  extent.before = extent.kv_len - extent.rows;
  extent.cached = launch.cached(b);
  if (extent.cached < 0 || extent.cached > extent.before) return std::nullopt;
  return extent;
}

LaunchView ViewOf(const ForwardMetadata& m, const LaunchShape& shape) {
  LaunchView view;
  view.mode = ForwardModeName(m.mode);
  view.batch = m.batch();
  view.padded_sequences = m.padded_sequences;
  view.page_size = m.page_size;
  view.unused_page = -1;
  view.block_table_stride = m.block_table_stride;
  ForEachArray([](const char*, auto& seen, const auto& values) { seen = values; }, view, m);
  if (!shape.page_owner.empty()) {
    view.page_owner = shape.page_owner;
    view.sequence_owner = shape.sequence_owner;
  }
  view.max_q_len = m.max_q_len;
  view.max_kv_len = m.max_kv_len;
  view.q_rows = shape.q_rows;
  view.k_rows = shape.kv_rows;
  view.v_rows = shape.kv_rows;
  view.out_rows = shape.out_rows;
  if (shape.real_rows >= 0) view.real_rows = shape.real_rows;
  view.pool_slots = shape.pool_slots;
  return view;
}

}  // namespace haast::attention
