// The state of a chat and the commands that change it, apart from terminals and models.
#pragma once

#include <string>
#include <vector>

#include "text/chat_template.h"

namespace haast::cli {

class ChatSession {
 public:
  enum class Action {
    kAnswer,  // a user's message was added: answer it
    kSay,     // show `reply`
    kQuit
  };
  struct Outcome {
    Action action;
    std::string reply;
  };

  explicit ChatSession(std::string system) : system_(std::move(system)) {}

  // A message, or a command that begins with a slash; two slashes begin a message with one.
  Outcome Handle(const std::string& line);

  // The conversation as the chat template wants it.
  std::vector<text::ChatMessage> messages() const;

  // The answer to the last message; an empty one (cancelled, failed) takes the message back.
  void Answered(const std::string& text);

 private:
  Outcome Command(const std::string& line);

  std::string system_;
  std::vector<text::ChatMessage> turns_;  // user and assistant in turns
};

}  // namespace haast::cli
