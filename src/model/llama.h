// The Llama architecture: grouped-query attention, rotary positions, SwiGLU, RMS norms; q/k/v/o and MLP biases optional.
#pragma once

#include <memory>
#include <vector>

#include "model/decoder_layer.h"
#include "model/model.h"

namespace haast::model {

struct LlamaOptions {
  int64_t max_context = 0;      // positions of the rope table
  std::vector<int> tap_layers;  // ascending layers *entered*, 0..n (n: before the final norm); n + 1: after the final norm
};

class Llama final : public Model {
 public:
  // Reads `file`, which must outlive the model (embedding rows are read from it in place). Errors name file and tensor.
  static Result<std::unique_ptr<Llama>> Load(const io::ModelFile& file, const LlamaOptions& options, const LoadContext& load);

  const io::ModelConfig& config() const override { return config_; }
  int num_layers() const override { return config_.num_layers; }
  int64_t logits_width() const override { return config_.vocab_size; }
  int64_t tap_width() const override { return static_cast<int64_t>(tap_layers_.size()) * config_.hidden_size; }
  int64_t max_input() const override;
  int64_t arena_floats(int64_t rows) const override;
  int64_t bytes_per_pass() const override;
  void Forward(const ForwardArgs& args, ForwardContext& context) override;

  // For draft heads that share them.
  const TensorView& embedding() const { return embedding_; }                         // [vocab, H]
  std::shared_ptr<const kernels::PackedWeight> lm_head() const { return lm_head_; }  // [vocab, H]

 private:
  void Tap(int layer, const ForwardArgs& args, const float* x) const;
  void TapOutput(const ForwardArgs& args, const float* x, ForwardContext& context) const;

  io::ModelConfig config_;
  std::vector<int> tap_layers_;
  bool taps_output_ = false;  // after the final norm
  TensorView embedding_;
  std::vector<DecoderLayer> layers_;
  std::vector<float> final_norm_;
  std::shared_ptr<const kernels::PackedWeight> lm_head_;
  RopeTable rope_;
};

// out[r] = row ids[r] of `table`, as fp32. ids are inside the table (checked by the engine at submission).
void EmbedRows(const TensorView& table, const int32_t* ids, int64_t rows, float* out);

}  // namespace haast::model
