// Exit codes of every command (docs/cli.md).
#pragma once

#include <csignal>

#include "cli/interrupt.h"
#include "haast/result.h"

namespace haast::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitRuntime = 1,  // the request, the run or the output failed; `--compare` and `bench` found different tokens; `check` violations
  kExitUsage = 2,    // flags or prompt are not valid
  kExitFile = 3      // a model, head, prompt or other file cannot be used
};

// As a shell reports a program that the signal ended: 130 for Ctrl-C, 143 for SIGTERM.
inline int ExitCodeOfSignal(int signal) { return 128 + signal; }

inline int ExitCodeOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument: return kExitUsage;
    case ErrorCode::kNotFound:
    case ErrorCode::kInvalidFile:
    case ErrorCode::kUnsupported:
    case ErrorCode::kIo: return kExitFile;
    case ErrorCode::kOutOfMemory: return kExitRuntime;
    case ErrorCode::kCancelled: return ExitCodeOfSignal(InterruptScope::Interrupted() ? InterruptScope::Signal() : SIGINT);
  }
  return kExitRuntime;
}

}  // namespace haast::cli
