// The tiny Llama variants whose logits Hugging Face transformers computed (scripts/make_tiny_goldens.py).
#pragma once

#include <string>
#include <vector>

#include "support/tiny_models.h"

namespace haast::testing {

struct TinyCase {
  std::string name;
  TinyLlama llama;
};

inline std::vector<TinyCase> TinyLlamaCases() {
  std::vector<TinyCase> cases;
  TinyLlama base;
  cases.push_back({"untied_gqa", base});

  TinyLlama biased = base;
  biased.attention_bias = biased.output_bias = biased.mlp_bias = true;
  biased.tied = true;
  biased.seed = 2;
  cases.push_back({"tied_all_biases", biased});

  TinyLlama llama3 = base;
  llama3.llama3_rope = true;
  llama3.rope_theta = 500000.0f;
  llama3.head_dim = 40;
  llama3.seed = 3;
  cases.push_back({"llama3_rope_head_dim_40", llama3});

  TinyLlama grouped = base;
  grouped.heads = 6;
  grouped.hidden = 96;  // transformers wants a multiple of the heads
  grouped.kv_heads = 1;
  grouped.layers = 3;
  grouped.shards = 3;
  grouped.seed = 4;
  cases.push_back({"six_heads_one_kv_sharded", grouped});
  return cases;
}

// The ids that are fed: 300 of them, past the original context of the scaled rope.
inline std::vector<int32_t> TinyCaseIds(const TinyLlama& llama) {
  std::vector<int32_t> ids;
  for (int i = 0; i < 300; ++i) ids.push_back((i * 37 + i * i * 11 + 5) % llama.vocab);
  return ids;
}

}  // namespace haast::testing
