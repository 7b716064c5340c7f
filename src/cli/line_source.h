// Lines a user types: edited on a terminal, read as they are from a pipe or file.
#pragma once

#include <memory>
#include <string>

#include "cli/output.h"

namespace haast::cli {

enum class LineKind { kLine, kEnd, kInterrupted, kFailed };

struct Line {
  LineKind kind;
  std::string text;  // kLine: without its line break; kFailed: what went wrong
};

class LineSource {
 public:
  virtual ~LineSource() = default;
  virtual Line Next() = 0;
};

// Line by line from `fd`; the last line needs no line break. A line above kMaxPromptBytes (prompt_input.h) is kFailed.
std::unique_ptr<LineSource> MakePlainSource(int fd);

// A terminal with libedit: cursor keys, history across runs in `history_file` (its folder is made; a file that cannot be
// read or written costs one message on `err` and nothing else). Standard input and output are used.
std::unique_ptr<LineSource> MakeEditedSource(std::string prompt, std::string history_file, Output& err);

}  // namespace haast::cli
