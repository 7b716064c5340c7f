// One model over one planned launch. Targets and draft heads are the same kind of thing.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "attention/backend.h"
#include "core/arena.h"
#include "io/model_config.h"
#include "kernels/ops.h"

namespace haast::model {

// R rows, H hidden size, V width of the logits, T tapped layers, L rows that need logits. Of the others only K and V are made, and
// what is tapped: no logits, nothing carried.
struct ForwardArgs {
  int64_t rows = 0;
  const int32_t* ids = nullptr;     // [R]
  const float* features = nullptr;  // draft heads: [R, T * H_target] taps of the target, or [R, H] carried values
  bool features_are_taps = false;
  std::span<const int32_t> logit_rows;  // [L] rows of the launch, each above the one before
  float* logits = nullptr;              // [L, V]
  float* taps = nullptr;                // targets: [R, T * H] residual stream entering each tapped layer; null: none
  float* carried = nullptr;             // draft heads: [L, H] what the next draft step reads
};

// What a forward pass runs on; owned by the runner.
struct ForwardContext {
  const kernels::Ops& ops;
  base::ThreadPool& pool;
  kernels::Workspace& workspace;
  Arena& arena;                                   // reset by the runner before each launch
  attention::Backend& attention;                  // planned for this launch
  std::span<const attention::LayerCache> caches;  // [layers]
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const io::ModelConfig& config() const = 0;
  virtual int num_layers() const = 0;
  virtual int64_t logits_width() const = 0;            // V: vocabulary, or draft vocabulary
  virtual int64_t tap_width() const = 0;               // T * H of what it taps; 0: nothing
  virtual int64_t feature_width() const { return 0; }  // draft heads: floats of a row of taps that they read
  virtual bool carries() const { return false; }       // fills ForwardArgs::carried: draft heads
  virtual int64_t max_input() const = 0;               // widest input of any product, for the workspace
  virtual int64_t arena_floats(int64_t rows) const = 0;
  virtual int64_t bytes_per_pass() const = 0;  // weights a pass of few rows reads
  virtual void Forward(const ForwardArgs& args, ForwardContext& context) = 0;
};

}  // namespace haast::model
