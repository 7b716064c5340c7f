// What a model file says about its own architecture. Produced from GGUF metadata or a Hugging Face config.json.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace haast::io {

// Llama 3 rope scaling (Hugging Face `rope_type: llama3`): low frequencies are divided by `factor`, high ones kept, the
// band between blended. Linear scaling divides every frequency by `factor`.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3 };
  Kind kind = Kind::kNone;
  float factor = 1.0f;
  float low_freq_factor = 1.0f;
  float high_freq_factor = 4.0f;
  int64_t original_context = 8192;
};

// EAGLE-3 / 3.1 head settings (SafeAILab, SpecForge and speculators spellings).
struct Eagle3Config {
  int64_t draft_vocab_size = 0;    // rows of the head's own lm_head; 0: it uses the target's
  int64_t target_hidden_size = 0;  // width of one tapped feature
  int num_aux_hidden_states = 3;
  // Residual stream *entering* these target layers (0..n; n = before the final norm). Empty: [2, n/2, n-3] of the target.
  // Nested eagle_config ids are layer outputs (entered = id + 1); a top-level list is read as layers entered.
  std::vector<int> tap_layers;
  bool fc_norm = false;               // one RMSNorm per tapped feature before fc
  bool norm_before_fc = false;        // one RMSNorm over the concatenation before fc (tensor `input_norm`)
  bool norm_output = false;           // the value after the final norm is fed back
  bool norm_before_residual = false;  // the residual is the normed hidden state
};

struct ModelConfig {
  std::string architecture;  // "llama", "eagle3", or "eagle": an EAGLE-1/2 head
  std::string name;          // for people
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int num_layers = 0;
  int num_heads = 0;
  int num_kv_heads = 0;
  int head_dim = 0;
  int64_t vocab_size = 0;
  int64_t max_context = 0;  // max_position_embeddings
  float rms_norm_eps = 1e-5f;
  float rope_theta = 10000.0f;
  RopeScaling rope_scaling;
  bool rope_interleaved = false;  // GGUF llama files: pairs (2i, 2i+1); Hugging Face: (i, i + head_dim/2)
  bool tied_embeddings = false;
  bool attention_bias = false;  // q/k/v bias
  bool mlp_bias = false;
  std::optional<Eagle3Config> eagle3;
};

}  // namespace haast::io
