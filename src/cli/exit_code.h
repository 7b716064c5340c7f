// Exit codes of every command (docs/cli.md).
#pragma once

#include "haast/result.h"

namespace haast::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitRuntime = 1,       // the request, the run or the output failed; `--compare` and `bench` found different tokens; `check` violations
  kExitUsage = 2,         // flags or prompt are not valid
  kExitFile = 3,          // a model, head, prompt or other file cannot be used
  kExitInterrupted = 130  // Ctrl-C ended the answer
};

inline int ExitCodeOf(const Error& error) {
  switch (error.code) {
    case ErrorCode::kInvalidArgument: return kExitUsage;
    case ErrorCode::kNotFound:
    case ErrorCode::kInvalidFile:
    case ErrorCode::kUnsupported:
    case ErrorCode::kIo: return kExitFile;
    case ErrorCode::kOutOfMemory: return kExitRuntime;
    case ErrorCode::kCancelled: return kExitInterrupted;
  }
  return kExitRuntime;
}

}  // namespace haast::cli
