// What a launch did, op by op: an `Ops` table that times every call of another one. Who does not use it pays nothing.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops.h"

namespace haast::kernels {

enum class OpKind { kLinear, kRmsNorm, kRopeStore, kAttention };

struct OpCall {
  OpKind kind;
  std::array<const PackedWeight*, 3> weights;  // kLinear: of its tasks, then null
  int64_t rows;
  int64_t bytes;       // that must be read at least: weights; keys and values, once a sequence; the rows of the small ops
  int64_t operations;  // of products with block formats, which run in 8-bit integers: 2 for each weight and row
  double seconds;
};

// "linear q_proj+k_proj+v_proj 960x576" ([N, K], N of all tasks together), "attention", "rope_store", "rms_norm".
std::string OpName(const OpCall& call);

// Belongs to the thread that makes it, one at a time: its ops must be called by that thread alone (the pool's threads work inside such a
// call). Other tables are not recorded.
class OpTrace {
 public:
  explicit OpTrace(const Ops& base);
  ~OpTrace();
  OpTrace(const OpTrace&) = delete;
  OpTrace& operator=(const OpTrace&) = delete;

  // `base` with recording linear, rms_norm, rope_store and attention; valid as long as this object.
  const Ops& ops() const { return ops_; }
  std::span<const OpCall> calls() const { return calls_; }
  void Clear() { calls_.clear(); }

  const Ops& base() const { return base_; }
  void Add(const OpCall& call) { calls_.push_back(call); }

 private:
  const Ops& base_;
  Ops ops_;
  std::vector<OpCall> calls_;
};

}  // namespace haast::kernels
