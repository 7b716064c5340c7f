#include "engine/kv_state.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "engine/archive.h"
#include "kv/kv_image.h"

namespace haast::engine {

template <typename Archive, typename Value>
  requires std::is_same_v<std::remove_const_t<Value>, spec::Candidate>
void Describe(Archive& archive, Value& candidate) {
  auto& [token, score] = candidate;
  archive(token, score);
}

// Names every field: one that is added must be kept too, or be made again from the tokens like `index`.
template <typename Archive, typename Value>
  requires std::is_same_v<std::remove_const_t<Value>, spec::DraftState>
void Describe(Archive& archive, Value& state) {
  auto& [first, first_q_tokens, first_q_weights, carried, waiting_taps, waiting_ids, index] = state;
  static_cast<void>(index);
  archive(first, first_q_tokens, first_q_weights, carried, waiting_taps, waiting_ids);
}

namespace {

struct Packed {
  int64_t length = 0;
  int64_t draft_length = 0;
  spec::DraftState draft;
  std::span<const uint8_t> target_kv;
  std::span<const uint8_t> draft_kv;
  bool ok = false;
};

Packed Parse(std::span<const uint8_t> bytes) {
  Packed packed;
  ArchiveReader reader(bytes);
  uint64_t target_bytes = 0, draft_bytes = 0;
  reader(packed.length, packed.draft_length, packed.draft, target_bytes, draft_bytes);
  packed.target_kv = reader.Raw(target_bytes);
  packed.draft_kv = reader.Raw(draft_bytes);
  packed.ok = reader.at_end();
  return packed;
}

int64_t DraftBytes(const SequenceCaches& caches, int64_t tokens) {
  return caches.draft == nullptr ? 0 : kv::KvImageBytes(*caches.draft, tokens);
}

}  // namespace

std::vector<uint8_t> PackKvState(const Sequence& sequence, const SequenceCaches& caches) {
  const kv::KvSeq& seq = sequence.kv;
  const int64_t target_bytes = kv::KvImageBytes(*caches.target, seq.length());
  const int64_t draft_bytes = DraftBytes(caches, seq.draft_length());
  std::vector<uint8_t> bytes;
  bytes.reserve(static_cast<size_t>(target_bytes + draft_bytes) + sequence.draft.carried.size() * sizeof(float) + 256);
  ArchiveWriter writer(&bytes);
  writer(seq.length(), seq.draft_length(), sequence.draft, static_cast<uint64_t>(target_bytes), static_cast<uint64_t>(draft_bytes));
  const size_t begin = bytes.size();
  bytes.resize(begin + static_cast<size_t>(target_bytes + draft_bytes));
  const int page_size = caches.pages->page_size();
  kv::ReadKvImage(*caches.target, seq.pages(), page_size, seq.length(), bytes.data() + begin);
  if (caches.draft != nullptr) {
    kv::ReadKvImage(*caches.draft, seq.pages(), page_size, seq.draft_length(), bytes.data() + begin + target_bytes);
  }
  return bytes;
}

Status CheckKvState(std::span<const uint8_t> bytes, int64_t tokens, const SequenceCaches& caches, const spec::Drafter* drafter) {
  const Packed packed = Parse(bytes);
  if (!packed.ok) return Err(ErrorCode::kInvalidFile, "KV state: its {} bytes are cut off or malformed", bytes.size());
  if (packed.length < 0 || packed.length >= tokens || packed.draft_length < 0 || packed.draft_length > packed.length) {
    return Err(ErrorCode::kInvalidFile, "KV state: {} tokens and {} draft entries of {} tokens, of which the newest has neither",
               packed.length, packed.draft_length, tokens);
  }
  const int64_t target_bytes = kv::KvImageBytes(*caches.target, packed.length);
  const int64_t draft_bytes = DraftBytes(caches, packed.draft_length);
  if (static_cast<int64_t>(packed.target_kv.size()) != target_bytes || static_cast<int64_t>(packed.draft_kv.size()) != draft_bytes) {
    return Err(ErrorCode::kInvalidFile, "KV state: {} and {} bytes of target and draft KV, expected {} and {}", packed.target_kv.size(),
               packed.draft_kv.size(), target_bytes, draft_bytes);
  }
  const spec::DraftState& state = packed.draft;
  if (drafter != nullptr && !drafter->AcceptsState(state, packed.length, packed.draft_length)) {
    return Err(ErrorCode::kInvalidFile,
               "KV state: {} candidates, {} carried values and {} waiting features of {} tokens at {} of {} entries are no state of the "
               "request's drafter",
               state.first.size(), state.carried.size(), state.waiting_taps.size(), state.waiting_ids.size(), packed.draft_length,
               packed.length);
  }
  return {};
}

int64_t PackedLength(std::span<const uint8_t> bytes, bool with_draft) {
  const Packed packed = Parse(bytes);
  return with_draft ? packed.draft_length : packed.length;
}

void UnpackKvState(std::span<const uint8_t> bytes, const SequenceCaches& caches, Sequence* sequence) {
  Packed packed = Parse(bytes);
  kv::KvSeq& seq = sequence->kv;
  const int64_t shared = seq.length();
  HAAST_CHECK(shared <= packed.length) << shared << " tokens in shared pages, " << packed.length << " packed";
  const int page_size = caches.pages->page_size();
  kv::WriteKvImage(packed.target_kv.data(), shared, packed.length, seq.pages(), page_size, caches.target);
  seq.Commit(packed.length, page_size);
  sequence->draft = std::move(packed.draft);
  if (caches.draft == nullptr || packed.draft_length <= seq.draft_length()) return;
  kv::WriteKvImage(packed.draft_kv.data(), seq.draft_length(), packed.draft_length, seq.pages(), page_size, caches.draft);
  seq.CommitDraft(packed.draft_length, page_size);
}

}  // namespace haast::engine
