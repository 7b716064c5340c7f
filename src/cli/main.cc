#include <fcntl.h>
#include <unistd.h>

#include <exception>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"

namespace {

// A standard stream that was closed before the program began: its number would go to the next file that is opened, and the answer
// into that file. What takes its place can do nothing but fail.
void FillClosedStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1) continue;
    static_cast<void>(open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace haast::cli;
  FillClosedStreams();
  IgnoreWriteSignals();
  Streams streams{Output(STDOUT_FILENO), Output(STDERR_FILENO), STDIN_FILENO, isatty(STDIN_FILENO) == 1};
  try {
    return RunProgram(Args(argv + std::min(argc, 1), argv + argc), streams);
  } catch (const std::bad_alloc&) {
    // The engine reports its own allocations as errors; this is the rest of the program in a machine without memory.
    streams.err.Write("haast: out of memory: close other programs, or lower --context and --kv-tokens\n");
    return kExitRuntime;
  }
}
