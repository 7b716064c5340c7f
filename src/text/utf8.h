// UTF-8 as a byte stream: what is whole, what is still missing, and U+FFFD for what can never become a character.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace haast::text {

// U+FFFD REPLACEMENT CHARACTER.
inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

// True where `bytes` is well-formed UTF-8 (no overlong form, no surrogate, nothing above U+10FFFF).
bool IsValidUtf8(std::string_view bytes);

// `bytes` with every maximal ill-formed part replaced by one U+FFFD (Unicode 15, section 3.9, "U+FFFD substitution of
// maximal subparts"; the rule of Rust's from_utf8_lossy, of browsers, and so of Hugging Face's byte-level decoder).
std::string ToValidUtf8(std::string_view bytes);

// The same rule over a stream that arrives in pieces: the concatenation of all Push results and Finish equals
// ToValidUtf8 of the concatenated input. Holds at most three bytes. A copy is an independent stream.
class Utf8Stream {
 public:
  // Appends to `out` the text that has become certain.
  void Push(std::string_view bytes, std::string* out);
  // Ends the stream: an unfinished character becomes one U+FFFD. The stream is empty afterwards.
  void Finish(std::string* out);
  size_t pending() const { return pending_size_; }

 private:
  std::array<char, 3> pending_{};
  size_t pending_size_ = 0;
};

}  // namespace haast::text
