// Runs commands inside the test, on a tiny model, with files for streams.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "support/tiny_models.h"

namespace haast::cli::testing {

struct Ran {
  int code = 0;
  std::string out;
  std::string err;
  nlohmann::json json() const { return nlohmann::json::parse(out, nullptr, /*allow_exceptions=*/false); }
};

std::string ReadFile(const std::string& path);

// A tiny model that likes to repeat itself and a head that guesses so: most drafts are accepted. And a second head that
// fits another model.
class TinyFiles {
 public:
  TinyFiles();

  haast::testing::TempDir dir;
  std::string model;
  std::string head;
  std::string other_head;

  // Flags of model, head and one thread.
  // Three drafts a round: for so small a model the engine itself would choose none.
  Args Flags() const { return {"--model", model, "--draft", head, "--threads", "1", "--kv-tokens", "4096", "--num-draft-tokens", "3"}; }
};

// `command` and `flags` and `more`, with `input` on standard input.
Ran RunHaast(const haast::testing::TempDir& dir, const Args& args, const std::string& input = "");

Args operator+(Args a, const Args& b);

}  // namespace haast::cli::testing
