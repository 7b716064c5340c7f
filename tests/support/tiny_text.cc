#include "support/tiny_text.h"

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace haast::testing {
namespace {

using Json = nlohmann::ordered_json;

std::string Utf8(int code) {
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xc0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
}

// The 256 bytes in GPT-2's order: those with a visible character as themselves, the others from U+0100 on.
std::vector<std::string> ByteTokens() {
  std::vector<std::string> tokens;
  const auto visible = [](int byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174; };
  for (int byte = 0; byte < 256; ++byte) {
    if (visible(byte)) tokens.push_back(Utf8(byte));
  }
  for (int code = 256; tokens.size() < 256; ++code) tokens.push_back(Utf8(code));
  return tokens;
}

// "Ġ" is the space. A merge's result is the next token.
const char* const kMerges[] = {"t h", "Ġ t",  "e r", "i n", "Ġ a", "th e", "Ġt he", "o n", "Ġ w", "a n", "an d", "Ġ and",
                               "h e", "Ġ th", "o r", "e n", "r e", "i s",  "Ġ is",  "o u", "Ġ o", "f Ġ", "l l",  "ll o"};

constexpr char kTemplate[] =
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

}  // namespace

TinyVocab MakeTinyVocab(int vocab) {
  TinyVocab result;
  result.tokens = ByteTokens();
  for (const std::string merge : kMerges) {
    result.merges.push_back(merge);
    const size_t space = merge.find(' ');
    result.tokens.push_back(merge.substr(0, space) + merge.substr(space + 1));
  }
  result.types.assign(result.tokens.size(), 1);
  const auto special = [&](const char* text) {
    result.tokens.push_back(text);
    result.types.push_back(3);
    return static_cast<int>(result.tokens.size()) - 1;
  };
  result.bos = special("<|bos|>");
  result.eos = special("<|eos|>");
  result.im_start = special("<|im_start|>");
  result.im_end = special("<|im_end|>");
  result.used = static_cast<int>(result.tokens.size());
  HAAST_CHECK(vocab >= result.used) << "a vocabulary of " << vocab << ", at least " << result.used << " needed";
  for (int id = result.used; id < vocab; ++id) {
    result.tokens.push_back("[PAD" + std::to_string(id) + "]");
    result.types.push_back(5);
  }
  result.chat_template = kTemplate;
  return result;
}

std::string TinyTokenizerJson(const TinyVocab& vocab) {
  Json added = Json::array();
  Json ids = Json::object();
  for (int id = 0; id < vocab.used; ++id) {
    const std::string& token = vocab.tokens[static_cast<size_t>(id)];
    ids[token] = id;
    if (vocab.types[static_cast<size_t>(id)] != 3) continue;
    added.push_back(Json{{"id", id},
                         {"content", token},
                         {"single_word", false},
                         {"lstrip", false},
                         {"rstrip", false},
                         {"normalized", false},
                         {"special", true}});
  }
  const Json byte_level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  const Json digits{{"type", "Digits"}, {"individual_digits", true}};
  const Json json{{"version", "1.0"},
                  {"truncation", nullptr},
                  {"padding", nullptr},
                  {"added_tokens", added},
                  {"normalizer", nullptr},
                  {"pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Json::array({digits, byte_level})}}},
                  {"post_processor", nullptr},
                  {"decoder", byte_level},
                  {"model",
                   {{"type", "BPE"},
                    {"dropout", nullptr},
                    {"unk_token", nullptr},
                    {"continuing_subword_prefix", nullptr},
                    {"end_of_word_suffix", nullptr},
                    {"fuse_unk", false},
                    {"byte_fallback", false},
                    {"ignore_merges", false},
                    {"vocab", ids},
                    {"merges", vocab.merges}}}};
  return json.dump(1);
}

std::string TinyTokenizerConfigJson(const TinyVocab& vocab) {
  return Json{{"bos_token", "<|bos|>"}, {"eos_token", "<|im_end|>"}, {"add_bos_token", false}, {"chat_template", vocab.chat_template}}.dump(
      1);
}

}  // namespace haast::testing
