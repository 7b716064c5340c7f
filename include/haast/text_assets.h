// What a model file carries about text: the vocabulary and the chat template, as plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace haast {

// A vocabulary stored in GGUF metadata (tokenizer.ggml.*).
struct GgufVocab {
  std::string model;                // "gpt2" (byte-level BPE) or "llama" (SentencePiece)
  std::string pre;                  // pre-tokenizer name, for example "smollm", "llama-bpe", "qwen2"
  std::vector<std::string> tokens;  // [vocab]
  std::vector<float> scores;        // [vocab] or empty
  std::vector<int32_t> types;       // [vocab] or empty: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
  std::vector<std::string> merges;  // "left right"
  int32_t unknown_id = -1;
  bool add_space_prefix = true;
};

struct TextAssets {
  std::string source;          // path, for messages
  std::string tokenizer_json;  // Hugging Face tokenizer.json; empty: `gguf` holds the vocabulary
  GgufVocab gguf;
  std::string chat_template;  // Jinja; empty: the model has none
  int32_t bos_id = -1;
  std::vector<int32_t> eos_ids;  // any of them ends an answer (end of sequence, end of turn)
  int32_t pad_id = -1;
  bool add_bos = false;
  bool add_eos = false;
};

}  // namespace haast
