#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/flag_values.h"
#include "cli/json_forms.h"
#include "cli/load_progress.h"
#include "cli/options.h"
#include "haast/check.h"

namespace haast::cli {
namespace {

// Of a text report; --json lists what CheckOptions keeps.
constexpr int64_t kMostFindings = 100;
constexpr int64_t kMostUnreadable = 5;

Result<CheckReport> CheckPath(const std::string& path, Streams& streams) {
  if (path == "-") return CheckMetadata(streams.in_fd, "standard input");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const ErrorCode code = errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo;
    return Err(code, "{}: cannot be opened: {}: expected a file of launch metadata, one launch a line", path, std::strerror(errno));
  }
  const LoadProgress progress(streams.err, "checking " + path);
  Result<CheckReport> report = CheckMetadata(fd, path);
  ::close(fd);
  return report;
}

std::string Place(const LaunchFinding& finding) {
  std::string place = finding.array;
  if (finding.index >= 0) place += fmt::format("[{}]", finding.index);
  if (finding.sequence >= 0) place += fmt::format(", sequence {}", finding.sequence);
  return place;
}

std::string FindingText(const std::string& path, const LaunchFinding& finding) {
  const std::string launch = finding.model.empty() ? finding.mode : fmt::format("{} of {}", finding.mode, finding.model);
  std::string text =
      fmt::format("{}:{}: {}: {} ({}; {})\n", path, finding.line, launch, finding.message, finding.invariant, Place(finding));
  if (finding.more > 0) text += fmt::format("  and {} more like it in this launch\n", finding.more);
  text += fmt::format("  must hold: {}\n", finding.explanation);
  if (!finding.cause.empty()) text += fmt::format("  likely: {}\n", finding.cause);
  return text;
}

std::string Summary(const std::string& path, const CheckReport& report) {
  std::string text = fmt::format("{}: {} launches, ", path, report.launches);
  text += report.violations == 0 ? "no violation" : fmt::format("{} violations in {} of them", report.violations, report.launches_violated);
  if (report.unreadable_lines > 0) text += fmt::format("; {} lines cannot be read", report.unreadable_lines);
  return text + "\n";
}

// A file of something else: nothing was checked, so there is nothing to report.
Error NoLaunches(const std::string& path, const CheckReport& report) {
  std::string text = fmt::format(
      "{}: no launch in {} lines: expected launch metadata, one JSON object a line, as --trace-metadata of generate, chat and bench writes "
      "it "
      "(docs/check.md)",
      path, report.lines);
  if (!report.unreadable.empty()) text += "; first " + report.unreadable[0].message;
  return {ErrorCode::kInvalidFile, std::move(text)};
}

void WriteText(const std::string& path, const CheckReport& report, Streams& streams) {
  const int64_t findings = std::min<int64_t>(static_cast<int64_t>(report.findings.size()), kMostFindings);
  const int64_t unreadable = std::min<int64_t>(static_cast<int64_t>(report.unreadable.size()), kMostUnreadable);
  int64_t shown = 0;
  for (int64_t i = 0; i < findings; ++i) {
    streams.out.WriteText(FindingText(path, report.findings[i]));
    shown += 1 + report.findings[i].more;
  }
  if (report.violations > shown)
    streams.out.Write(fmt::format("{} more violations: --json lists up to 10000\n", report.violations - shown));
  for (int64_t i = 0; i < unreadable; ++i) streams.out.WriteText(report.unreadable[i].message + "\n");
  if (report.unreadable_lines > unreadable) {
    streams.out.Write(fmt::format("{} more lines cannot be read: --json lists up to 10000\n", report.unreadable_lines - unreadable));
  }
  streams.out.WriteText(Summary(path, report));
  for (const std::string& note : report.notes) streams.err.WriteText(fmt::format("haast check: {}\n", note));
}

Json OptionalJson(const std::optional<int64_t>& value) { return value ? Json(*value) : Json(nullptr); }

Json FindingJson(const LaunchFinding& finding) {
  return {{"line", finding.line},
          {"model", finding.model},
          {"mode", finding.mode},
          {"invariant", finding.invariant},
          {"array", finding.array},
          {"index", finding.index < 0 ? Json(nullptr) : Json(finding.index)},
          {"sequence", finding.sequence < 0 ? Json(nullptr) : Json(finding.sequence)},
          {"expected", OptionalJson(finding.expected)},
          {"actual", OptionalJson(finding.actual)},
          {"message", finding.message},
          {"explanation", finding.explanation},
          {"cause", finding.cause.empty() ? Json(nullptr) : Json(finding.cause)},
          {"more", finding.more}};
}

Json ReportJson(const std::string& path, const CheckReport& report) {
  Json json = {{"file", path},
               {"lines", report.lines},
               {"launches", report.launches},
               {"launches_violated", report.launches_violated},
               {"violations", report.violations},
               {"findings", Json::array()},
               {"unreadable_lines", report.unreadable_lines},
               {"unreadable", Json::array()},
               {"notes", report.notes}};
  for (const LaunchFinding& finding : report.findings) json["findings"].push_back(FindingJson(finding));
  for (const UnreadableLine& line : report.unreadable) json["unreadable"].push_back({{"line", line.line}, {"message", line.message}});
  return json;
}

}  // namespace

int RunCheck(const Args& args, Streams& streams) {
  CLI::App app("Checks a dump of launch metadata, one launch a line: every violated invariant, with its numbers and the likely cause.",
               "haast check");
  std::string path;
  bool json = false;
  AddPath(app, "FILE", path, "JSON lines, of --trace-metadata or of another engine (docs/check.md); - reads standard input")->required();
  app.add_flag("--json", json, "print one JSON object");
  app.footer("Exit codes: 0 no violation, 1 violations, 2 wrong flags, 3 the file or a line of it cannot be read, or has no launch.");
  if (const auto code = Parse(app, args, streams.out, streams.err)) return *code;

  const Result<CheckReport> report = CheckPath(path, streams);
  if (!report) return Fail(streams, app, report.error());
  if (!json && report->launches == 0) return Fail(streams, app, NoLaunches(path, *report));
  if (json) {
    streams.out.Write(Dump(ReportJson(path, *report)));
  } else {
    WriteText(path, *report, streams);
  }
  const int code = report->unreadable_lines > 0 || report->launches == 0 ? kExitFile : report->violations > 0 ? kExitRuntime : kExitOk;
  return FinishOutput(streams, "check", code);
}

}  // namespace haast::cli
