// What a file is, what it holds, and whether a draft head fits a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "haast/result.h"
#include "haast/text_assets.h"

namespace haast {

struct ModelInfo {
  std::string path;
  std::string format;  // "GGUF v3", "safetensors"
  std::string name;
  std::string architecture;  // "llama", "eagle3", "eagle" (EAGLE-1 and 2)
  int64_t file_bytes = 0;
  int64_t parameters = 0;
  int num_layers = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_context = 0;
  bool tied_embeddings = false;
  std::vector<std::string> dtypes;  // "Q4_1 x 210, F32 x 61"
  // Draft heads only.
  int64_t draft_vocab_size = 0;
  int64_t target_hidden_size = 0;
  std::vector<int> tap_layers;            // layers entered; empty: the default [2, n/2, n-3]
  std::vector<std::string> head_options;  // "fc_norm", "norm_output", ...
};

Result<ModelInfo> InspectModel(const std::string& path);

Result<TextAssets> LoadTextAssets(const std::string& path);

// Whether `head` can draft for `model`; the error names what does not fit: sizes, vocabulary, tap layers, missing tensors.
Status CheckHeadFits(const std::string& model, const std::string& head);

}  // namespace haast
