// Checks launches one line at a time and remembers what came before, for the likely causes.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "attention/diagnosis.h"
#include "haast/check.h"
#include "io/json_lines.h"

namespace haast::attention {

class DumpChecker {
 public:
  explicit DumpChecker(const CheckOptions& options) : options_(options) {}

  // The next line of the dump that is not blank.
  void CheckLine(const io::JsonLine& line);

  CheckReport& report() { return report_; }

 private:
  void AddFindings(const LaunchDump& dump, const Findings& findings, int64_t line);
  void AddUnreadable(const io::JsonLine& line, std::string message);
  void NoteUnknownFields(const LaunchDump& dump, const std::string& where);
  void Remember(std::shared_ptr<const LaunchDump> dump, int64_t line);

  CheckOptions options_;
  CheckReport report_;
  std::vector<EarlierLaunch> earlier_;  // the nearest first, at most kRemembered
  std::set<std::string> noted_;
};

}  // namespace haast::attention
