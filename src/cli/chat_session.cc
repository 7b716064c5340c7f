#include "cli/chat_session.h"

#include "text/utf8.h"

namespace haast::cli {
namespace {

constexpr const char* kHelp =
    "/system TEXT  set the system message (without TEXT: show it)\n"
    "/reset        forget the conversation, keep the system message\n"
    "/help         this list\n"
    "/quit         leave (so does Ctrl-D)\n"
    "Ctrl-C ends an answer early. A message that begins with a slash is written with two.\n";

bool IsBlank(const std::string& text) { return text.find_first_not_of(" \t\r\n") == std::string::npos; }

}  // namespace

ChatSession::Outcome ChatSession::Handle(const std::string& line) {
  if (IsBlank(line)) return {Action::kSay, ""};
  if (!text::IsValidUtf8(line)) return {Action::kSay, "expected UTF-8 text: the line was not used\n"};
  if (line[0] == '/' && !line.starts_with("//")) return Command(line);
  turns_.push_back({"user", line.starts_with("//") ? line.substr(1) : line});
  return {Action::kAnswer, ""};
}

ChatSession::Outcome ChatSession::Command(const std::string& line) {
  const size_t space = line.find_first_of(" \t");
  const std::string name = line.substr(0, space);
  const size_t begin = line.find_first_not_of(" \t", name.size());
  const std::string text = begin == std::string::npos ? "" : line.substr(begin);
  if (name == "/quit" || name == "/exit") return {Action::kQuit, ""};
  if (name == "/help") return {Action::kSay, kHelp};
  if (name == "/reset") {
    turns_.clear();
    return {Action::kSay, "the conversation is empty\n"};
  }
  if (name == "/system") {
    if (!text.empty()) system_ = text;
    return {Action::kSay, system_.empty() ? "no system message: the model's own default\n" : "system message: " + system_ + "\n"};
  }
  return {Action::kSay, "expected /system, /reset, /help or /quit, got " + name + "\n"};
}

std::vector<text::ChatMessage> ChatSession::messages() const {
  std::vector<text::ChatMessage> messages;
  if (!system_.empty()) messages.push_back({"system", system_});
  messages.insert(messages.end(), turns_.begin(), turns_.end());
  return messages;
}

void ChatSession::Answered(const std::string& text) {
  if (text.empty()) {
    turns_.pop_back();
  } else {
    turns_.push_back({"assistant", text});
  }
}

}  // namespace haast::cli
