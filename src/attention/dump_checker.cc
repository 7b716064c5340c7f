#include "attention/dump_checker.h"

#include <array>

#include "attention/launch_checks.h"

namespace haast::attention {
namespace {

// A stale array is that of the launch before, or of the last launch of the same model: with a target and a head, and a few
// draft steps a round, one of these.
constexpr size_t kRemembered = 8;
constexpr size_t kMaxNotes = 100;

struct OtherName {
  const char* theirs;
  const char* ours;
};

// What other engines call the arrays, for the hint beside an unknown field (docs/check.md has the units).
constexpr std::array kOtherNames = {
    OtherName{"cu_seqlens_q", "qo_indptr"},     OtherName{"query_start_loc", "qo_indptr"},
    OtherName{"cu_seqlens_k", "kv_indptr"},     OtherName{"cache_seqlens", "kv_len"},
    OtherName{"cache_seqlens_int32", "kv_len"}, OtherName{"seq_lens", "kv_len"},
    OtherName{"seqused_k", "kv_len"},           OtherName{"page_table", "block_table"},
    OtherName{"block_tables", "block_table"},   OtherName{"block_table_tensor", "block_table"},
    OtherName{"out_cache_loc", "out_slots"},    OtherName{"slot_mapping", "out_slots"},
    OtherName{"max_seq_len_q", "max_q_len"},    OtherName{"max_query_len", "max_q_len"},
    OtherName{"max_extend_len", "max_q_len"},   OtherName{"max_seq_len_k", "max_kv_len"},
    OtherName{"max_seq_len", "max_kv_len"},     OtherName{"num_actual_tokens", "real_rows"},
    OtherName{"block_size", "page_size"},       OtherName{"num_reqs", "real_sequences"},
    OtherName{"sliding_window", "window"},      OtherName{"custom_mask", "tree_mask"},
};

}  // namespace

void DumpChecker::CheckLine(const io::JsonLine& line) {
  report_.lines = line.number;
  auto dump = std::make_shared<LaunchDump>();
  const Status read = line.text.and_then([&](std::string_view text) { return ReadLaunch(text, line.where, dump.get()); });
  if (!read) return AddUnreadable(line, read.error().message);
  ++report_.launches;
  NoteUnknownFields(*dump, line.where);
  Findings findings = Findings::CollectAll(options_.findings_each);
  CheckInvariants(dump->view, CheckLevel::kFull, &findings);
  const int64_t violations = dump->narrowed.total() + findings.total();
  report_.violations += violations;
  report_.launches_violated += violations > 0 ? 1 : 0;
  AddFindings(*dump, dump->narrowed, line.number);
  AddFindings(*dump, findings, line.number);
  Remember(std::move(dump), line.number);
}

void DumpChecker::AddUnreadable(const io::JsonLine& line, std::string message) {
  ++report_.unreadable_lines;
  if (static_cast<int64_t>(report_.unreadable.size()) >= options_.max_findings) return;
  report_.unreadable.push_back({line.number, std::move(message)});
}

void DumpChecker::AddFindings(const LaunchDump& dump, const Findings& findings, int64_t line) {
  for (const Finding& finding : findings.list()) {
    if (static_cast<int64_t>(report_.findings.size()) >= options_.max_findings) return;
    const Site& site = finding.site;
    const InvariantText& text = TextOf(site.invariant);
    LaunchFinding out{line,          dump.model,    dump.mode,   text.name,       site.array,       site.index,
                      site.sequence, site.expected, site.actual, finding.message, text.explanation, LikelyCause(finding, dump, earlier_),
                      finding.more};
    report_.findings.push_back(std::move(out));
  }
}

void DumpChecker::NoteUnknownFields(const LaunchDump& dump, const std::string& where) {
  for (const std::string& field : dump.unknown_fields) {
    if (noted_.size() >= kMaxNotes || !noted_.insert(field).second) continue;
    std::string hint;
    for (const OtherName& name : kOtherNames) {
      if (field == name.theirs) hint = fmt::format("; here it is called {}, see docs/check.md for its meaning and unit", name.ours);
    }
    report_.notes.push_back(fmt::format("{}: unknown field {}, not checked{}", where, field, hint));
  }
}

void DumpChecker::Remember(std::shared_ptr<const LaunchDump> dump, int64_t line) {
  earlier_.insert(earlier_.begin(), {line, std::move(dump)});
  if (earlier_.size() > kRemembered) earlier_.pop_back();
}

}  // namespace haast::attention
