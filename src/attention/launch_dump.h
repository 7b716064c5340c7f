// The metadata of one launch as a line of JSON (docs/check.md): read from any engine, written by this one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "attention/invariants.h"
#include "attention/launch_view.h"
#include "haast/result.h"

namespace haast::attention {

// What a line holds. `view` points into the vectors: do not copy a dump and keep the old view.
struct LaunchDump {
  std::string model;  // whose launch: "target", "draft", or what the writer calls it
  std::string mode;
  std::vector<int32_t> qo_indptr, kv_indptr, kv_indices, block_table, out_slots, positions, tree_cached, page_owner, sequence_owner;
  std::vector<int64_t> kv_len;
  std::vector<uint8_t> tree_flags;
  std::vector<uint64_t> tree_mask;
  LaunchView view;
  std::vector<std::string> unknown_fields;
  Findings narrowed = Findings::CollectAll(4);  // values that their array's type does not hold

  LaunchDump() = default;
  LaunchDump(const LaunchDump&) = delete;
  LaunchDump& operator=(const LaunchDump&) = delete;
};

// Fills `dump` from one line; `where` ("FILE:12") begins the message of a line that is not a launch.
Status ReadLaunch(std::string_view line, const std::string& where, LaunchDump* dump);

// Appends the launch and a line break to `out`. `model` must need no escapes.
void WriteLaunch(const char* model, const ForwardMetadata& metadata, const LaunchShape& shape, std::string* out);

}  // namespace haast::attention
