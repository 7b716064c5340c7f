// Prompts from the command line, files and standard input.
#pragma once

#include <string>
#include <vector>

#include "haast/result.h"

namespace haast::cli {

// Longest prompt and prompt file that is read; the tokenizer refuses longer texts anyway.
inline constexpr size_t kMaxPromptBytes = size_t{16} << 20;

// Everything `fd` gives. `name` is for messages. Errors: kIo, and kInvalidArgument above kMaxPromptBytes.
Result<std::string> ReadAll(int fd, const std::string& name);
// The same of a file; a folder or an unreadable file is kIo, a missing one kNotFound.
Result<std::string> ReadTextFile(const std::string& path);

// kInvalidArgument where the text is empty or not UTF-8 (with the offset of the first bad byte).
Status CheckPrompt(const std::string& text, const std::string& name);

// One conversation to answer in a benchmark: the first user turn is used.
struct BenchPrompt {
  std::string first_turn;
};

// A JSON Lines file of objects with "turns": [string, ...] (other keys are ignored; blank lines too), the first `limit`
// (0: all). Errors: kInvalidFile with file, line, what was expected and found.
Result<std::vector<BenchPrompt>> ReadBenchPrompts(const std::string& path, int64_t limit);
Result<std::vector<BenchPrompt>> ParseBenchPrompts(const std::string& text, const std::string& path, int64_t limit);

}  // namespace haast::cli
