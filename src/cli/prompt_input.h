// Prompts from the command line, files and standard input.
#pragma once

#include <string>
#include <vector>

#include "haast/result.h"

namespace haast::cli {

// Longest prompt and prompt file that is read; the tokenizer refuses longer texts anyway.
inline constexpr size_t kMaxPromptBytes = size_t{16} << 20;

// kIo after a read of `name` that failed, with errno.
tl::unexpected<Error> CannotRead(const std::string& name);

// Everything `fd` gives. `name` is for messages. Errors: kIo, and `too_long` above kMaxPromptBytes: kInvalidArgument of a prompt, which no
// model can answer, kInvalidFile of another file.
Result<std::string> ReadAll(int fd, const std::string& name, ErrorCode too_long);
// The same of a file or a FIFO; a folder or an unreadable file is kIo, a missing one kNotFound.
Result<std::string> ReadTextFile(const std::string& path, ErrorCode too_long);

// kInvalidArgument where the text is empty or not UTF-8 (with the offset of the first bad byte).
Status CheckPrompt(const std::string& text, const std::string& name);

// One conversation to answer in a benchmark: the first user turn is used.
struct BenchPrompt {
  std::string first_turn;
  std::string where;  // "PATH:LINE", for messages
};

// A JSON Lines file of objects with "turns": [string, ...] (other keys are ignored; blank lines too), the first `limit`
// (0: all). Errors: kInvalidFile with file, line, what was expected and found.
Result<std::vector<BenchPrompt>> ReadBenchPrompts(const std::string& path, int64_t limit);
Result<std::vector<BenchPrompt>> ParseBenchPrompts(const std::string& text, const std::string& path, int64_t limit);

}  // namespace haast::cli
