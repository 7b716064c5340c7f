// --show-drafts: which tokens were drafted and accepted, drafted and rejected, or drawn by the model itself.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "haast/event.h"

namespace haast::cli {

enum class Mark {
  kTarget,    // drawn by the model: plain decoding, or the bonus token of a round. Bold
  kAccepted,  // green; without colour {so}
  kRejected   // red and struck through; without colour [-so-]
};

struct Segment {
  Mark mark;
  std::string text;
  bool operator==(const Segment&) const = default;
};

// `pieces`: the text of each of event.tokens. `rejected`: the texts of drafts that were not accepted. The
// rejected drafts stand where they were drafted, before the bonus token. Drafts after the end of an answer were never
// judged and are left out.
std::vector<Segment> DraftSegments(const Event& event, const std::vector<std::string>& pieces, const std::vector<std::string>& rejected);

// Empty segments give nothing. Line breaks of rejected text are written as \n, so that it stays where it stood.
std::string Paint(const std::vector<Segment>& segments, bool colour);

// One line that explains the marks.
std::string DraftLegend(bool colour);

}  // namespace haast::cli
