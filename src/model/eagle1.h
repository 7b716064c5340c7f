// EAGLE-1 and EAGLE-2 draft heads (Li et al. 2024; the checkpoint form of SafeAILab's EAGLE for Llama).
//
// Row p reads the pair (feature of token p, id of token p + 1): the feature is the target's output after its final norm, or
// the value that the row before carried over. fc joins embedding and feature; the first layer has no norm of its input; there
// is no final norm, and the vocabulary matrix is the target's.
#pragma once

#include <memory>
#include <vector>

#include "model/decoder_layer.h"
#include "model/draft_head.h"
#include "model/llama.h"

namespace haast::model {

class Eagle1Head final : public DraftHead {
 public:
  // Whether the head can be loaded beside such a target: sizes, vocabulary and tensors; the error says what does not fit.
  static Status CheckFits(const io::ModelFile& file, const io::ModelConfig& target);
  // `file` and `target` must outlive the head: embedding rows (where the head has none) and lm_head are the target's.
  static Result<std::unique_ptr<Eagle1Head>> Load(const io::ModelFile& file, const Llama& target, int64_t max_context,
                                                  const LoadContext& load);

  const io::ModelConfig& config() const override { return config_; }
  int num_layers() const override { return config_.num_layers; }
  int64_t logits_width() const override { return lm_head_->n; }
  int64_t max_input() const override;
  int64_t arena_floats(int64_t rows) const override;
  int64_t bytes_per_pass() const override;
  void Forward(const ForwardArgs& args, ForwardContext& context) override;

  int64_t feature_width() const override { return config_.hidden_size; }
  std::span<const int32_t> draft_to_target() const override { return {}; }

 private:
  Status Bind(const io::ModelFile& file, const LoadContext& load);

  io::ModelConfig config_;
  TensorView embedding_;      // [vocab, H]
  kernels::PackedWeight fc_;  // [H, 2H]: embedding, then feature
  std::vector<float> fc_bias_;
  std::vector<DecoderLayer> layers_;
  std::shared_ptr<const kernels::PackedWeight> lm_head_;  // the target's
  RopeTable rope_;
};

}  // namespace haast::model
