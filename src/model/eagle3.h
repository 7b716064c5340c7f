// EAGLE-3 and EAGLE-3.1 draft heads (Li et al. 2025; checkpoint forms of SafeAILab, SpecForge and speculators).
//
// Row p of a draft launch reads the pair (feature of token p, id of token p + 1) at position p and predicts token p + 2.
// The feature is fc of the target's tapped residual streams, or the value that the row before carried over.
#pragma once

#include <memory>
#include <vector>

#include "model/decoder_layer.h"
#include "model/draft_head.h"
#include "model/llama.h"

namespace haast::model {

// The target layers (entered) whose residual streams the head reads: the configured ones, or [2, n/2, n-3].
std::vector<int> TapLayers(const io::Eagle3Config& head, int target_layers);

class Eagle3Head final : public DraftHead {
 public:
  // Whether the head can be loaded beside such a target: sizes, tap layers, vocabulary and its map, tensors; the error says what
  // does not fit.
  static Status CheckFits(const io::ModelFile& file, const io::ModelConfig& target);
  // `file` and `target` must outlive the head (embedding rows and, where the head has none, the target's lm_head are
  // shared). `body` prepares the layers' matrices, `lm_head` the head's own vocabulary matrix.
  static Result<std::unique_ptr<Eagle3Head>> Load(const io::ModelFile& file, const Llama& target, int64_t max_context,
                                                  const LoadContext& body, const LoadContext& lm_head);

  const io::ModelConfig& config() const override { return config_; }
  int num_layers() const override { return config_.num_layers; }
  int64_t logits_width() const override { return lm_head_->n; }
  int64_t max_input() const override;
  int64_t arena_floats(int64_t rows) const override;
  int64_t bytes_per_pass() const override;  // of a draft step; fc, which only draft extend reads, not counted
  void Forward(const ForwardArgs& args, ForwardContext& context) override;

  int64_t feature_width() const override { return fc_.k; }  // taps * H_target
  std::span<const int32_t> draft_to_target() const override { return draft_to_target_; }

 private:
  Status Bind(const io::ModelFile& file, const LoadContext& body, const LoadContext& lm_head);
  Status LoadInputs(WeightBinder* binder, const LoadContext& load);
  Status LoadVocabulary(WeightBinder* binder, const LoadContext& load);
  void Fuse(const ForwardArgs& args, float* features, ForwardContext& context) const;

  io::ModelConfig config_;
  TensorView embedding_;                       // [vocab, H]
  std::vector<std::vector<float>> tap_norms_;  // fc_norm: one [H_target] a tap; empty: none
  std::vector<float> input_norm_;              // norm_before_fc: [taps * H_target]; empty: none
  kernels::PackedWeight fc_;                   // [H, taps * H_target]
  std::vector<float> fc_bias_;
  std::vector<float> embedding_norm_;                     // [H]
  std::vector<float> feature_norm_;                       // [H]
  std::vector<DecoderLayer> layers_;                      // the first reads 2H
  std::vector<float> final_norm_;                         // [H]
  std::shared_ptr<const kernels::PackedWeight> lm_head_;  // [draft vocabulary, H]
  std::vector<int32_t> draft_to_target_;                  // target id of each draft id; empty: the same ids
  RopeTable rope_;
};

}  // namespace haast::model
