#include "base/printable.h"

namespace haast::base {
namespace {

constexpr size_t kLabelCharacters = 80;

std::string Replaced(std::string_view text, std::string_view allowed) {
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string clean;
  clean.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool c1 = byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    const bool c0 = (byte < 0x20 && allowed.find(text[i]) == std::string_view::npos) || byte == 0x7F;
    if (c0 || c1) {
      clean += kReplacement;
      i += c1 ? 1 : 0;
    } else {
      clean += text[i];
    }
  }
  return clean;
}

}  // namespace

std::string WithoutControls(std::string_view text) { return Replaced(text, "\n\t"); }

std::string Label(std::string_view text) {
  size_t characters = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool begins_one = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins_one && ++characters > kLabelCharacters) return Replaced(text.substr(0, i), "") + "…";
    if (i >= 4 * kLabelCharacters) return Replaced(text.substr(0, i), "") + "…";  // bytes that are no UTF-8
  }
  return Replaced(text, "");
}

std::string_view WithoutByteOrderMark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

}  // namespace haast::base
