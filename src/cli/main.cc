#include <unistd.h>

#include <exception>

#include "cli/commands.h"
#include "cli/exit_code.h"
#include "cli/interrupt.h"

int main(int argc, char** argv) {
  using namespace haast::cli;
  IgnoreSigpipe();
  Streams streams{Output(STDOUT_FILENO), Output(STDERR_FILENO), STDIN_FILENO, isatty(STDIN_FILENO) == 1};
  try {
    return RunProgram(Args(argv + std::min(argc, 1), argv + argc), streams);
  } catch (const std::bad_alloc&) {
    // The engine reports its own allocations as errors; this is the rest of the program in a machine without memory.
    streams.err.Write("haast: out of memory: close other programs, or lower --context and --kv-tokens\n");
    return kExitRuntime;
  }
}
