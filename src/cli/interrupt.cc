#include "cli/interrupt.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

namespace haast::cli {
namespace {

// Signal handlers have no other way to reach the program: set here only, read through InterruptScope only.
std::atomic<int> received{0};
std::atomic<int> wake_fd{-1};  // readable once `received` is set
static_assert(std::atomic<int>::is_always_lock_free);

void OnSignal(int signal) {
  int none = 0;
  if (!received.compare_exchange_strong(none, signal)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  const int kept = errno;
  const uint64_t one = 1;
  if (write(wake_fd, &one, sizeof(one)) < 0) {
    // Already readable, which is all that is asked of it.
  }
  errno = kept;
}

void Install(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;  // no SA_RESTART: a read of the next line returns
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace

InterruptScope::InterruptScope() {
  received = 0;
  wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  Install(OnSignal);
}

InterruptScope::~InterruptScope() {
  Install(SIG_DFL);
  close(wake_fd.exchange(-1));
}

int InterruptScope::Signal() { return received; }

// The flag first: a signal between the two steps leaves the flag set, which WaitReadable asks before it waits.
void InterruptScope::Clear() {
  received = 0;
  uint64_t count;
  if (read(wake_fd, &count, sizeof(count)) < 0) {
    // Nothing came.
  }
}

bool InterruptScope::WaitReadable(int fd) {
  while (!Interrupted()) {
    pollfd ready[] = {{.fd = fd, .events = POLLIN, .revents = 0}, {.fd = wake_fd, .events = POLLIN, .revents = 0}};
    if (poll(ready, 2, -1) < 0 && errno != EINTR) return true;  // the read will say what is wrong
    if (ready[0].revents != 0) return true;
  }
  return false;
}

void IgnoreWriteSignals() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
}

}  // namespace haast::cli
