// Checks dumps of launch metadata, this engine's or another's, with the invariants that the engine holds its own launches to.
// The format and every invariant are described in docs/check.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "haast/result.h"

namespace haast {

// One violated invariant of one launch.
struct LaunchFinding {
  int64_t line = 0;       // of the file, from 1
  std::string model;      // whose launch, as the file says
  std::string mode;       // "draft_extend", ...
  std::string invariant;  // its name in docs/check.md
  std::string array;      // the array or field at fault
  int64_t index = -1;     // in that array; -1: all of it, or a single number
  int64_t sequence = -1;  // -1: the launch
  std::optional<int64_t> expected;
  std::optional<int64_t> actual;
  std::string message;      // the numbers in a sentence
  std::string explanation;  // what the invariant says and what a kernel does without it
  std::string cause;        // the likely cause; empty where the numbers point to none
  int64_t more = 0;         // further violations of this invariant by this array in this launch, counted only
};

// A line that is not the metadata of a launch.
struct UnreadableLine {
  int64_t line = 0;
  std::string message;
};

struct CheckReport {
  int64_t lines = 0;
  int64_t launches = 0;
  int64_t launches_violated = 0;
  int64_t violations = 0;
  std::vector<LaunchFinding> findings;  // at most CheckOptions::max_findings
  int64_t unreadable_lines = 0;
  std::vector<UnreadableLine> unreadable;  // at most CheckOptions::max_findings
  std::vector<std::string> notes;          // unknown fields, each once
};

struct CheckOptions {
  int64_t findings_each = 4;  // kept of one invariant and array of a launch
  int64_t max_findings = 10000;
  int64_t max_line_bytes = int64_t{64} << 20;
};

// Reads `fd` to its end, line by line, in bounded memory; `name` begins the messages. Lines that cannot be read are in the
// report. Errors: kIo where reading fails, kInvalidFile where there is not one line.
Result<CheckReport> CheckMetadata(int fd, const std::string& name, const CheckOptions& options = {});

}  // namespace haast
