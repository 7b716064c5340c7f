#include <iterator>

#include "attention/launch_dump.h"

namespace haast::attention {
namespace {

template <typename Values>
void Append(const char* key, const Values& values, std::string* out) {
  fmt::format_to(std::back_inserter(*out), ",\"{}\":[{}]", key, fmt::join(values, ","));
}

void AppendNumber(const char* key, int64_t value, std::string* out) { fmt::format_to(std::back_inserter(*out), ",\"{}\":{}", key, value); }

}  // namespace

void WriteLaunch(const char* model, const ForwardMetadata& m, const LaunchShape& shape, std::string* out) {
  fmt::format_to(std::back_inserter(*out), "{{\"format\":1,\"model\":\"{}\",\"mode\":\"{}\"", model, ForwardModeName(m.mode));
  AppendNumber("q_shape", shape.q_rows, out);
  AppendNumber("k_shape", shape.kv_rows, out);
  AppendNumber("v_shape", shape.kv_rows, out);
  AppendNumber("out_shape", shape.out_rows, out);
  if (shape.real_rows >= 0) AppendNumber("real_rows", shape.real_rows, out);
  AppendNumber("real_sequences", m.real_batch(), out);
  AppendNumber("page_size", m.page_size, out);
  AppendNumber("pool_slots", shape.pool_slots, out);
  AppendNumber("reserved_page", kReservedPage, out);
  AppendNumber("unused_page", -1, out);
  AppendNumber("max_q_len", m.max_q_len, out);
  AppendNumber("max_kv_len", m.max_kv_len, out);
  AppendNumber("block_table_stride", m.block_table_stride, out);
  ForEachArray([&](const char* key, const auto& values) { Append(key, values, out); }, m);
  if (!shape.page_owner.empty()) {
    Append("page_owner", shape.page_owner, out);
    Append("sequence_owner", shape.sequence_owner, out);
  }
  *out += "}\n";
}

}  // namespace haast::attention
