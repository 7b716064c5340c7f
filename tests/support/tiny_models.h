// Random tiny models for tests, written in the forms that the world uses: a Llama as a GGUF file or a Hugging Face folder,
// EAGLE-3 / 3.1 heads in three spellings. The same settings give the same bytes on every machine, and the GGUF and the
// folder of one TinyLlama are the same model (the GGUF's q and k rows are re-ordered for interleaved rope).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace haast::testing {

// A folder of its own under the system's temporary directory, removed with everything in it at the end.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }
  std::string Join(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

struct TinyLlama {
  int layers = 2;
  int hidden = 64;
  int intermediate = 96;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int vocab = 320;
  int max_context = 4096;
  float rope_theta = 10000.0f;
  float rms_norm_eps = 1e-5f;
  bool llama3_rope = false;  // scaling of Llama 3: factor 8, low 1, high 4, original context 256
  bool tied = false;
  bool attention_bias = false;  // q, k, v
  bool output_bias = false;     // o_proj; transformers' Llama has it together with attention_bias
  bool mlp_bias = false;        // gate, up, down
  // Matrices. Norms and biases are F32 in a GGUF and `dtype` in a folder. Block formats are for GGUF only and need
  // `hidden`, `intermediate` and heads * head_dim to be multiples of the block.
  DType dtype = DType::kF32;
  std::optional<DType> embedding_dtype;  // embeddings and lm_head, where they differ
  // Size of what the layers add to the residual stream. With `tied` and a small value the model likes to repeat the token
  // it has just seen, so that the echo head below gets drafts accepted: 0.05 nearly always, 0.4 sometimes.
  float layer_scale = 1.0f;
  // Text: a byte-level BPE (pre-tokenizer "smollm"): the 256 bytes, a few merges, then <|bos|>, <|eos|>, <|im_start|>,
  // <|im_end|>; unused tokens fill up to `vocab` (at least 288). And a ChatML template. Without it a GGUF has no tokenizer
  // keys and a folder no tokenizer files; eos_ids are then empty.
  bool vocabulary = false;
  int shards = 1;  // split set (GGUF) or sharded index (folder)
  uint64_t seed = 1;
};

// The smallest that the readers take, for tests that read it again and again: one layer, tied embeddings.
TinyLlama SmallestLlama();

// One tensor of a tiny model in fp32, row-major, under its Hugging Face name.
struct TinyTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// The weights before rounding to `dtype`, in a fixed order; lm_head.weight only where not tied.
std::vector<TinyTensor> MakeTinyLlama(const TinyLlama& model);

// Writes `path` (with shards > 1: "name-00001-of-0000N.gguf" beside it) and returns the file to open.
std::string WriteTinyGguf(const TinyLlama& model, const std::string& path);

// Writes the folder `folder` (made where missing) and returns it.
std::string WriteTinyFolder(const TinyLlama& model, const std::string& folder);

// Which project's names and config a head follows.
enum class HeadSpelling {
  kSafeAiLab,   // midlayer.*, taps not in the config unless they differ from the default
  kSpecForge,   // midlayer.*, eagle_config.eagle_aux_hidden_state_layer_ids (layer outputs)
  kSpeculators  // layers.0.*, transformer_layer_config, top-level eagle_aux_hidden_state_layer_ids (layers entered)
};

struct TinyEagle3 {
  TinyLlama target;  // what the head is for; also gives rope, eps, context
  HeadSpelling spelling = HeadSpelling::kSpecForge;
  int hidden = 64;  // other than target.hidden: needs own_embeddings, and own lm_head
  int intermediate = 96;
  int heads = 4;
  int kv_heads = 2;
  int head_dim = 16;
  int draft_vocab = 160;  // rows of the own lm_head with d2t; 0: no lm_head and no d2t, the target's is used
  std::vector<int> taps;  // layers entered, 0..target.layers; empty: {0, layers/2, layers}
  bool own_embeddings = false;
  bool fc_norm = false;
  bool norm_before_fc = false;
  bool norm_output = false;
  bool norm_before_residual = false;
  DType dtype = DType::kF32;  // F32, F16 or BF16
  // The head drafts the token before it again and again: its fc hands over the last tap (which must be target.layers),
  // its layer adds next to nothing, its lm_head is the target's rows. For a tied target of small layer_scale.
  bool echo = false;
  uint64_t seed = 7;
};

// The layers entered that the head taps: `taps`, or their default.
std::vector<int> TinyTaps(const TinyEagle3& head);

// Weights before rounding, under the names of `spelling`; d2t and t2d are not among them.
std::vector<TinyTensor> MakeTinyEagle3(const TinyEagle3& head);

// Target id of each draft id: ascending, distinct. Empty where draft_vocab is 0.
std::vector<int64_t> TinyDraftToTarget(const TinyEagle3& head);

// Writes config.json and model.safetensors into `folder` (made where missing) and returns it.
std::string WriteTinyEagle3(const TinyEagle3& head, const std::string& folder);

// An EAGLE-1 head for `target`, F32, with fc.bias and without embeddings of its own; echo: it drafts the token before it again
// (its fc hands over the feature, its layers add next to nothing). Returns the folder.
std::string WriteTinyEagle1(const TinyLlama& target, int layers, bool echo, const std::string& folder);

// The folder's tensors: layers.i.*, fc.weight, fc.bias.
std::vector<TinyTensor> MakeTinyEagle1(const TinyLlama& target, int layers, bool echo);

}  // namespace haast::testing
