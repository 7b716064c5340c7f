// What a draft head reads of a model, written to files for training one: of every token what the engine computes when it serves,
// bit for bit, whatever it is batched with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "haast/engine.h"
#include "haast/result.h"

namespace haast {

enum class FeatureDtype { kBF16, kF32 };

struct FeatureOptions {
  std::string input;  // JSON Lines of {"token_ids": [..]}, a sequence each; other keys and blank lines are ignored
  // Folder, made where missing. Of T layers, hidden size H and the R tokens of its S sequences features-00000.safetensors, ... hold
  //   offsets [S + 1] I64: sequence i has rows offsets[i] to offsets[i + 1]     token_ids [R] I32
  //   taps [R, T * H]: the residual stream that enters each layer               hidden [R, H]: after the final norm
  // and features.json says of what: model, input, layers, number of pieces.
  std::string output;
  // Ascending, 0 to L of a model of L layers (L: what leaves the last one) and L + 1 (that after the final norm). Empty: what
  // EngineOptions::draft reads.
  std::vector<int> layers;
  FeatureDtype dtype = FeatureDtype::kBF16;  // of taps and hidden
  int64_t piece_bytes = int64_t{128} << 20;  // of taps and hidden in one file; a longer sequence has a file of its own
};

struct FeatureReport {
  std::vector<int> layers;
  int64_t sequences = 0;
  int64_t tokens = 0;
  int64_t pieces = 0;
  int64_t pieces_kept = 0;  // were there already
  int64_t computed_tokens = 0;
  double seconds = 0.0;  // of these, files included, loading not
};

// Writes features.json and then piece by piece, each as a whole; pieces that an earlier call with the same model, input and options
// wrote are kept. Of `engine` model, draft (null `layers` only), backend, threads, kv_dtype and prefill_chunk count. `progress` (may be
// null) gets a line now and then. Errors: kInvalidFile names file and line of a sequence that is empty, longer than the model's
// context or not of its tokens, and an output folder that holds something else; kIo one that
// another call is writing to; kInvalidArgument: layers that there are not.
Result<FeatureReport> WriteFeatures(const EngineOptions& engine, const FeatureOptions& options,
                                    const std::function<void(const std::string&)>& progress);

}  // namespace haast
