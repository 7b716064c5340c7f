#include "kv/kv_image.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace haast::kv {
namespace {

// Calls copy(byte offset in a layer's buffer, byte offset in a run of the sequence's tokens, bytes) for each page's part of
// tokens first .. tokens - 1.
template <typename Copy>
void ForEachPage(const KvCache& cache, std::span<const int32_t> pages, int page_size, int64_t first, int64_t tokens, const Copy& copy) {
  HAAST_CHECK(first >= 0 && tokens <= static_cast<int64_t>(pages.size()) * page_size)
      << tokens << " tokens in " << pages.size() << " pages";
  for (int64_t t = first; t < tokens;) {
    const int64_t offset = t % page_size;
    const int64_t count = std::min(page_size - offset, tokens - t);
    const int64_t slot = int64_t{pages[t / page_size]} * page_size + offset;
    HAAST_CHECK(slot >= 0 && slot + count <= cache.slots()) << "slot " << slot << " of " << cache.slots();
    copy(slot * cache.row_bytes(), t * cache.row_bytes(), static_cast<size_t>(count * cache.row_bytes()));
    t += count;
  }
}

}  // namespace

void ReadKvImage(const KvCache& cache, std::span<const int32_t> pages, int page_size, int64_t tokens, uint8_t* out) {
  for (int layer = 0; layer < cache.num_layers(); ++layer) {
    for (const void* side : {cache.k(layer), cache.v(layer)}) {
      const auto* rows = static_cast<const uint8_t*>(side);
      ForEachPage(cache, pages, page_size, 0, tokens,
                  [&](int64_t in_cache, int64_t in_run, size_t bytes) { std::memcpy(out + in_run, rows + in_cache, bytes); });
      out += tokens * cache.row_bytes();
    }
  }
}

void WriteKvImage(const uint8_t* image, int64_t first, int64_t tokens, std::span<const int32_t> pages, int page_size, KvCache* cache) {
  for (int layer = 0; layer < cache->num_layers(); ++layer) {
    for (void* side : {cache->k(layer), cache->v(layer)}) {
      auto* rows = static_cast<uint8_t*>(side);
      ForEachPage(*cache, pages, page_size, first, tokens,
                  [&](int64_t in_cache, int64_t in_run, size_t bytes) { std::memcpy(rows + in_cache, image + in_run, bytes); });
      image += tokens * cache->row_bytes();
    }
  }
}

}  // namespace haast::kv
