// The KV of one sequence as one run of bytes: layer by layer, K then V, each [tokens, kv_heads, head_dim] without gaps. It knows no
// pages, so it can be written back to others, of another size.
#pragma once

#include <cstdint>
#include <span>

#include "kv/kv_cache.h"

namespace haast::kv {

inline int64_t KvImageBytes(const KvCache& cache, int64_t tokens) { return tokens * cache.bytes_per_slot(); }

// Copies the first `tokens` tokens of `pages` out. out: KvImageBytes(cache, tokens).
void ReadKvImage(const KvCache& cache, std::span<const int32_t> pages, int page_size, int64_t tokens, uint8_t* out);

// Copies tokens `first` to `tokens` - 1 of an image of `tokens` tokens to where `pages` keep them.
void WriteKvImage(const uint8_t* image, int64_t first, int64_t tokens, std::span<const int32_t> pages, int page_size, KvCache* cache);

}  // namespace haast::kv
