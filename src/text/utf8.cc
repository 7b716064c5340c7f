#include "text/utf8.h"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace haast::text {
namespace {

// How a well-formed sequence goes on after its first byte (Unicode 15, table 3-7).
struct Lead {
  size_t length;  // of the whole sequence; 0: no sequence begins with this byte
  uint8_t second_low;
  uint8_t second_high;
};

Lead LeadOf(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

enum class Part { kWhole, kIllFormed, kUnfinished };

// The part at the start of non-empty `bytes`: a whole character, a maximal ill-formed part, or all that is left of `bytes`
// and could still become a character.
std::pair<Part, size_t> NextPart(std::string_view bytes) {
  const Lead lead = LeadOf(static_cast<uint8_t>(bytes[0]));
  if (lead.length == 0) return {Part::kIllFormed, 1};
  for (size_t i = 1; i < lead.length; ++i) {
    if (i == bytes.size()) return {Part::kUnfinished, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    const uint8_t low = i == 1 ? lead.second_low : 0x80;
    const uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Part::kIllFormed, i};
  }
  return {Part::kWhole, lead.length};
}

// Appends the text of `bytes` to `out`; returns the length of an unfinished character at its end.
size_t AppendCertain(std::string_view bytes, std::string* out) {
  size_t copied = 0;
  for (size_t at = 0; at < bytes.size();) {
    const auto [part, length] = NextPart(bytes.substr(at));
    if (part != Part::kWhole) {
      out->append(bytes.substr(copied, at - copied));
      copied = at + length;
    }
    if (part == Part::kUnfinished) return length;
    if (part == Part::kIllFormed) out->append(kReplacement);
    at += length;
  }
  out->append(bytes.substr(copied));
  return 0;
}

}  // namespace

bool IsValidUtf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto [part, length] = NextPart(bytes);
    if (part != Part::kWhole) return false;
    bytes.remove_prefix(length);
  }
  return true;
}

std::string ToValidUtf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  if (AppendCertain(bytes, &out) > 0) out.append(kReplacement);
  return out;
}

void Utf8Stream::Push(std::string_view bytes, std::string* out) {
  // Finish the pending character one byte at a time: what follows it may be cut anywhere.
  while (pending_size_ > 0 && !bytes.empty()) {
    std::array<char, 4> joined{};
    std::copy_n(pending_.begin(), pending_size_, joined.begin());
    joined[pending_size_] = bytes[0];
    const auto [part, length] = NextPart({joined.data(), pending_size_ + 1});
    if (part == Part::kIllFormed) {
      // The pending bytes end here; the new byte begins something of its own.
      out->append(kReplacement);
      pending_size_ = 0;
      break;
    }
    bytes.remove_prefix(1);
    if (part == Part::kWhole) {
      out->append(joined.data(), length);
      pending_size_ = 0;
    } else {
      pending_[pending_size_] = joined[pending_size_];
      ++pending_size_;
    }
  }
  if (pending_size_ > 0) return;
  pending_size_ = AppendCertain(bytes, out);
  std::copy_n(bytes.end() - static_cast<ptrdiff_t>(pending_size_), pending_size_, pending_.begin());
}

void Utf8Stream::Finish(std::string* out) {
  if (pending_size_ > 0) out->append(kReplacement);
  pending_size_ = 0;
}

}  // namespace haast::text
