// What the C ABI of the Rust library hands out, owned and translated.
#pragma once

#include <string>
#include <string_view>

#include "base/format.h"
#include "haast/result.h"
#include "text/rust/haast_text.h"

namespace haast::text {

inline haast_slice ToSlice(std::string_view text) { return {reinterpret_cast<const uint8_t*>(text.data()), text.size()}; }

inline std::string_view ToView(const haast_bytes& bytes) { return {reinterpret_cast<const char*>(bytes.data), bytes.size}; }

// The error of a failed call; frees `message`. `source` is the path that messages name where the file or its use is at fault.
inline tl::unexpected<Error> RustError(haast_text_status status, haast_bytes message, std::string_view source) {
  ErrorCode code = ErrorCode::kInvalidFile;
  switch (status) {
    case HAAST_TEXT_INVALID_ARGUMENT:
    case HAAST_TEXT_LIMIT: code = ErrorCode::kInvalidArgument; break;
    case HAAST_TEXT_UNSUPPORTED: code = ErrorCode::kUnsupported; break;
    case HAAST_TEXT_RESOURCE: code = ErrorCode::kOutOfMemory; break;
    default: break;
  }
  auto error = code == ErrorCode::kOutOfMemory ? Err(code, "{}", ToView(message)) : Err(code, "{}: {}", source, ToView(message));
  haast_bytes_free(message);
  return error;
}

// The same where only a file was read: nobody's argument is wrong.
inline tl::unexpected<Error> LoadError(haast_text_status status, haast_bytes message, std::string_view source) {
  auto error = RustError(status, message, source);
  if (error.value().code == ErrorCode::kInvalidArgument) error.value().code = ErrorCode::kInvalidFile;
  return error;
}

}  // namespace haast::text
