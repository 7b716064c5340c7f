// Messages to prompt text through the model's own Jinja template.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "haast/result.h"
#include "haast/text_assets.h"
#include "text/tokenizer.h"

struct haast_template;  // Rust side

namespace haast::text {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
};

// The JSON array that RenderInput::messages_json wants. Text that is not valid UTF-8 is repaired with U+FFFD.
std::string MessagesJson(const std::vector<ChatMessage>& messages);

struct RenderInput {
  std::string_view messages_json;   // JSON array of message objects
  std::string_view tools_json;      // JSON array of tool definitions; empty: none
  std::string_view variables_json;  // JSON object of further template variables (chat_template_kwargs); empty: none
  bool add_generation_prompt = true;
  // Seconds since 1970 in local time, for strftime_now; -1: this moment.
  int64_t local_seconds = -1;
};

// A compiled template with the semantics of transformers' apply_chat_template: blocks trimmed, Python methods on strings
// and dictionaries, raise_exception, strftime_now, Python's JSON in tojson, loop controls, generation blocks.
// Immutable; Render may be called from several threads at once.
class ChatTemplate {
 public:
  // `assets.chat_template` must not be empty. The bos, eos, unk and pad tokens of `assets` become bos_token and so on.
  // Errors: kInvalidFile with the template's line.
  static Result<std::unique_ptr<const ChatTemplate>> Create(const TextAssets& assets, const Tokenizer& tokenizer);
  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // The prompt; tokenise it with Encode(text, /*parse_special=*/true), which adds nothing.
  // Errors: kInvalidArgument (malformed JSON, raise_exception with its message, the step or memory limit of a template).
  Result<std::string> Render(const RenderInput& input) const;
  Result<std::string> Render(const std::vector<ChatMessage>& messages, bool add_generation_prompt = true) const;

 private:
  ChatTemplate() = default;

  haast_template* handle_ = nullptr;  // owned
  std::string source_;
};

}  // namespace haast::text
