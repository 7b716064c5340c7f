// Expected failures are values: a file that cannot be read, a request that cannot be served.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace haast {

// What kind of failure; the message carries the path, what was expected, what was found and the remedy.
enum class ErrorCode {
  kInvalidArgument,  // a parameter or request field is out of range
  kNotFound,         // a file, tensor or key is missing
  kInvalidFile,      // the bytes do not follow their format
  kUnsupported,      // well-formed, but not something this build can serve
  kOutOfMemory,      // memory or KV pages are exhausted
  kIo,               // the operating system refused
  kCancelled,        // the request was cancelled
};

struct Error {
  ErrorCode code;
  std::string message;
};

template <typename T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;

inline tl::unexpected<Error> MakeError(ErrorCode code, std::string message) { return tl::make_unexpected(Error{code, std::move(message)}); }

}  // namespace haast

// Evaluates an expression that gives a Result; returns its error, or binds its value to `lhs`.
#define HAAST_CONCAT_INNER(a, b) a##b
#define HAAST_CONCAT(a, b) HAAST_CONCAT_INNER(a, b)
#define HAAST_ASSIGN_OR_RETURN(lhs, expr) HAAST_ASSIGN_OR_RETURN_IMPL(HAAST_CONCAT(haast_result_, __LINE__), lhs, expr)
#define HAAST_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)               \
  auto tmp = (expr);                                              \
  if (!tmp) return ::tl::make_unexpected(std::move(tmp).error()); \
  lhs = std::move(*tmp)
#define HAAST_RETURN_IF_ERROR(expr)                                                                               \
  do {                                                                                                            \
    if (auto haast_status = (expr); !haast_status) return ::tl::make_unexpected(std::move(haast_status).error()); \
  } while (0)
