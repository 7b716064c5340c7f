#include "kv/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "base/format.h"

namespace haast::kv {
namespace {

// Copies rows src[i] to dst[i] of one buffer by way of `staging`, so that a row may be read after it was written.
void MoveRows(Buffer& buffer, int64_t row_bytes, const std::vector<int32_t>& src, const std::vector<int32_t>& dst, uint8_t* staging) {
  const size_t bytes = static_cast<size_t>(row_bytes);
  for (size_t i = 0; i < src.size(); ++i) std::memcpy(staging + i * bytes, buffer.data() + src[i] * row_bytes, bytes);
  for (size_t i = 0; i < dst.size(); ++i) std::memcpy(buffer.data() + dst[i] * row_bytes, staging + i * bytes, bytes);
}

}  // namespace

Status KvCache::Check(int num_layers, int64_t slots, int num_kv_heads, int head_dim, DType dtype) {
  if (num_layers < 1 || slots < 1 || num_kv_heads < 1 || head_dim < 1) {
    return Err(ErrorCode::kInvalidArgument, "KV cache: {} layers, {} slots, {} KV heads of {}; each must be at least 1", num_layers, slots,
               num_kv_heads, head_dim);
  }
  if (dtype != DType::kF16 && dtype != DType::kF32) {
    return Err(ErrorCode::kUnsupported, "KV cache: element type {}, expected F16 or F32", Info(dtype).name);
  }
  int64_t row_bytes = 0, slot_bytes = 0, total = 0;
  // Two 31-bit factors cannot overflow; what follows can.
  const int64_t row_elements = int64_t{num_kv_heads} * head_dim;
  if (__builtin_mul_overflow(row_elements, Info(dtype).block_bytes, &row_bytes) ||
      __builtin_mul_overflow(row_bytes, int64_t{2} * num_layers, &slot_bytes) || __builtin_mul_overflow(slot_bytes, slots, &total)) {
    return Err(ErrorCode::kOutOfMemory, "KV cache: {} slots of {} layers, {} KV heads of {} exceed 64 bits; lower kv_tokens", slots,
               num_layers, num_kv_heads, head_dim);
  }
  if (total > MachineBytes()) {
    return Err(ErrorCode::kOutOfMemory,
               "KV cache: {} slots need {} bytes but the machine has {}; lower kv_tokens, or keep KV as f16 (kv_dtype)", slots, total,
               MachineBytes());
  }
  return {};
}

Result<KvCache> KvCache::Create(int num_layers, int64_t slots, int num_kv_heads, int head_dim, DType dtype) {
  HAAST_RETURN_IF_ERROR(Check(num_layers, slots, num_kv_heads, head_dim, dtype));
  KvCache cache;
  cache.slots_ = slots;
  cache.dtype_ = dtype;
  cache.row_bytes_ = int64_t{num_kv_heads} * head_dim * Info(dtype).block_bytes;
  cache.bytes_per_slot_ = cache.row_bytes_ * 2 * num_layers;
  const int64_t layer_bytes = cache.row_bytes_ * slots;
  for (int layer = 0; layer < num_layers; ++layer) {
    for (auto* side : {&cache.k_, &cache.v_}) {
      auto buffer = Buffer::Allocate(static_cast<size_t>(layer_bytes), "KV cache", BufferUse::kSparse);
      if (!buffer) {
        return Err(buffer.error().code, "{} (layer {} of {}; {} bytes in all)", buffer.error().message, layer, num_layers,
                   cache.bytes_per_slot_ * slots);
      }
      side->push_back(std::move(*buffer));
    }
  }
  return cache;
}

void KvCache::Move(const std::vector<int32_t>& src_slots, const std::vector<int32_t>& dst_slots) {
  HAAST_CHECK(src_slots.size() == dst_slots.size()) << src_slots.size() << " sources, " << dst_slots.size() << " destinations";
  std::vector<int32_t> src, dst;
  for (size_t i = 0; i < src_slots.size(); ++i) {
    HAAST_CHECK(src_slots[i] >= 0 && src_slots[i] < slots_ && dst_slots[i] >= 0 && dst_slots[i] < slots_)
        << "move of slot " << src_slots[i] << " to " << dst_slots[i] << " in a cache of " << slots_;
    if (src_slots[i] == dst_slots[i]) continue;
    src.push_back(src_slots[i]);
    dst.push_back(dst_slots[i]);
  }
  if (src.empty()) return;
  std::vector<int32_t> sorted = dst_slots;
  std::sort(sorted.begin(), sorted.end());
  HAAST_CHECK(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end()) << "two slots moved to one";
  std::vector<uint8_t> staging(src.size() * static_cast<size_t>(row_bytes_));
  for (auto* side : {&k_, &v_}) {
    for (Buffer& buffer : *side) MoveRows(buffer, row_bytes_, src, dst, staging.data());
  }
}

}  // namespace haast::kv
