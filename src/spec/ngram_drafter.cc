#include "spec/ngram_drafter.h"

#include <algorithm>

namespace haast::spec {
namespace {

constexpr int kMinNgram = 2;  // a single token that occurred before says too little
constexpr int kMaxNgram = 8;
constexpr int64_t kSearched = 16384;  // newest tokens that are searched: bounds the time of a round

}  // namespace

int64_t FindNgram(std::span<const int32_t> tokens, int min_n, int max_n) {
  const int64_t size = static_cast<int64_t>(tokens.size());
  int64_t found = -1;
  int longest = min_n - 1;
  // `end` is where an earlier occurrence ends: the token that follows it must exist.
  for (int64_t end = size - 1; end >= 1 && longest < max_n; --end) {
    if (tokens[end - 1] != tokens[size - 1]) continue;
    int n = 1;
    while (n < max_n && end - 1 - n >= 0 && tokens[end - 1 - n] == tokens[size - 1 - n]) ++n;
    if (n > longest) {
      longest = n;
      found = end;
    }
  }
  return found;
}

Status NgramDrafter::Propose(std::span<const ProposeItem> items) {
  for (const ProposeItem& item : items) {
    item.tree->Clear();
    const int64_t searched = std::min<int64_t>(kSearched, static_cast<int64_t>(item.tokens.size()));
    const std::span<const int32_t> tokens = item.tokens.last(static_cast<size_t>(searched));
    const int64_t next = FindNgram(tokens, kMinNgram, kMaxNgram);
    if (next < 0) continue;
    const int64_t count = std::min<int64_t>({item.shape.num_tokens, item.shape.depth, searched - next});
    for (int64_t i = 0; i < count; ++i) item.tree->AppendToChain(tokens[next + i]);
  }
  return {};
}

std::unique_ptr<Drafter> MakeNgramDrafter(const DraftParts&) { return std::make_unique<NgramDrafter>(); }

}  // namespace haast::spec
