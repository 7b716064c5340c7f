// What a request has beside its tokens: target and draft KV and the drafter's state, as bytes that know no pages. Swapping and
// saving write the same ones.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/sequence.h"
#include "haast/result.h"
#include "kv/kv_cache.h"

namespace haast::engine {

// Where the KV of one request lies.
struct SequenceCaches {
  kv::KvCache* target = nullptr;
  kv::KvCache* draft = nullptr;  // of the request's drafter; null: it writes none
  kv::PagePool* pages = nullptr;
};

// The bytes of `sequence` as it stands between steps.
std::vector<uint8_t> PackKvState(const Sequence& sequence, const SequenceCaches& caches);

// Checks packed bytes of a request of `tokens` tokens against the caches and its drafter (null: none): nothing in them may lead a
// launch astray. A packed state never covers the newest token. kInvalidFile names what differs.
Status CheckKvState(std::span<const uint8_t> bytes, int64_t tokens, const SequenceCaches& caches, const spec::Drafter* drafter);

// Gives `sequence` the packed state (one that CheckKvState accepts). Its KV begins with the shared pages it may hold already,
// of which nothing is written, and must be reserved for the rest.
void UnpackKvState(std::span<const uint8_t> bytes, const SequenceCaches& caches, Sequence* sequence);

// Tokens of a packed state whose target KV and, with `with_draft`, draft KV are both there.
int64_t PackedLength(std::span<const uint8_t> bytes, bool with_draft);

}  // namespace haast::engine
