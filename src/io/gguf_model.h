// What the keys and tensor names of a GGUF mean: configuration, text assets, Hugging Face names. Key names are
// llama.cpp's (gguf-py/gguf/constants.py); the architecture "llama" is served.
#pragma once

#include <string>

#include "haast/result.h"
#include "haast/text_assets.h"
#include "io/gguf.h"
#include "io/model_config.h"

namespace haast::io {

struct GgufModel {
  ModelConfig config;
  TextAssets text;
};

// Translates the names of `file` (the whole model: the first file of a split set with all tensors gathered in it) and
// reads what it says. A vocabulary of more tokens than the embedding has rows is an error.
Result<GgufModel> Interpret(GgufFile* file);

// `file`: names translated. The vocabulary size is that of the embedding; biases and tied embeddings are seen from the tensors.
Result<ModelConfig> ConfigOf(const GgufFile& file);

// Empty vocabulary where the file has no tokenizer keys. Token ids outside the vocabulary are errors, save 2^32 - 1 for
// "none". eos_ids: the ids named by keys (end of sequence, of turn, of message) and the tokens that chat models are known
// to end a turn with, by their text, as llama.cpp does.
Result<TextAssets> TextOf(const GgufFile& file);

// "blk.3.attn_q.weight" -> "model.layers.3.self_attn.q_proj.weight"; a name without translation is kept.
std::string TranslateName(const std::string& name);

}  // namespace haast::io
