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
  HAAST_RETURN_IF_ERROR(CompareScalar("block_table_stride", expected.block_table_stride, actual.block_table_stride));
  Status same;
  const auto compare = [&](const char* name, const auto& theirs, const auto& ours) {
    if (same) same = CompareArray(name, theirs, ours);
  };
  ForEachArray(compare, expected, actual);
  HAAST_RETURN_IF_ERROR(same);
  HAAST_RETURN_IF_ERROR(CompareScalar("max_q_len", expected.max_q_len, actual.max_q_len));
  return CompareScalar("max_kv_len", expected.max_kv_len, actual.max_kv_len);
}

}  // namespace haast::attention
