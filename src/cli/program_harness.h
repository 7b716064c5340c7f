// Runs commands inside the test, on a tiny model, with files for streams.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

// A command a call, on one set of tiny files.
class ProgramTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { files_ = new TinyFiles(); }
  static void TearDownTestSuite() {
    delete files_;
    files_ = nullptr;
  }

  static Ran Haast(const Args& args, const std::string& input = "") { return RunHaast(files_->dir, args, input); }
  static Ran Generate(const Args& more, const std::string& input = "");
  static nlohmann::json GenerateJson(const Args& more);
  static void ExpectError(const Ran& ran, int code, const std::string& message);
  // A file of that name with that text; its path.
  static std::string Write(const std::string& name, const std::string& text);

  static TinyFiles* files_;
};

}  // namespace haast::cli::testing
