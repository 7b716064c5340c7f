// The front door's part of a saved request: what the engine does not know.
#pragma once

#include <string>
#include <vector>

#include "haast/event.h"
#include "haast/result.h"

namespace haast::cli {

struct SessionNote {
  std::vector<std::string> stops;
  std::vector<TokenOutput> prompt;   // logprobs of the prompt, where they were asked for and are known
  std::vector<TokenOutput> outputs;  // of the tokens so far
};

std::string WriteNote(const SessionNote& note);
// kInvalidFile names `path`, the file the note came from.
Result<SessionNote> ReadNote(const std::string& text, const std::string& path);

}  // namespace haast::cli
