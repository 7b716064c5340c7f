// The small vocabulary of tiny models: byte-level BPE, pre-tokenizer "smollm" (single digits, then GPT-2's pattern).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace haast::testing {

struct TinyVocab {
  std::vector<std::string> tokens;  // in GPT-2's visible spelling of bytes; [vocab]
  std::vector<int32_t> types;       // GGUF token types
  std::vector<std::string> merges;  // "left right"
  int bos = 0, eos = 0, im_start = 0, im_end = 0;
  int used = 0;  // ids from here on are padding
  std::string chat_template;
};

TinyVocab MakeTinyVocab(int vocab);

std::string TinyTokenizerJson(const TinyVocab& vocab);        // Hugging Face tokenizer.json
std::string TinyTokenizerConfigJson(const TinyVocab& vocab);  // tokenizer_config.json, with the template

}  // namespace haast::testing
