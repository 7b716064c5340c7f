#include "attention/metadata.h"

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
  ClearVector(&qo_indptr);
  ClearVector(&kv_indptr);
  ClearVector(&kv_indices);
  ClearVector(&block_table);
  ClearVector(&kv_len);
  ClearVector(&out_slots);
  ClearVector(&positions);
  ClearVector(&tree_flags);
  ClearVector(&tree_cached);
  ClearVector(&tree_mask);
  qo_indptr.push_back(0);
  kv_indptr.push_back(0);
  mode = ForwardMode::kIdle;
  page_size = 1;
  block_table_stride = 0;
  max_q_len = 0;
  max_kv_len = 0;
}

}  // namespace haast::attention
