// tokenizer.ggml.* and tokenizer.chat_template.
#include <algorithm>
#include <array>

#include "base/format.h"
#include "io/gguf_model.h"

namespace haast::io {
namespace {

constexpr int64_t kNoToken = 0xffffffff;  // how some converters write "none"

// Tokens that end a turn in published chat models, whatever the keys say.
constexpr std::array<std::string_view, 17> kTurnEnds = {"<|eot_id|>",
                                                        "<|eom_id|>",
                                                        "<|im_end|>",
                                                        "<|end|>",
                                                        "<end_of_turn>",
                                                        "<|endoftext|>",
                                                        "<|end_of_text|>",
                                                        "<EOT>",
                                                        "< EOT >",
                                                        "_<EOT>",
                                                        "[EOT]",
                                                        "[EOS]",
                                                        "</s>",
                                                        "<|return|>",
                                                        "<|call|>",
                                                        "<end_of_utterance>",
                                                        "<｜end▁of▁sentence｜>"};

// Vocabularies whose models expect a first token although no key says so.
bool AddsBosUnasked(const GgufVocab& vocab) {
  static constexpr std::array<std::string_view, 4> kPre = {"llama3", "llama-v3", "llama-bpe", "falcon3"};
  return vocab.model == "llama" || std::find(kPre.begin(), kPre.end(), vocab.pre) != kPre.end();
}

// -1 where the key is absent or says "none".
int32_t TokenId(const GgufMetadata& keys, const char* key, size_t vocab_size, int32_t absent) {
  const int64_t id = keys.Integer(key, absent, -1, kNoToken);
  if (id == kNoToken || id == -1) return -1;
  if (id < static_cast<int64_t>(vocab_size)) return static_cast<int32_t>(id);
  keys.Fail(key, fmt::format("an id below the vocabulary's {}", vocab_size), std::to_string(id));
  return -1;
}

void AddEnd(std::vector<int32_t>* ends, int32_t id) {
  if (id >= 0 && std::find(ends->begin(), ends->end(), id) == ends->end()) ends->push_back(id);
}

void ReadVocab(const GgufMetadata& keys, GgufVocab* vocab) {
  vocab->model = keys.Text("tokenizer.ggml.model", "");
  vocab->pre = keys.Text("tokenizer.ggml.pre", "");
  vocab->tokens = keys.Texts("tokenizer.ggml.tokens");
  vocab->scores = keys.Floats("tokenizer.ggml.scores");
  vocab->types = keys.Integers("tokenizer.ggml.token_type");
  vocab->merges = keys.Texts("tokenizer.ggml.merges");
  vocab->add_space_prefix = keys.Boolean("tokenizer.ggml.add_space_prefix", true);
  const size_t size = vocab->tokens.size();
  if (!vocab->scores.empty() && vocab->scores.size() != size) {
    keys.Fail("tokenizer.ggml.scores", fmt::format("{} of them, one a token", size), std::to_string(vocab->scores.size()));
  }
  if (!vocab->types.empty() && vocab->types.size() != size) {
    keys.Fail("tokenizer.ggml.token_type", fmt::format("{} of them, one a token", size), std::to_string(vocab->types.size()));
  }
}

void ReadEnds(const GgufMetadata& keys, TextAssets* text) {
  const bool sentencepiece = text->gguf.model == "llama";
  const size_t size = text->gguf.tokens.size();
  AddEnd(&text->eos_ids, TokenId(keys, "tokenizer.ggml.eos_token_id", size, sentencepiece ? 2 : -1));
  AddEnd(&text->eos_ids, TokenId(keys, "tokenizer.ggml.eot_token_id", size, -1));
  AddEnd(&text->eos_ids, TokenId(keys, "tokenizer.ggml.eom_token_id", size, -1));
  for (size_t id = 0; id < size; ++id) {
    const std::string& token = text->gguf.tokens[id];
    if (std::find(kTurnEnds.begin(), kTurnEnds.end(), token) != kTurnEnds.end()) AddEnd(&text->eos_ids, static_cast<int32_t>(id));
  }
}

}  // namespace

Result<TextAssets> TextOf(const GgufFile& file) {
  const GgufMetadata& keys = file.metadata;
  TextAssets text;
  text.source = keys.path();
  if (!keys.Has("tokenizer.ggml.model")) return text;
  ReadVocab(keys, &text.gguf);
  HAAST_RETURN_IF_ERROR(keys.status());
  const size_t size = text.gguf.tokens.size();
  const bool sentencepiece = text.gguf.model == "llama";
  text.bos_id = TokenId(keys, "tokenizer.ggml.bos_token_id", size, sentencepiece ? 1 : -1);
  text.gguf.unknown_id = TokenId(keys, "tokenizer.ggml.unknown_token_id", size, sentencepiece ? 0 : -1);
  text.pad_id = TokenId(keys, "tokenizer.ggml.padding_token_id", size, -1);
  text.add_bos = keys.Boolean("tokenizer.ggml.add_bos_token", AddsBosUnasked(text.gguf)) && text.bos_id >= 0;
  text.add_eos = keys.Boolean("tokenizer.ggml.add_eos_token", false);
  text.chat_template = keys.Text("tokenizer.chat_template", "");
  ReadEnds(keys, &text);
  HAAST_RETURN_IF_ERROR(keys.status());
  return text;
}

}  // namespace haast::io
