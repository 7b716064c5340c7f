// Dumps of launches: every class of fault is found with its numbers and its likely cause, and no line can do harm.
#include "attention/dump_checker.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "attention/launch_trace.h"
#include "attention/metadata_builder.h"
#include "support/tiny_models.h"

namespace haast::attention {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

// The launches that the faults are put into: a prefill of 80 and one of 5 rows, then the draft extend of 4 and 2 rows.
// Pages of 16 slots; sequence 0 owns pages 1 to 6, sequence 1 page 7.
json Prefill() {
  const std::vector<int32_t> a = {1, 2, 3, 4, 5, 6}, b = {7};
  const SequenceRows sequences[] = {{.pages = a, .num_rows = 80}, {.pages = b, .num_rows = 5}};
  ForwardMetadata m;
  EXPECT_TRUE(BuildMetadata(ForwardMode::kExtend, 16, sequences, &m));
  std::string line;
  WriteLaunch("draft", m, {.q_rows = 85, .kv_rows = 85, .out_rows = 85, .pool_slots = 160}, &line);
  return json::parse(line);
}

json DraftExtend() {
  const std::vector<int32_t> a = {1, 2, 3, 4, 5, 6}, b = {7};
  const SequenceRows sequences[] = {{.pages = a, .kv_before = 80, .num_rows = 4}, {.pages = b, .kv_before = 5, .num_rows = 2}};
  ForwardMetadata m;
  EXPECT_TRUE(BuildMetadata(ForwardMode::kDraftExtend, 16, sequences, &m));
  const std::vector<int32_t> page_owner = {-2, 10, 10, 10, 10, 10, 10, 11, -1, -1}, sequence_owner = {10, 11};
  const LaunchShape shape{
      .q_rows = 6, .kv_rows = 6, .out_rows = 6, .pool_slots = 160, .page_owner = page_owner, .sequence_owner = sequence_owner};
  std::string line;
  WriteLaunch("draft", m, shape, &line);
  return json::parse(line);
}

// A tree of 5 rows: 0 -> 1, 2; 1 -> 3; 2 -> 4.
json TreeVerify() {
  const std::vector<int32_t> pages = {1, 2}, parents = {-1, 0, 0, 1, 2};
  const SequenceRows tree{.pages = pages, .kv_before = 20, .num_rows = 5, .tree_parents = parents};
  ForwardMetadata m;
  EXPECT_TRUE(BuildMetadata(ForwardMode::kTargetVerify, 16, {&tree, 1}, &m));
  std::string line;
  WriteLaunch("target", m, {.q_rows = 5, .kv_rows = 5, .out_rows = 5, .pool_slots = 160}, &line);
  return json::parse(line);
}

CheckReport Check(const std::vector<json>& launches) {
  DumpChecker checker({});
  int64_t number = 0;
  for (const json& launch : launches) checker.CheckLine({++number, "dump.jsonl", launch.dump()});
  return checker.report();
}

struct Fault {
  const char* name;
  json (*launch)();
  std::function<void(json&)> damage;
  const char* invariant;
  const char* array;
  const char* cause;
};

const Fault kFaults[] = {
    {"stale row starts", DraftExtend, [](json& l) { l["qo_indptr"] = {0, 80, 85}; }, "row_count", "qo_indptr",
     "stale: qo_indptr is that of line 1 (extend, 85 rows), not rebuilt for the 6 rows"},
    {"stale entries", DraftExtend, [](json& l) { l["kv_indptr"] = {0, 80, 85}; }, "kv_length", "kv_len",
     "stale: kv_indptr is that of line 1"},
    {"stale maximum", DraftExtend, [](json& l) { l["max_q_len"] = 80; }, "max_q_len", "max_q_len", "stale: max_q_len is that of line 1"},
    {"maximum never set", DraftExtend, [](json& l) { l["max_q_len"] = 0; }, "max_q_len", "max_q_len", "is 0, what a field holds before"},
    {"q padded, metadata not", DraftExtend,
     [](json& l) {
       l["q_shape"] = {8, 4096};
       l["real_rows"] = 6;
     },
     "row_count", "qo_indptr", "padded rows: q has the 8 rows of a bucket but qo_indptr ends with the 6 real ones"},
    {"padded rows counted as real", DraftExtend,
     [](json& l) {
       l["real_sequences"] = 1;
       l["real_rows"] = 6;
     },
     "padding_counts", "real_rows", "padded rows counted as real"},
    {"padding on a request's page", DraftExtend, [](json& l) { l["real_sequences"] = 1; }, "padding_reserved", "out_slots",
     "padding kept the slots of an earlier, larger batch"},
    {"width against depth", TreeVerify, [](json& l) { l["qo_indptr"] = {0, 4}; }, "row_count", "qo_indptr",
     "wrong stride: qo_indptr counts 4 rows a sequence, q has 5"},
    {"context without the new tokens", DraftExtend,
     [](json& l) {
       l["kv_indptr"] = {0, 80, 85};
       l["kv_indices"] = json();
     },
     "kv_length", "kv_len", "kv_indptr"},
    {"kv shorter than q", DraftExtend,
     [](json& l) {
       l["kv_len"] = {84, 1};
       l["kv_indptr"] = {0, 84, 85};
       l["kv_indices"].erase(85), l["kv_indices"].erase(85), l["kv_indices"].erase(85), l["kv_indices"].erase(85),
           l["kv_indices"].erase(85);
       l["kv_indices"].erase(85);
     },
     "kv_covers_rows", "kv_len", "kv shorter than q"},
    {"window off", DraftExtend,
     [](json& l) {
       l["window"] = 0;
       l["layer_window"] = 4096;
     },
     "window", "window", "window: switched off"},
    {"window off by one", DraftExtend,
     [](json& l) {
       l["window"] = 4095;
       l["layer_window"] = 4096;
     },
     "window", "window", "window: the tokens to the left (w - 1)"},
    {"table of another stride", DraftExtend, [](json& l) { l["block_table_stride"] = 5; }, "table_shape", "block_table", "wrong stride"},
    {"16-bit position", DraftExtend,
     [](json& l) {
       // 70,000 tokens in 16 bits: 70000 - 65536.
       l["kv_len"] = {70004, 7};
       for (const char* absent : {"kv_indptr", "kv_indices", "block_table", "max_kv_len", "page_owner", "sequence_owner"}) l.erase(absent);
       l["positions"] = {4464, 70001, 70002, 70003, 5, 6};
     },
     "position_range", "positions", "narrow integer: 4464 is what 16 bits keep of 70000"},
    {"signed 16-bit slot", DraftExtend,
     [](json& l) {
       l["pool_slots"] = 65536;
       l["out_slots"][0] = -25536;
     },
     "slot_in_pool", "out_slots", "narrow integer: -25536 is what 16 signed bits keep of 40000"},
    {"slot beyond 32 bits", DraftExtend, [](json& l) { l["kv_indices"][3] = (int64_t{1} << 32) + 19; }, "integer_range", "kv_indices",
     "the writer's integers are wider"},
    {"unwritten memory", DraftExtend, [](json& l) { l["out_slots"][5] = 0x7f7f7f7f; }, "slot_in_pool", "out_slots",
     "unwritten: 0x7f7f7f7f is a fill pattern"},
    {"positions off by one", DraftExtend, [](json& l) { l["positions"] = {81, 82, 83, 84, 5, 6}; }, "position_depth", "positions",
     "off by one: all positions of the sequence are shifted by +1"},
    {"tree positions by row", TreeVerify, [](json& l) { l["positions"] = {20, 21, 22, 23, 24}; }, "position_depth", "positions",
     "positions count rows, not depth"},
    {"duplicated write slot", TreeVerify, [](json& l) { l["out_slots"][2] = l["out_slots"][1]; }, "slot_written_once", "out_slots",
     "duplicated write slots: rows of one depth share the slot"},
    {"write slot of the next token", DraftExtend, [](json& l) { l["out_slots"][0] = 97; }, "write_is_read", "out_slots",
     "off by one: the slot of the token before or after"},
    {"page of another request", DraftExtend, [](json& l) { l["page_owner"][3] = 11; }, "page_owner", "block_table",
     "slot of another request: a table row of another batch place"},
    {"page given back", DraftExtend, [](json& l) { l["page_owner"][3] = -1; }, "page_owner", "block_table", "the page is free"},
    {"two sequences on one page", DraftExtend,
     [](json& l) {
       l["block_table"][6] = 1;
       for (size_t i = 0; i < 7; ++i) l["kv_indices"][84 + i] = 16 + i;
       l["out_slots"][4] = 21, l["out_slots"][5] = 22;
       l["page_owner"] = json();
       l["sequence_owner"] = json();
     },
     "slot_read_by_other", "kv_indices", "slot of another request: two sequences hold the page"},
    {"slots in the block table", DraftExtend, [](json& l) { l["block_table"][2] = 48; }, "page_in_pool", "block_table",
     "wrong unit: block_table holds token slots"},
    {"pages in kv_indices", DraftExtend, [](json& l) { l["kv_indices"][32] = 3; }, "slot_of_page", "kv_indices",
     "wrong unit: kv_indices holds pages"},
    {"mask skips an ancestor", TreeVerify, [](json& l) { l["tree_mask"][3] = 0b1010; }, "mask_ancestors", "tree_mask",
     "not ancestor-closed"},
    {"transposed mask", TreeVerify, [](json& l) { l["tree_mask"] = {0b11111, 0b01010, 0b10100, 0b01000, 0b10000}; }, "mask_later_rows",
     "tree_mask", "the mask looks transposed"},
    {"row hidden from itself", TreeVerify, [](json& l) { l["tree_mask"][2] = 0b001; }, "mask_self", "tree_mask",
     "ancestors without the row itself"},
    {"siblings as a chain", TreeVerify, [](json& l) { l["tree_mask"][4] = 0b10111; }, "mask_branches", "tree_mask",
     "siblings were taken for a chain"},
    {"plan of a smaller batch", DraftExtend, [](json& l) { l["plan_max_kv_len"] = 64; }, "plan_bound", "plan_max_kv_len",
     "a captured plan is replayed"},
    {"a count instead of a running sum", DraftExtend, [](json& l) { l["qo_indptr"] = {0, 4, 2}; }, "indptr_order", "qo_indptr",
     "lengths where their running sum belongs"},
    {"batch shrank", DraftExtend, [](json& l) { l["tree_flags"] = {0, 0, 0}; }, "sequence_count", "tree_flags", "the batch size changed"},
    {"reserved slot", DraftExtend, [](json& l) { l["out_slots"][0] = 0; }, "real_reserved", "out_slots", "reserved_page -1"},
    {"page left over", DraftExtend, [](json& l) { l["block_table"][8] = 3; }, "surplus_page", "block_table", "left from a longer sequence"},
};

TEST(DumpChecker, TheLaunchesAreClean) {
  const CheckReport report = Check({Prefill(), DraftExtend(), TreeVerify()});
  EXPECT_EQ(report.launches, 3);
  EXPECT_EQ(report.violations, 0) << report.findings[0].message;
  EXPECT_EQ(report.unreadable_lines, 0) << report.unreadable[0].message;
  EXPECT_TRUE(report.notes.empty());
}

TEST(DumpChecker, EveryClassOfFaultHasItsCause) {
  for (const Fault& fault : kFaults) {
    json launch = fault.launch();
    fault.damage(launch);
    const CheckReport report = Check({Prefill(), launch});
    ASSERT_EQ(report.unreadable_lines, 0) << fault.name << ": " << report.unreadable[0].message;
    bool found = false;
    std::string others;
    for (const LaunchFinding& finding : report.findings) {
      EXPECT_EQ(finding.line, 2) << fault.name;
      EXPECT_NE(finding.explanation, "");
      found |= finding.invariant == fault.invariant && finding.array == fault.array && finding.cause.find(fault.cause) != std::string::npos;
      others += fmt::format("\n  {} of {}: {}; {}", finding.invariant, finding.array, finding.message, finding.cause);
    }
    EXPECT_TRUE(found) << fault.name << ": expected " << fault.invariant << " of " << fault.array << " (" << fault.cause << "), got"
                       << others;
  }
}

TEST(DumpChecker, EveryViolationOfALaunchIsListedOrCounted) {
  json launch = Prefill();
  for (size_t row = 0; row < 85; ++row) launch["out_slots"][row] = 1000 + row;
  launch["max_kv_len"] = 7;
  const CheckReport report = Check({launch});
  int64_t listed = 0, counted = 0;
  for (const LaunchFinding& finding : report.findings) {
    if (finding.invariant != "slot_in_pool") continue;
    ++listed;
    counted += finding.more;
  }
  EXPECT_EQ(listed, 4);
  EXPECT_EQ(counted, 81);
  EXPECT_EQ(report.launches_violated, 1);
  EXPECT_EQ(report.violations, 86) << "85 slots and the maximum";
}

TEST(DumpChecker, OtherEnginesMayLackArrays) {
  // A decode kernel: page table, lengths and slots; one row a sequence; padding rows that write nothing.
  const CheckReport clean = Check({json::parse(R"({"mode": "decode", "page_size": 16, "q_shape": [3, 8, 128], "kv_len": [17, 33, 0],
      "block_table": [[4, 5, 0], [1, 2, 3], [0, 0, 0]], "out_slots": [80, 48, -1], "skip_slot": -1, "real_sequences": 2, "max_kv_len": 33,
      "pool_slots": 1024, "qo_indptr": [0, 1, 2, 2]})")});
  ASSERT_EQ(clean.findings.size(), 1u) << "the third row has no sequence";
  EXPECT_EQ(clean.findings[0].message, "q has 3 rows but qo_indptr ends at 2");
  const CheckReport paged = Check({json::parse(R"({"mode": "decode", "page_size": 16, "q_shape": 2, "kv_len": [17, 33],
      "block_table": [[4, 5, 0], [1, 2, 3]], "out_slots": [80, 50], "pool_slots": 1024})")});
  ASSERT_EQ(paged.findings.size(), 1u);
  EXPECT_EQ(paged.findings[0].message, "row 1 writes slot 50 (out_slots) but is read from slot 48 (block_table)");
  const CheckReport flat = Check({json::parse(R"({"qo_indptr": [0, 4], "kv_indptr": [0, 84], "q_shape": [4], "seq_lens": [84]})")});
  EXPECT_TRUE(flat.findings.empty());
  ASSERT_EQ(flat.notes.size(), 1u);
  EXPECT_THAT(flat.notes[0], HasSubstr("unknown field seq_lens, not checked; here it is called kv_len"));
}

TEST(DumpChecker, WrittenLaunchesReadBackAsTheyWere) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    const int page_size = 1 + static_cast<int>(random() % 20);
    const size_t batch = 1 + random() % 5;
    std::vector<std::vector<int32_t>> pages(batch), parents(batch);
    std::vector<SequenceRows> sequences(batch);
    int32_t next_page = 1;
    for (size_t b = 0; b < batch; ++b) {
      const int64_t before = static_cast<int64_t>(random() % 60), rows = 1 + static_cast<int64_t>(random() % 12);
      for (int64_t i = 0; i < PagesOf(before + rows, page_size); ++i) pages[b].push_back(next_page++);
      for (int64_t j = 0; j < rows && b % 2 == 1; ++j) parents[b].push_back(static_cast<int32_t>(random() % (j + 1)) - 1);
      sequences[b] = {.pages = pages[b], .kv_before = before, .num_rows = rows, .tree_parents = parents[b]};
    }
    const Bucket bucket{.batch = 8, .rows = 100, .max_q_len = 100, .max_kv_len = 128};
    ForwardMetadata m;
    ASSERT_TRUE(BuildMetadata(ForwardMode::kTargetVerify, page_size, sequences, &m, round % 2 == 0 ? &bucket : nullptr));
    const LaunchShape shape{.q_rows = m.rows(),
                            .kv_rows = m.rows(),
                            .out_rows = m.rows(),
                            .pool_slots = int64_t{next_page} * page_size,
                            .real_rows = m.real_rows()};
    std::string line;
    WriteLaunch("target", m, shape, &line);
    LaunchDump dump;
    const Status read = ReadLaunch(line, "line", &dump);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(std::tie(dump.qo_indptr, dump.kv_indptr, dump.kv_indices, dump.block_table, dump.kv_len),
              std::tie(m.qo_indptr, m.kv_indptr, m.kv_indices, m.block_table, m.kv_len));
    EXPECT_EQ(std::tie(dump.out_slots, dump.positions, dump.tree_flags, dump.tree_cached, dump.tree_mask),
              std::tie(m.out_slots, m.positions, m.tree_flags, m.tree_cached, m.tree_mask));
    EXPECT_EQ(dump.view.padded_sequences, m.padded_sequences);
    EXPECT_EQ(dump.view.block_table_stride, m.block_table_stride);
    EXPECT_TRUE(dump.unknown_fields.empty()) << dump.unknown_fields[0];
    DumpChecker checker({});
    checker.CheckLine({1, "line", line});
    EXPECT_EQ(checker.report().violations, 0) << checker.report().findings[0].message;
  }
}

TEST(DumpChecker, LinesThatAreNotLaunchesAreNamed) {
  const std::pair<const char*, const char*> lines[] = {
      {"not JSON", "dump.jsonl:1: expected a JSON object"},
      {"[1, 2]", "dump.jsonl:1: expected a JSON object"},
      {"{\"qo_indptr\": [0, 4]", "dump.jsonl:1: expected a JSON object"},
      {"{\"prompt\": \"hello\"}", "without qo_indptr, kv_indptr and kv_len"},
      {"{\"qo_indptr\": null}", "without qo_indptr, kv_indptr and kv_len (null is none)"},
      {"{\"qo_indptr\": 4}", "qo_indptr: expected a list of whole numbers, got the number 4"},
      {"{\"qo_indptr\": [0, \"4\"]}", "qo_indptr: expected a list of whole numbers, got one that holds \"4\""},
      {"{\"qo_indptr\": [0, 1.5]}", "one that holds 1.5"},
      {"{\"qo_indptr\": [0, 99999999999999999999]}", "dump.jsonl:1: "},
      {"{\"qo_indptr\": [0, 4], \"page_size\": 1e30}", "page_size: expected a whole number"},
      {"{\"qo_indptr\": [0, 4], \"q_shape\": [-4]}", "q_shape: expected a whole number from 0"},
      {"{\"qo_indptr\": [0, 4], \"q_shape\": []}", "q_shape: expected a shape, its first number the rows, got an empty list"},
      {"{\"kv_len\": [1, 9007199254740993]}",
       "kv_len: expected whole numbers of at most 9007199254740992, got 9007199254740993 at index 1"},
      {"{\"qo_indptr\": [0, 4], \"format\": 2}", "format: expected a whole number from 1 to 1"},
      {"{\"qo_indptr\": [0, 4], \"mode\": 7}", "mode: expected a string"},
      {"{\"qo_indptr\": [0, 4], \"block_table\": [[1, 2], [3]]}", "block_table: expected rows of 2 cells like the first, got one of 1"},
      {"{\"qo_indptr\": [0, 4], \"block_table\": [[1], 3]}", "block_table: expected a list of rows"},
      {"{\"qo_indptr\": [0, 4], \"tree_mask\": [true]}", "tree_mask: expected a list of whole numbers"},
  };
  for (const auto& [line, message] : lines) {
    DumpChecker checker({});
    checker.CheckLine({1, "dump.jsonl:1", line});
    ASSERT_EQ(checker.report().unreadable_lines, 1) << line;
    EXPECT_THAT(checker.report().unreadable[0].message, HasSubstr(message)) << line;
    EXPECT_EQ(checker.report().launches, 0);
  }
}

// Extreme numbers in every field: findings, never a crash or an endless walk.
TEST(DumpChecker, ExtremeNumbersDoNoHarm) {
  const int64_t extremes[] = {
      std::numeric_limits<int64_t>::min(), -(int64_t{1} << 53), -(int64_t{1} << 31), -1, 0, 1, 65, int64_t{1} << 31, int64_t{1} << 53,
      std::numeric_limits<int64_t>::max()};
  for (const json& original : {DraftExtend(), TreeVerify()}) {
    for (const auto& [field, value] : original.items()) {
      for (const int64_t extreme : extremes) {
        json launch = original;
        launch[field] = value.is_array() ? json(std::vector<int64_t>(std::max<size_t>(value.size(), 1), extreme)) : json(extreme);
        const CheckReport report = Check({Prefill(), launch, DraftExtend()});
        EXPECT_EQ(report.launches + report.unreadable_lines, 3) << field << " = " << extreme;
        if (!value.is_array()) continue;
        launch = original;
        launch[field].push_back(extreme);
        launch[field].insert(launch[field].begin(), extreme);
        EXPECT_EQ(Check({launch}).lines, 1);
        launch[field] = json::array();
        EXPECT_EQ(Check({launch}).lines, 1);
      }
    }
  }
}

// Ranges that overlap would make the walk quadratic in the line's length.
TEST(DumpChecker, OverlappingRangesAreNotWalkedTwice) {
  json launch = {{"qo_indptr", json::array()}, {"kv_indptr", json::array()}, {"kv_indices", std::vector<int>(20000, 5)}};
  for (int i = 0; i < 10000; ++i) {
    for (const int end : {0, 20000}) launch["kv_indptr"].push_back(end);
    for (const int end : {0, 1}) launch["qo_indptr"].push_back(end);
  }
  const CheckReport report = Check({launch});
  EXPECT_EQ(report.launches, 1);
  EXPECT_GT(report.violations, 9000);
}

class MetadataFile : public ::testing::Test {
 protected:
  Result<CheckReport> CheckText(const std::string& text, const CheckOptions& options = {}) {
    const std::string path = dir_.Join("dump.jsonl");
    std::ofstream(path, std::ios::binary) << text;
    const int fd = open(path.c_str(), O_RDONLY);
    auto report = CheckMetadata(fd, "dump.jsonl", options);
    close(fd);
    return report;
  }

  haast::testing::TempDir dir_;
};

TEST_F(MetadataFile, LinesEndInAnyWay) {
  const std::string line = DraftExtend().dump();
  for (const std::string& text : {line, line + "\n", "\n\n" + line + "\r\n\r\n", line + "\n  \n"}) {
    const auto report = CheckText(text);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->launches, 1);
    EXPECT_EQ(report->unreadable_lines, 0);
    EXPECT_EQ(report->violations, 0);
  }
  const auto empty = CheckText("\n\n");
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("dump.jsonl: expected one launch a line, got none"));
  // A dump of a process that died: the launches before the last are checked.
  const auto cut = CheckText(line + "\n" + line.substr(0, line.size() / 2));
  ASSERT_TRUE(cut);
  EXPECT_EQ(cut->launches, 1);
  EXPECT_EQ(cut->unreadable_lines, 1);
  EXPECT_EQ(cut->unreadable[0].line, 2);
}

TEST_F(MetadataFile, LongLinesAreSkippedInBoundedMemory) {
  const std::string line = DraftExtend().dump();
  CheckOptions options;
  options.max_line_bytes = static_cast<int64_t>(line.size());
  const auto report = CheckText(std::string(3 << 20, 'x') + "\n" + line + "\n" + line + " \n", options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->launches, 1);
  EXPECT_EQ(report->unreadable_lines, 2);
  EXPECT_THAT(report->unreadable[0].message, HasSubstr("dump.jsonl:1: expected lines of at most"));
  EXPECT_EQ(report->unreadable[1].line, 3);
}

TEST_F(MetadataFile, FindingsAreBoundedAndCounted) {
  json bad = DraftExtend();
  bad["max_q_len"] = 0;
  std::string text;
  for (int i = 0; i < 50; ++i) text += bad.dump() + "\nnonsense\n";
  const auto report = CheckText(text, {.findings_each = 4, .max_findings = 10});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->violations, 50);
  EXPECT_EQ(report->findings.size(), 10u);
  EXPECT_EQ(report->unreadable_lines, 50);
  EXPECT_EQ(report->unreadable.size(), 10u);
}

TEST_F(MetadataFile, AFolderCannotBeRead) {
  const int fd = open(dir_.path().c_str(), O_RDONLY);
  const auto report = CheckMetadata(fd, "folder");
  close(fd);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("folder: reading failed: "));
}

TEST_F(MetadataFile, TracesAreWholeOrSayWhyNot) {
  const std::vector<int32_t> pages = {1};
  const SequenceRows rows{.pages = pages, .kv_before = 2, .num_rows = 3};
  ForwardMetadata m;
  ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 16, {&rows, 1}, &m));
  const LaunchShape shape{.q_rows = 3, .kv_rows = 3, .out_rows = 3, .pool_slots = 32};
  const std::string path = dir_.Join("trace.jsonl");
  std::ofstream(path) << "of an earlier run\n";
  auto trace = LaunchTrace::Open(path);
  ASSERT_TRUE(trace) << trace.error().message;
  (*trace)->Write("target", m, shape);
  (*trace)->Write("draft", m, shape);
  EXPECT_EQ((*trace)->launches(), 2);
  const int fd = open(path.c_str(), O_RDONLY);  // complete before the trace is closed
  const auto report = CheckMetadata(fd, path);
  close(fd);
  ASSERT_TRUE(report);
  EXPECT_EQ(report->launches, 2);
  EXPECT_EQ(report->violations + report->unreadable_lines, 0);

  const auto nowhere = LaunchTrace::Open(dir_.Join("none/trace.jsonl"));
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("none/trace.jsonl: launch metadata cannot be written there: No such file"));
  auto full = LaunchTrace::Open("/dev/full");
  ASSERT_TRUE(full);
  for (int i = 0; i < 3; ++i) (*full)->Write("target", m, shape);
  ASSERT_FALSE((*full)->status());
  EXPECT_THAT((*full)->status().error().message, HasSubstr("failed after 0 whole launches: No space left on device"));
}

TEST(Invariants, EachIsDocumentedUnderItsName) {
  std::ostringstream page;
  page << std::ifstream("docs/check.md").rdbuf();
  std::set<std::string> names;
  for (int i = 0; i < kNumInvariants; ++i) {
    const InvariantText& text = TextOf(static_cast<Invariant>(i));
    EXPECT_TRUE(names.insert(text.name).second) << text.name;
    EXPECT_THAT(page.str(), HasSubstr(fmt::format("`{}`", text.name)));
    EXPECT_TRUE(std::string(text.explanation).ends_with(".")) << text.name;
  }
}

// Opening waits for nobody, writing for the reader.
TEST_F(MetadataFile, TracesToAFifoNeedItsReader) {
  const std::string fifo = dir_.Join("fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  const auto unread = LaunchTrace::Open(fifo);
  ASSERT_FALSE(unread);
  EXPECT_EQ(unread.error().code, ErrorCode::kIo);
  EXPECT_THAT(
      unread.error().message,
      HasSubstr("fifo: launch metadata cannot be written there: expected a file, or a FIFO that is being read, got a FIFO without a "
                "reader: start that first"));
  const int reader = open(fifo.c_str(), O_RDONLY | O_NONBLOCK);
  fcntl(reader, F_SETFL, 0);
  auto trace = LaunchTrace::Open(fifo);
  ASSERT_TRUE(trace) << trace.error().message;
  std::thread writer([&trace] {
    const std::vector<int32_t> pages = {1};
    const SequenceRows rows{.pages = pages, .kv_before = 2, .num_rows = 3};
    ForwardMetadata m;
    ASSERT_TRUE(BuildMetadata(ForwardMode::kDecode, 16, {&rows, 1}, &m));
    for (int i = 0; i < 1000; ++i) (*trace)->Write("target", m, {.q_rows = 3, .kv_rows = 3, .out_rows = 3, .pool_slots = 32});
    EXPECT_TRUE((*trace)->status()) << "more than a pipe holds";
    trace->reset();
  });
  const auto report = CheckMetadata(reader, "fifo");
  writer.join();
  close(reader);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->launches, 1000);
}

}  // namespace
}  // namespace haast::attention
