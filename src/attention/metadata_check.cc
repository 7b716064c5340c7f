#include "attention/metadata_check.h"

#include <algorithm>
#include <string_view>

#include "attention/launch_checks.h"
#include "base/format.h"

namespace haast::attention {
namespace {

template <typename T>
Status CompareScalar(const char* name, T expected, T actual) {
  if (expected == actual) return {};
  return Err(ErrorCode::kInvalidArgument, "{}: expected {}, got {}", name, expected, actual);
}

template <typename T>
Status CompareArray(const char* name, const std::vector<T>& expected, const std::vector<T>& actual) {
  const size_t common = std::min(expected.size(), actual.size());
  for (size_t i = 0; i < common; ++i) {
    if (expected[i] != actual[i]) return Err(ErrorCode::kInvalidArgument, "{}[{}]: expected {}, got {}", name, i, expected[i], actual[i]);
  }
  if (expected.size() == actual.size()) return {};
  return Err(ErrorCode::kInvalidArgument, "{}: expected {} elements, got {}", name, expected.size(), actual.size());
}

}  // namespace

Status CheckLaunch(const ForwardMetadata& metadata, const LaunchShape& shape, CheckLevel level) {
  Findings findings = Findings::StopAtFirst();
  CheckInvariants(ViewOf(metadata, shape), level, &findings);
  if (findings.list().empty()) return {};
  const Finding& first = findings.list().front();
  const char* mode = ForwardModeName(metadata.mode);
  if (first.site.sequence < 0) return Err(ErrorCode::kInvalidArgument, "{}: {} ({} sequences)", mode, first.message, metadata.batch());
  return Err(ErrorCode::kInvalidArgument, "{}: {} (sequence {} of {})", mode, first.message, first.site.sequence, metadata.batch());
}

Status CompareMetadata(const ForwardMetadata& expected, const ForwardMetadata& actual) {
  HAAST_RETURN_IF_ERROR(
      CompareScalar("mode", std::string_view(ForwardModeName(expected.mode)), std::string_view(ForwardModeName(actual.mode))));
  HAAST_RETURN_IF_ERROR(CompareScalar("page_size", expected.page_size, actual.page_size));
  HAAST_RETURN_IF_ERROR(CompareScalar("padded_sequences", expected.padded_sequences, actual.padded_sequences));
  HAAST_RETURN_IF_ERROR(CompareArray("qo_indptr", expected.qo_indptr, actual.qo_indptr));
  HAAST_RETURN_IF_ERROR(CompareArray("kv_indptr", expected.kv_indptr, actual.kv_indptr));
  HAAST_RETURN_IF_ERROR(CompareArray("kv_indices", expected.kv_indices, actual.kv_indices));
  HAAST_RETURN_IF_ERROR(CompareScalar("block_table_stride", expected.block_table_stride, actual.block_table_stride));
  HAAST_RETURN_IF_ERROR(CompareArray("block_table", expected.block_table, actual.block_table));
  HAAST_RETURN_IF_ERROR(CompareArray("kv_len", expected.kv_len, actual.kv_len));
  HAAST_RETURN_IF_ERROR(CompareArray("out_slots", expected.out_slots, actual.out_slots));
  HAAST_RETURN_IF_ERROR(CompareArray("positions", expected.positions, actual.positions));
  HAAST_RETURN_IF_ERROR(CompareArray("tree_flags", expected.tree_flags, actual.tree_flags));
  HAAST_RETURN_IF_ERROR(CompareArray("tree_cached", expected.tree_cached, actual.tree_cached));
  HAAST_RETURN_IF_ERROR(CompareArray("tree_mask", expected.tree_mask, actual.tree_mask));
  HAAST_RETURN_IF_ERROR(CompareScalar("max_q_len", expected.max_q_len, actual.max_q_len));
  return CompareScalar("max_kv_len", expected.max_kv_len, actual.max_kv_len);
}

}  // namespace haast::attention
