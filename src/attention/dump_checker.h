// Checks launches one line at a time and remembers what came before, for the likely causes.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "attention/diagnosis.h"
#include "haast/check.h"

namespace haast::attention {

class DumpChecker {
 public:
  DumpChecker(std::string name, const CheckOptions& options) : name_(std::move(name)), options_(options) {}

  // The next line of the dump; blank ones are skipped.
  void CheckLine(std::string_view line);
  // The next line was longer than the options allow.
  void LineTooLong();

  CheckReport& report() { return report_; }

 private:
  void AddFindings(const LaunchDump& dump, const Findings& findings);
  void AddUnreadable(std::string message);
  void NoteUnknownFields(const LaunchDump& dump);
  void Remember(std::shared_ptr<const LaunchDump> dump);

  std::string name_;
  CheckOptions options_;
  CheckReport report_;
  std::vector<EarlierLaunch> earlier_;  // the nearest first, at most kRemembered
  std::set<std::string> noted_;
};

}  // namespace haast::attention
