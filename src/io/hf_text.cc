#include "io/hf_text.h"

#include <algorithm>
#include <optional>

#include "base/format.h"
#include "io/config_check.h"
#include "io/json.h"

namespace haast::io {
namespace {

namespace dom = simdjson::dom;

void AddEnds(const JsonObject& config, std::vector<int32_t>* ends) {
  for (const int64_t id : config.OneOrMoreIntegers("eos_token_id", -1, kMaxVocabulary)) {
    if (id >= 0 && std::find(ends->begin(), ends->end(), id) == ends->end()) ends->push_back(static_cast<int32_t>(id));
  }
}

// The first id of a key that holds one id or a list; -1 for none.
int32_t FirstId(const JsonObject& config, const char* key) {
  const auto ids = config.OneOrMoreIntegers(key, -1, kMaxVocabulary);
  return ids.empty() ? -1 : static_cast<int32_t>(ids.front());
}

// Templates are one string or a list of {name, template}.
std::string ReadTemplate(const JsonObject& config) {
  const auto value = config.Find("chat_template");
  dom::array list;
  if (!value || value->get(list) != simdjson::SUCCESS) return config.Text("chat_template", "");
  std::optional<std::string> chosen;
  for (dom::element item : list) {
    std::string_view name, text;
    if (item["name"].get(name) != simdjson::SUCCESS || item["template"].get(text) != simdjson::SUCCESS) {
      config.Fail("chat_template", "a string or a list of {name, template}", "a list that holds " + Describe(item));
      break;
    }
    if (!chosen || name == "default") chosen = text;
  }
  return chosen.value_or("");
}

// tokenizer_config.json names special tokens by text, or by an object that holds the text.
std::string TokenText(const JsonObject& config, const char* key) {
  const auto value = config.Find(key);
  dom::object object;
  if (!value || value->get(object) != simdjson::SUCCESS) return config.Text(key, "");
  const auto token = config.Object(key);
  return token ? token->Text("content", "") : "";
}

// The id of an added token by its text; -1 where tokenizer.json has none of that text.
Result<int32_t> AddedToken(const std::string& tokenizer_json, const std::string& text, const std::string& path) {
  HAAST_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(tokenizer_json, path));
  const auto added = document.root().Find("added_tokens");
  dom::array list;
  if (!added || added->get(list) != simdjson::SUCCESS) return -1;
  for (dom::element item : list) {
    std::string_view content;
    int64_t id = 0;
    if (item["content"].get(content) != simdjson::SUCCESS || item["id"].get(id) != simdjson::SUCCESS) continue;
    if (content == text && id >= 0 && id < kMaxVocabulary) return static_cast<int32_t>(id);
  }
  return -1;
}

Status ReadConfig(const HfTextFiles& files, TextAssets* text) {
  if (files.config_json.empty()) return {};
  HAAST_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(files.config_json, files.folder + "/config.json"));
  text->bos_id = FirstId(document.root(), "bos_token_id");
  text->pad_id = FirstId(document.root(), "pad_token_id");
  AddEnds(document.root(), &text->eos_ids);
  return document.root().status();
}

Status ReadGenerationConfig(const HfTextFiles& files, TextAssets* text) {
  if (files.generation_config_json.empty()) return {};
  HAAST_ASSIGN_OR_RETURN(const JsonDocument document,
                         JsonDocument::Parse(files.generation_config_json, files.folder + "/generation_config.json"));
  AddEnds(document.root(), &text->eos_ids);
  return document.root().status();
}

Status ReadTokenizerConfig(const HfTextFiles& files, TextAssets* text) {
  if (files.tokenizer_config_json.empty()) return {};
  HAAST_ASSIGN_OR_RETURN(const JsonDocument document,
                         JsonDocument::Parse(files.tokenizer_config_json, files.folder + "/tokenizer_config.json"));
  const JsonObject config = document.root();
  if (text->chat_template.empty()) text->chat_template = ReadTemplate(config);
  text->add_bos = config.Boolean("add_bos_token", false);
  text->add_eos = config.Boolean("add_eos_token", false);
  const std::string eos = TokenText(config, "eos_token");
  HAAST_RETURN_IF_ERROR(config.status());
  if (eos.empty()) return {};
  HAAST_ASSIGN_OR_RETURN(const int32_t id, AddedToken(text->tokenizer_json, eos, files.folder + "/tokenizer.json"));
  if (id >= 0 && std::find(text->eos_ids.begin(), text->eos_ids.end(), id) == text->eos_ids.end()) text->eos_ids.push_back(id);
  return {};
}

}  // namespace

Result<TextAssets> ParseHfText(HfTextFiles files) {
  TextAssets text;
  text.source = files.folder;
  if (files.tokenizer_json.empty()) return text;
  text.tokenizer_json = std::move(files.tokenizer_json);
  text.chat_template = std::move(files.chat_template_jinja);
  HAAST_RETURN_IF_ERROR(ReadConfig(files, &text));
  HAAST_RETURN_IF_ERROR(ReadGenerationConfig(files, &text));
  HAAST_RETURN_IF_ERROR(ReadTokenizerConfig(files, &text));
  return text;
}

}  // namespace haast::io
