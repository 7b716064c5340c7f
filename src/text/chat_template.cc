#include "text/chat_template.h"

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "text/rust_call.h"
#include "text/utf8.h"

namespace haast::text {
namespace {

std::string Dump(const nlohmann::ordered_json& json) { return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace); }

// The variables by which templates know the special tokens.
std::string SpecialsJson(const TextAssets& assets, const Tokenizer& tokenizer) {
  auto specials = nlohmann::ordered_json::object();
  const auto add = [&](const char* name, int32_t id) {
    if (const std::string_view text = tokenizer.TokenText(id); !text.empty()) specials[name] = text;
  };
  add("bos_token", assets.bos_id);
  if (!assets.eos_ids.empty()) add("eos_token", assets.eos_ids.front());
  add("unk_token", assets.gguf.unknown_id);
  add("pad_token", assets.pad_id);
  return Dump(specials);
}

int64_t LocalSecondsNow() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm local{};
  if (localtime_r(&now, &local) == nullptr) return static_cast<int64_t>(now);
  return static_cast<int64_t>(now) + local.tm_gmtoff;
}

}  // namespace

std::string MessagesJson(const std::vector<ChatMessage>& messages) {
  auto json = nlohmann::ordered_json::array();
  for (const ChatMessage& message : messages) {
    json.push_back({{"role", ToValidUtf8(message.role)}, {"content", ToValidUtf8(message.content)}});
  }
  return Dump(json);
}

Result<std::unique_ptr<const ChatTemplate>> ChatTemplate::Create(const TextAssets& assets, const Tokenizer& tokenizer) {
  if (assets.chat_template.empty()) {
    return Err(ErrorCode::kNotFound, "{}: the model has no chat template; expected one in the GGUF metadata or tokenizer_config.json",
               assets.source);
  }
  std::unique_ptr<ChatTemplate> chat_template(new ChatTemplate);
  chat_template->source_ = assets.source;
  const std::string specials = SpecialsJson(assets, tokenizer);
  haast_bytes error{};
  const haast_text_status status = haast_template_new(ToSlice(assets.chat_template), ToSlice(specials), &chat_template->handle_, &error);
  if (status != HAAST_TEXT_OK) return LoadError(status, error, assets.source);
  return chat_template;
}

ChatTemplate::~ChatTemplate() { haast_template_free(handle_); }

Result<std::string> ChatTemplate::Render(const RenderInput& input) const {
  const haast_render_input rust_input = {
      .messages_json = ToSlice(input.messages_json),
      .tools_json = ToSlice(input.tools_json),
      .variables_json = ToSlice(input.variables_json),
      .add_generation_prompt = input.add_generation_prompt,
      .local_seconds = input.local_seconds < 0 ? LocalSecondsNow() : input.local_seconds,
  };
  haast_bytes text{};
  haast_bytes error{};
  const haast_text_status status = haast_template_render(handle_, &rust_input, &text, &error);
  if (status != HAAST_TEXT_OK) return RustError(status, error, source_);
  std::string result(ToView(text));
  haast_bytes_free(text);
  return result;
}

Result<std::string> ChatTemplate::Render(const std::vector<ChatMessage>& messages, bool add_generation_prompt) const {
  const std::string json = MessagesJson(messages);
  return Render(RenderInput{.messages_json = json, .tools_json = {}, .variables_json = {}, .add_generation_prompt = add_generation_prompt});
}

}  // namespace haast::text
