// Ctrl-C as a question to ask, where ending the program at once would lose the answer so far.
#pragma once

namespace haast::cli {

// While it lives, SIGINT and SIGTERM set a flag and interrupt blocking reads; a second one before Clear ends the program
// as usual. One at a time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // A signal came since the start or the last Clear.
  static bool Interrupted();
  static void Clear();
};

// A reader that closes its end gives a failed write instead of a signal.
void IgnoreSigpipe();

}  // namespace haast::cli
