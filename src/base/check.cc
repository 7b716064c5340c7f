#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace haast::base {

CheckFailure::CheckFailure(const char* file, int line, const char* condition) {
  message_ << file << ':' << line << ": bug: check failed: " << condition << ' ';
}

CheckFailure::~CheckFailure() {
  message_ << '\n';
  const std::string text = message_.str();
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::abort();
}

}  // namespace haast::base
