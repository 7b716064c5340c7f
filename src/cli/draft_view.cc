#include "cli/draft_view.h"

#include "base/check.h"

namespace haast::cli {
namespace {

struct Style {
  std::string_view begin;
  std::string_view end;
};

Style StyleOf(Mark mark, bool colour) {
  switch (mark) {
    case Mark::kTarget: return colour ? Style{"\x1b[1m", "\x1b[0m"} : Style{"", ""};
    case Mark::kAccepted: return colour ? Style{"\x1b[32m", "\x1b[0m"} : Style{"{", "}"};
    case Mark::kRejected: return colour ? Style{"\x1b[9;31m", "\x1b[0m"} : Style{"[-", "-]"};
  }
  return {"", ""};
}

std::string OnOneLine(std::string_view text) {
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace

std::vector<Segment> DraftSegments(const Event& event, const std::vector<std::string>& pieces, const std::vector<std::string>& rejected) {
  HAAST_CHECK(pieces.size() == event.tokens.size()) << pieces.size() << " texts of " << event.tokens.size() << " tokens";
  std::vector<Segment> segments;
  size_t next = 0;
  for (; next < event.tokens.size() && event.tokens[next].from_draft; ++next) segments.push_back({Mark::kAccepted, pieces[next]});
  if (next < event.tokens.size()) {
    for (const std::string& text : rejected) segments.push_back({Mark::kRejected, text});
  }
  for (; next < event.tokens.size(); ++next) segments.push_back({Mark::kTarget, pieces[next]});
  return segments;
}

std::string Paint(const std::vector<Segment>& segments, bool colour) {
  std::string painted;
  for (const Segment& segment : segments) {
    if (segment.text.empty()) continue;
    const Style style = StyleOf(segment.mark, colour);
    painted += style.begin;
    painted += segment.mark == Mark::kRejected ? OnOneLine(segment.text) : segment.text;
    painted += style.end;
  }
  return painted;
}

std::string DraftLegend(bool colour) {
  return Paint({{Mark::kAccepted, "accepted draft"}}, colour) + " " + Paint({{Mark::kRejected, "rejected draft"}}, colour) + " " +
         Paint({{Mark::kTarget, "the model's own token"}}, colour);
}

}  // namespace haast::cli
