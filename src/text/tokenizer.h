// Text to token ids and back: the `tokenizers` library behind a C ABI for encoding, a table of byte strings for decoding.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "haast/result.h"
#include "haast/text_assets.h"

struct haast_tokenizer;  // Rust side

namespace haast::text {

// One vocabulary, from a tokenizer.json or from GGUF metadata. Immutable; every const method may be called from several
// threads at once. The text of a token run is the concatenation of its tokens' bytes with ill-formed parts replaced by
// U+FFFD (utf8.h), so that a stream of tokens has a text at every point.
//
// For byte-level vocabularies that is what Hugging Face decodes. For SentencePiece vocabularies with byte fallback it
// differs in one case: a run of byte tokens that is not valid UTF-8 as a whole. Hugging Face turns every byte of such a
// run into U+FFFD, which no bounded stream can do; here its valid characters are kept.
class Tokenizer {
 public:
  // Errors: kInvalidFile (malformed or inconsistent vocabulary), kUnsupported (a pre-tokenizer or decoder that is not
  // known; a decoder under which a token has no bytes of its own, for example WordPiece). Messages name `assets.source`.
  static Result<std::unique_ptr<const Tokenizer>> Create(const TextAssets& assets);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Ids of `text`, which must be valid UTF-8 of at most kMaxTextBytes (kInvalidArgument). No token is added.
  // parse_special: the text of a special token gives its id (rendered chat templates); otherwise it is ordinary text (what
  // a user typed). Added tokens that are not special are recognised either way, as Hugging Face does.
  Result<std::vector<int32_t>> Encode(std::string_view text, bool parse_special) const;
  // Encode, with the tokens that the vocabulary puts around a raw prompt (bos, eos). Not for rendered chat templates,
  // which write their own.
  Result<std::vector<int32_t>> EncodePrompt(std::string_view text, bool parse_special) const;

  // Text of a token run: valid UTF-8. skip_special leaves out special tokens. Ids outside the vocabulary have no text.
  std::string Decode(std::span<const int32_t> ids, bool skip_special) const;

  // The bytes that this token contributes to a text (not always whole characters); empty for ids outside the vocabulary.
  // Valid while the tokenizer lives.
  std::string_view TokenBytes(int32_t id) const;
  // How the vocabulary file spells this token ("Ġthe", "<0x0A>", "<|im_end|>"); empty for ids outside the vocabulary.
  std::string_view TokenText(int32_t id) const;
  // The id of a token spelled as TokenText gives it.
  std::optional<int32_t> TokenToId(std::string_view token) const;
  bool IsSpecial(int32_t id) const;

  // Highest id + 1, added tokens included. A model may have more rows than this (padding); those ids have no text.
  int32_t vocab_size() const { return static_cast<int32_t>(special_.size()); }
  // -1 where the file names none.
  int32_t bos_id() const { return bos_id_; }
  const std::vector<int32_t>& eos_ids() const { return eos_ids_; }
  bool IsEos(int32_t id) const;

  // A million tokens of prose. Encoding takes up to 340 bytes of memory a byte of text.
  static constexpr size_t kMaxTextBytes = size_t{4} << 20;

 private:
  friend class StreamDecoder;
  // What happens to the spaces that begin a text (SentencePiece writes one before the first word).
  enum class LeadingSpace : uint8_t { kKeep, kDropOne, kDropAllOfFirstToken };

  Tokenizer() = default;
  Status LoadTable();
  Status SetSpecialIds(const TextAssets& assets);
  // Appends what `id` adds to a text; `at_start` is true until the first token that has a text, special or not.
  void AppendBytes(int32_t id, bool skip_special, bool* at_start, std::string* out) const;

  haast_tokenizer* handle_ = nullptr;  // owned
  std::string source_;
  std::string bytes_;                // all tokens' bytes, one after the other
  std::string texts_;                // all tokens' spellings
  std::vector<uint32_t> byte_ends_;  // [vocab]
  std::vector<uint32_t> text_ends_;  // [vocab]
  std::vector<uint8_t> special_;     // [vocab]
  std::vector<int32_t> prefix_;      // what EncodePrompt puts before
  std::vector<int32_t> suffix_;      // and after
  LeadingSpace leading_space_ = LeadingSpace::kKeep;
  int32_t bos_id_ = -1;
  std::vector<int32_t> eos_ids_;
};

}  // namespace haast::text
