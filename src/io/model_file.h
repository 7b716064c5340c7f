// A model on disk, whatever its format: its configuration, its text assets and its tensors by name, memory-mapped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "haast/result.h"
#include "haast/text_assets.h"
#include "io/model_config.h"

namespace haast::io {

struct NamedTensor {
  std::string name;
  TensorView view;  // into the mapped file; valid while the ModelFile lives
};

// Names follow Hugging Face whatever the file: "model.embed_tokens.weight", "model.layers.3.self_attn.q_proj.weight",
// "model.norm.weight", "lm_head.weight". GGUF names (blk.3.attn_q.weight) are translated, with shapes in row-major order
// ([out, in]). Names without a translation ("rope_freqs.weight", those of a draft head) are kept as they stand.
class ModelFile {
 public:
  // `path`: a .gguf file (one, or the first of a split set), a Hugging Face folder (config.json with one or many
  // .safetensors), or a .safetensors file with config.json beside it. Every offset, length and shape is checked against
  // the file in 64 bits; errors name path, expected, got and remedy.
  static Result<ModelFile> Open(const std::string& path);
  ~ModelFile();
  ModelFile(ModelFile&&) noexcept;
  ModelFile& operator=(ModelFile&&) noexcept;

  const std::string& path() const;
  const std::string& format() const;  // "GGUF v3", "safetensors"
  int64_t file_bytes() const;
  const ModelConfig& config() const;
  // A draft head has none: empty tokenizer_json and empty vocabulary.
  const TextAssets& text() const;
  const std::vector<NamedTensor>& tensors() const;        // sorted by name
  const TensorView* Find(const std::string& name) const;  // null where absent
  // The tensor was copied elsewhere: its mapped pages may go.
  void DropPages(const TensorView& view) const;

 private:
  struct Impl;
  explicit ModelFile(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace haast::io
