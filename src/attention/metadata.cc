#include "attention/metadata.h"

#include <algorithm>

#ifdef HAAST_CHECKED
#include <cstring>
#endif

namespace haast::attention {
namespace {

template <typename T>
void ClearVector(std::vector<T>* values) {
#ifdef HAAST_CHECKED
  // Whoever still reads the last launch's array through a kept pointer sees 0x7f bytes, not plausible numbers.
  if (!values->empty()) std::memset(values->data(), 0x7f, values->size() * sizeof(T));
#endif
  values->clear();
}

}  // namespace

const char* ForwardModeName(ForwardMode mode) {
  switch (mode) {
    case ForwardMode::kExtend: return "extend";
    case ForwardMode::kDecode: return "decode";
    case ForwardMode::kDraftDecode: return "draft_decode";
    case ForwardMode::kTargetVerify: return "target_verify";
    case ForwardMode::kDraftExtend: return "draft_extend";
    case ForwardMode::kIdle: return "idle";
  }
  return "unknown";
}

void ForwardMetadata::Clear() {
  ForEachArray([](const char*, auto& values) { ClearVector(&values); }, *this);
  qo_indptr.push_back(0);
  kv_indptr.push_back(0);
  mode = ForwardMode::kIdle;
  page_size = 1;
  block_table_stride = 0;
  max_q_len = 0;
  max_kv_len = 0;
  padded_sequences = 0;
}

ForwardMetadata WithoutPadding(const ForwardMetadata& metadata) {
  ForwardMetadata real = metadata;
  const size_t batch = static_cast<size_t>(metadata.real_batch());
  const size_t rows = static_cast<size_t>(metadata.real_rows());
  real.padded_sequences = 0;
  real.qo_indptr.resize(batch + 1);
  real.kv_indptr.resize(batch + 1);
  real.kv_indices.resize(static_cast<size_t>(real.kv_indptr.back()));
  real.kv_len.resize(batch);
  real.tree_flags.resize(batch);
  real.tree_cached.resize(batch);
  real.out_slots.resize(rows);
  real.positions.resize(rows);
  real.tree_mask.resize(rows);
  real.max_q_len = real.max_kv_len = real.block_table_stride = 0;
  for (size_t b = 0; b < batch; ++b) {
    real.max_q_len = std::max<int64_t>(real.max_q_len, real.qo_indptr[b + 1] - real.qo_indptr[b]);
    real.max_kv_len = std::max(real.max_kv_len, real.kv_len[b]);
  }
  real.block_table_stride = PagesOf(real.max_kv_len, real.page_size);
  real.block_table.clear();
  for (size_t b = 0; b < batch; ++b) {
    const auto row = metadata.block_table.begin() + static_cast<int64_t>(b) * metadata.block_table_stride;
    real.block_table.insert(real.block_table.end(), row, row + real.block_table_stride);
  }
  return real;
}

}  // namespace haast::attention
