// Streams an answer to the terminal or a pipe.
#pragma once

#include "cli/generator.h"
#include "cli/output.h"

namespace haast::cli {

class AnswerPrinter {
 public:
  // Both outlive this object. `show_drafts` marks every token (draft_view.h).
  AnswerPrinter(Output& out, const Generator& generator, bool show_drafts);

  // An AnswerSink: false once the output cannot be written any more. The last event of an answer ends its line.
  bool Show(const Event& event, const StepText& text);

 private:
  std::string Plain(const StepText& text) const;
  std::string Painted(const Event& event, const StepText& text) const;

  Output& out_;
  const Generator& generator_;
  const bool show_drafts_;
  bool line_open_ = false;
};

}  // namespace haast::cli
