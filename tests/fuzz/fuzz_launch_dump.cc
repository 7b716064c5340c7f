// Any bytes as a dump of launch metadata.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "attention/dump_checker.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  haast::attention::DumpChecker checker({.findings_each = 2, .max_findings = 100});
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const haast::Status read = haast::io::ForEachJsonLine(text, "fuzz", int64_t{1} << 20, [&](const haast::io::JsonLine& line) {
    checker.CheckLine(line);
    return haast::Status();
  });
  HAAST_CHECK(read.has_value());
  const haast::CheckReport& report = checker.report();
  HAAST_CHECK(report.launches + report.unreadable_lines <= report.lines) << report.lines;
  HAAST_CHECK((report.violations == 0) == (report.launches_violated == 0)) << report.violations;
  for (const haast::LaunchFinding& finding : report.findings) HAAST_CHECK(!finding.message.empty()) << finding.invariant;
  return 0;
}
