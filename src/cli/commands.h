// The commands of the haast program. Each takes its arguments (program and command name left out) and gives an exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/output.h"
#include "haast/result.h"

namespace haast::cli {

using Args = std::vector<std::string>;

int RunGenerate(const Args& args, Streams& streams);
int RunChat(const Args& args, Streams& streams);
int RunBenchCommand(const Args& args, Streams& streams);
int RunInfo(const Args& args, Streams& streams);
int RunDevices(const Args& args, Streams& streams);
int RunFeatures(const Args& args, Streams& streams);
int RunCheck(const Args& args, Streams& streams);

// `arguments` without the program's name: picks the command.
int RunProgram(const Args& arguments, Streams& streams);

// Writes "haast NAME: message" in the words of the command line (error_words.h) and gives the exit code of the error. `app` is the
// command's parser, after Parse.
int Fail(Streams& streams, const CLI::App& app, const Error& error);
// What a command that has printed everything returns: kExitRuntime, with a message unless the reader has gone, where the
// output could not be written.
int FinishOutput(Streams& streams, const char* command, int exit_code);

}  // namespace haast::cli
