#include <array>
#include <cstring>

#include "base/format.h"
#include "cli/commands.h"
#include "cli/error_words.h"
#include "cli/exit_code.h"

namespace haast::cli {
namespace {

struct Command {
  const char* name;
  int (*run)(const Args&, Streams&);
  const char* summary;
};

constexpr std::array kCommands = {
    Command{"generate", RunGenerate, "answer one prompt"},
    Command{"chat", RunChat, "talk with the model"},
    Command{"bench", RunBenchCommand, "measure speed, and what speculation gains on prompt files"},
    Command{"info", RunInfo, "what a model file is, and whether a draft head fits it"},
    Command{"devices", RunDevices, "what this machine offers and what of it is used"},
    Command{"features", RunFeatures, "write what a draft head reads of a model, for training one"},
    Command{"check", RunCheck, "check a dump of launch metadata, of this engine or another"},
};

std::string ProgramHelp() {
  std::string help =
      "haast serves language models with EAGLE speculative decoding, exactly: the same tokens as plain decoding, sooner.\n\n"
      "Usage: haast COMMAND [options]\n\nCommands:\n";
  for (const Command& command : kCommands) help += fmt::format("  {:<10} {}\n", command.name, command.summary);
  return help +
         "\n`haast COMMAND --help` (or `haast help COMMAND`) lists the options of a command; `haast --version` prints the version.\n"
         "Exit codes: 0 done, 1 the run failed or the check found violations, 2 wrong flags, prompt or environment, 3 a file or folder "
         "cannot be used or written, 130 or "
         "143 interrupted.\n";
}

}  // namespace

int RunProgram(const Args& arguments, Streams& streams) {
  if (arguments.empty()) {
    streams.err.Write(ProgramHelp());
    return kExitUsage;
  }
  const std::string& name = arguments[0];
  if (name == "--help" || name == "-h" || name == "help") {
    if (arguments.size() > 1 && !arguments[1].starts_with("-")) return RunProgram({arguments[1], "--help"}, streams);
    streams.out.Write(ProgramHelp());
    return FinishOutput(streams, "help", kExitOk);
  }
  if (name == "--version" || name == "version") {
    streams.out.Write("haast " HAAST_VERSION "\n");
    return FinishOutput(streams, "version", kExitOk);
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(Args(arguments.begin() + 1, arguments.end()), streams);
  }
  std::vector<const char*> names;
  for (const Command& command : kCommands) names.push_back(command.name);
  streams.err.WriteText(fmt::format("haast: expected a command ({}), got '{}'\nSee `haast --help`.\n", fmt::join(names, ", "), name));
  return kExitUsage;
}

int Fail(Streams& streams, const CLI::App& app, const Error& error) {
  streams.err.WriteText(fmt::format("{}: {}\n", app.get_name(), WithPathFlag(app, WithFlagNames(error.message))));
  return ExitCodeOf(error);
}

int FinishOutput(Streams& streams, const char* command, int exit_code) {
  const Status status = streams.out.status();
  if (status) return exit_code;
  if (!streams.out.reader_gone()) streams.err.Write(fmt::format("haast {}: {}\n", command, status.error().message));
  return kExitRuntime;
}

}  // namespace haast::cli
