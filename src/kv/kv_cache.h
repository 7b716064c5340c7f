// The memory of one model's K and V: per layer [slots, kv_heads, head_dim].
#pragma once

#include <cstdint>
#include <vector>

#include "core/buffer.h"
#include "core/dtype.h"

namespace haast::kv {

class KvCache {
 public:
  // What Create refuses before it takes memory: shapes and types, and more bytes than the machine has (kOutOfMemory, with the numbers).
  static Status Check(int num_layers, int64_t slots, int num_kv_heads, int head_dim, DType dtype);
  // dtype kF16 or kF32. 64-bit sizes throughout; kOutOfMemory names the bytes.
  static Result<KvCache> Create(int num_layers, int64_t slots, int num_kv_heads, int head_dim, DType dtype);

  int num_layers() const { return static_cast<int>(k_.size()); }
  int64_t slots() const { return slots_; }
  DType dtype() const { return dtype_; }
  void* k(int layer) { return k_[layer].data(); }
  void* v(int layer) { return v_[layer].data(); }
  const void* k(int layer) const { return k_[layer].data(); }
  const void* v(int layer) const { return v_[layer].data(); }
  int64_t row_bytes() const { return row_bytes_; }            // one slot of K of one layer
  int64_t bytes_per_slot() const { return bytes_per_slot_; }  // K and V, all layers
  // Copies the K and V of `src_slots` to `dst_slots` in every layer (tree commit).
  void Move(const std::vector<int32_t>& src_slots, const std::vector<int32_t>& dst_slots);

 private:
  std::vector<Buffer> k_;
  std::vector<Buffer> v_;
  int64_t slots_ = 0;
  int64_t row_bytes_ = 0;  // one slot of K of one layer
  int64_t bytes_per_slot_ = 0;
  DType dtype_ = DType::kF16;
};

}  // namespace haast::kv
