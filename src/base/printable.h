// Text from files and other programs, made fit for messages and terminals.
#pragma once

#include <string>
#include <string_view>

namespace haast::base {

// `text` with control characters other than newline and tab replaced by U+FFFD. C1 controls (U+0080 to U+009F) count.
std::string WithoutControls(std::string_view text);

// A name or value inside a message: one line without controls, of at most 80 characters; a longer one ends in an ellipsis.
std::string Label(std::string_view text);

// `text` without the byte-order mark that some editors put before UTF-8.
std::string_view WithoutByteOrderMark(std::string_view text);

}  // namespace haast::base
