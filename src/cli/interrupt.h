// Ctrl-C and SIGTERM as a question to ask, where ending the program at once would lose the answer so far.
#pragma once

namespace haast::cli {

// While it lives, SIGINT and SIGTERM set a flag and end WaitReadable; a second one before Clear ends the program as usual. One at a
// time.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  // The signal that came since the start or the last Clear, the first of several; 0: none.
  static int Signal();
  static bool Interrupted() { return Signal() != 0; }
  static void Clear();
  // Blocks until a read of `fd` would not block (true) or a signal has come (false), be it before the call or on another thread: a plain
  // read would sleep through both.
  static bool WaitReadable(int fd);
};

// A reader that closes its end, or a file at the limit of its size, gives a failed write instead of a signal.
void IgnoreWriteSignals();

}  // namespace haast::cli
