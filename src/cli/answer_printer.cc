#include "cli/answer_printer.h"

#include "base/printable.h"
#include "cli/draft_view.h"

namespace haast::cli {

AnswerPrinter::AnswerPrinter(Output& out, const Generator& generator, bool show_drafts)
    : out_(out), generator_(generator), show_drafts_(show_drafts) {}

bool AnswerPrinter::Show(const Event& event, const StepText& text) {
  std::string shown = show_drafts_ ? Painted(event, text) : Plain(text);
  if (!shown.empty()) line_open_ = shown.back() != '\n';
  if (event.finish != FinishReason::kNone && line_open_) {
    shown += '\n';
    line_open_ = false;
  }
  return out_.Write(shown);
}

std::string AnswerPrinter::Plain(const StepText& text) const {
  std::string all;
  for (const std::string& piece : text.pieces) all += piece;
  all += text.tail;
  return out_.is_terminal() ? base::WithoutControls(all) : all;
}

std::string AnswerPrinter::Painted(const Event& event, const StepText& text) const {
  std::vector<std::string> rejected;
  // Of a chain all that came after the accepted ones; of a tree those that the bonus token was drawn instead of.
  const int32_t last = event.accepted.empty() ? -1 : event.accepted.back();
  for (size_t i = 0; i < event.drafts.size(); ++i) {
    const bool shown = event.parents.empty() ? static_cast<int>(i) >= event.num_accepted : event.parents[i] == last;
    if (shown) rejected.push_back(generator_.TokenText(event.drafts[i]));
  }
  std::vector<Segment> segments = DraftSegments(event, text.pieces, rejected);
  segments.push_back({Mark::kTarget, text.tail});
  if (out_.is_terminal()) {
    for (Segment& segment : segments) segment.text = base::WithoutControls(segment.text);
  }
  return Paint(segments, out_.colour());
}

}  // namespace haast::cli
