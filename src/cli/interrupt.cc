#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

namespace haast::cli {
namespace {

// Signal handlers have no other way to reach the program: set here only, read through InterruptScope only.
std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free);

void OnSignal(int signal) {
  if (interrupted.exchange(true)) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
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
  interrupted = false;
  Install(OnSignal);
}

InterruptScope::~InterruptScope() { Install(SIG_DFL); }

bool InterruptScope::Interrupted() { return interrupted; }
void InterruptScope::Clear() { interrupted = false; }

void IgnoreSigpipe() { std::signal(SIGPIPE, SIG_IGN); }

}  // namespace haast::cli
