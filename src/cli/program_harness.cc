#include "cli/program_harness.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "cli/exit_code.h"

namespace haast::cli::testing {

std::string ReadFile(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TinyFiles::TinyFiles() {
  haast::testing::TinyLlama llama;
  llama.tied = true;
  llama.layer_scale = 0.05f;
  llama.vocabulary = true;
  llama.max_context = 512;
  model = haast::testing::WriteTinyGguf(llama, dir.Join("model.gguf"));
  haast::testing::TinyEagle3 echo;
  echo.target = llama;
  echo.echo = true;
  head = haast::testing::WriteTinyEagle3(echo, dir.Join("head"));
  haast::testing::TinyEagle3 other;
  other.target = llama;
  other.target.hidden = 96;
  other.hidden = 96;
  other_head = haast::testing::WriteTinyEagle3(other, dir.Join("other_head"));
}

Ran RunHaast(const haast::testing::TempDir& dir, const Args& args, const std::string& input) {
  const std::string in_path = dir.Join("stdin");
  const std::string out_path = dir.Join("stdout");
  const std::string err_path = dir.Join("stderr");
  std::ofstream(in_path, std::ios::binary) << input;
  const int in = open(in_path.c_str(), O_RDONLY);
  const int out = open(out_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err = open(err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  Streams streams{Output(out), Output(err), in, /*in_is_terminal=*/false};
  Ran ran;
  ran.code = RunProgram(args, streams);
  for (const int fd : {in, out, err}) close(fd);
  ran.out = ReadFile(out_path);
  ran.err = ReadFile(err_path);
  return ran;
}

Args operator+(Args a, const Args& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

TinyFiles* ProgramTest::files_ = nullptr;

Ran ProgramTest::Generate(const Args& more, const std::string& input) {
  return Haast(Args{"generate"} + files_->Flags() + Args{"--max-tokens", "40", "--ignore-eos"} + more, input);
}

nlohmann::json ProgramTest::GenerateJson(const Args& more) {
  const Ran ran = Generate(Args{"--json"} + more);
  EXPECT_EQ(ran.code, kExitOk) << ran.err;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 1) << ran.out;
  return ran.json();
}

void ProgramTest::ExpectError(const Ran& ran, int code, const std::string& message) {
  EXPECT_EQ(ran.code, code) << ran.err;
  EXPECT_THAT(ran.err, ::testing::HasSubstr(message));
  EXPECT_EQ(ran.out, "");
}

std::string ProgramTest::Write(const std::string& name, const std::string& text) {
  std::ofstream(files_->dir.Join(name), std::ios::binary) << text;
  return files_->dir.Join(name);
}

}  // namespace haast::cli::testing
