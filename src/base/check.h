// HAAST_CHECK: for bugs in this program only. Never reachable from a file, a request or a socket: those give a Result.
#pragma once

#include <sstream>

namespace haast::base {

// Collects the message of a failed check and aborts when it goes out of scope.
class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition);
  [[noreturn]] ~CheckFailure();
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

struct VoidifyStream {
  void operator&(std::ostream&) {}
};

}  // namespace haast::base

#define HAAST_CHECK(condition) \
  (condition) ? (void)0 : ::haast::base::VoidifyStream() & ::haast::base::CheckFailure(__FILE__, __LINE__, #condition).stream()
