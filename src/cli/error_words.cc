#include "cli/error_words.h"

#include <algorithm>

namespace haast::cli {
namespace {

// What belongs to a word, path or quotation. A colon too: the engine's fields have none after them, a path has.
bool InWord(char c) {
  constexpr std::string_view kJoining = "_./-~:'\"`";
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || kJoining.find(c) != std::string_view::npos ||
         static_cast<unsigned char>(c) >= 0x80;
}

std::string_view FlagOf(std::string_view word) {
  const auto* const found = std::find_if(kFieldFlags.begin(), kFieldFlags.end(), [&](const FieldFlag& each) { return each.field == word; });
  return found == kFieldFlags.end() ? word : found->flag;
}

}  // namespace

std::string WithFlagNames(const std::string& message) {
  std::string text;
  for (size_t begin = 0; begin < message.size();) {
    size_t end = begin;
    while (end < message.size() && InWord(message[end])) ++end;
    text += FlagOf(std::string_view(message).substr(begin, end - begin));
    if (end < message.size()) text += message[end++];
    begin = end;
  }
  return text;
}

std::string WithPathFlag(const CLI::App& app, const std::string& message) {
  size_t longest = 0;
  std::string flag;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_type_name() != "PATH") continue;
    for (const std::string& path : option->results()) {
      const bool begins =
          message.starts_with(path) && message.size() > path.size() && (message[path.size()] == ':' || message[path.size()] == '/');
      if (!begins || path.size() <= longest) continue;
      longest = path.size();
      flag = option->get_name();
    }
  }
  return flag.empty() ? message : flag + " " + message;
}

}  // namespace haast::cli
