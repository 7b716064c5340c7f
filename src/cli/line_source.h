// Lines a user types: edited on a terminal, read as they are from a pipe or file.
#pragma once

#include <memory>
#include <string>

#include "cli/output.h"
#include "haast/result.h"

namespace haast::cli {

enum class LineKind { kLine, kEnd, kInterrupted };

struct Line {
  LineKind kind;
  std::string text;  // kLine: without its line break
};

class LineSource {
 public:
  virtual ~LineSource() = default;
  // kIo where the lines cannot be read, kInvalidArgument above kMaxPromptBytes (prompt_input.h).
  virtual Result<Line> Next() = 0;
};

// Line by line from `fd`; the last line needs no line break.
std::unique_ptr<LineSource> MakePlainSource(int fd);

// A terminal with libedit: cursor keys, history across runs in `history_file` (its folder is made; a file that cannot be
// read or written costs one message on `err` and nothing else). Standard input and output are used.
std::unique_ptr<LineSource> MakeEditedSource(std::string prompt, std::string history_file, Output& err);

}  // namespace haast::cli
