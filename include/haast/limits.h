// Bounds of single settings, whatever the model: what the engine accepts and the front doors offer.
#pragma once

#include <cstdint>

namespace haast {

inline constexpr int64_t kMaxContext = int64_t{1} << 30;            // tokens of a sequence; a model's own limit is lower
inline constexpr int64_t kMaxKvTokens = (int64_t{1} << 31) - 2048;  // of the KV pool: slots, two more pages included, are int32
inline constexpr int kMaxPageSize = 1024;
inline constexpr int kMaxPrefillChunk = 65536;
inline constexpr int kMaxBatch = 1024;
inline constexpr int kMaxThreads = 1024;
inline constexpr int kMaxDraftTokens = 63;  // drafts of a round: with the root 64 rows, one word of the tree mask
inline constexpr int kMaxDraftTopK = 16;
inline constexpr int kMaxTreeDepth = 16;  // levels of a draft tree with top_k above 1
inline constexpr int kMaxLogprobs = 20;

}  // namespace haast
