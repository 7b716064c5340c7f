#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "base/format.h"
#include "text/rust_call.h"
#include "text/utf8.h"

namespace haast::text {
namespace {

// A list of strings as the C ABI takes it.
struct Joined {
  std::string text;
  std::vector<uint64_t> ends;
};

Joined Join(const std::vector<std::string>& strings) {
  Joined joined;
  joined.ends.reserve(strings.size());
  for (const std::string& string : strings) {
    joined.text += string;
    joined.ends.push_back(joined.text.size());
  }
  return joined;
}

haast_text_status FromGguf(const GgufVocab& vocab, haast_tokenizer** out, haast_bytes* error) {
  const Joined tokens = Join(vocab.tokens);
  const Joined merges = Join(vocab.merges);
  const haast_gguf_vocab input = {
      .model = ToSlice(vocab.model),
      .pre = ToSlice(vocab.pre),
      .token_text = ToSlice(tokens.text),
      .token_ends = tokens.ends.data(),
      .token_count = tokens.ends.size(),
      .merge_text = ToSlice(merges.text),
      .merge_ends = merges.ends.data(),
      .merge_count = merges.ends.size(),
      .scores = vocab.scores.empty() ? nullptr : vocab.scores.data(),
      .types = vocab.types.empty() ? nullptr : vocab.types.data(),
      .unknown_id = vocab.unknown_id,
      .add_space_prefix = vocab.add_space_prefix,
  };
  return haast_tokenizer_from_gguf(&input, out, error);
}

Status CheckLengths(const GgufVocab& vocab, const std::string& source) {
  for (const auto& [name, size] : {std::pair{"scores", vocab.scores.size()}, std::pair{"token_type", vocab.types.size()}}) {
    if (size != 0 && size != vocab.tokens.size()) {
      return Err(ErrorCode::kInvalidFile, "{}: tokenizer.ggml.{}: expected {} values (one a token), got {}", source, name,
                 vocab.tokens.size(), size);
    }
  }
  return {};
}

std::vector<int32_t> ToIds(const haast_ids& ids) { return {ids.data, ids.data + ids.size}; }

void AddId(int32_t id, std::vector<int32_t>* ids) {
  if (id >= 0) ids->push_back(id);
}

}  // namespace

Result<std::unique_ptr<const Tokenizer>> Tokenizer::Create(const TextAssets& assets) {
  std::unique_ptr<Tokenizer> tokenizer(new Tokenizer);
  tokenizer->source_ = assets.source;
  haast_bytes error{};
  haast_text_status status = HAAST_TEXT_OK;
  if (assets.tokenizer_json.empty() && assets.gguf.model.empty()) {
    return Err(ErrorCode::kNotFound,
               "{}: expected a vocabulary, tokenizer.json in a folder or the keys tokenizer.ggml.* in a GGUF, got none: fetch the model's "
               "tokenizer too",
               assets.source);
  }
  if (assets.tokenizer_json.empty()) {
    HAAST_RETURN_IF_ERROR(CheckLengths(assets.gguf, assets.source));
    status = FromGguf(assets.gguf, &tokenizer->handle_, &error);
  } else {
    status = haast_tokenizer_from_json(ToSlice(assets.tokenizer_json), &tokenizer->handle_, &error);
  }
  if (status != HAAST_TEXT_OK) return LoadError(status, error, assets.source);
  HAAST_RETURN_IF_ERROR(tokenizer->LoadTable());
  HAAST_RETURN_IF_ERROR(tokenizer->SetSpecialIds(assets));
  return tokenizer;
}

Tokenizer::~Tokenizer() { haast_tokenizer_free(handle_); }

Status Tokenizer::LoadTable() {
  haast_bytes error{};
  haast_table table{};
  const haast_text_status status = haast_tokenizer_table(handle_, &table, &error);
  if (status != HAAST_TEXT_OK) return RustError(status, error, source_);
  bytes_ = ToView(table.bytes);
  texts_ = ToView(table.texts);
  byte_ends_.assign(table.byte_ends.data, table.byte_ends.data + table.byte_ends.size);
  text_ends_.assign(table.text_ends.data, table.text_ends.data + table.text_ends.size);
  special_.assign(table.special.data, table.special.data + table.special.size);
  prefix_ = ToIds(table.prefix);
  suffix_ = ToIds(table.suffix);
  leading_space_ = static_cast<LeadingSpace>(table.leading_space);
  haast_table_free(table);
  return {};
}

Status Tokenizer::SetSpecialIds(const TextAssets& assets) {
  bos_id_ = assets.bos_id;
  eos_ids_ = assets.eos_ids;
  std::vector<int32_t> named = eos_ids_;
  AddId(bos_id_, &named);
  for (const int32_t id : named) {
    if (id < 0 || id >= vocab_size()) {
      return Err(ErrorCode::kInvalidFile, "{}: special token id {}: expected 0 to {}, the ids of the vocabulary", source_, id,
                 vocab_size() - 1);
    }
  }
  // A tokenizer.json says itself what surrounds a prompt; where it does not, the flags do.
  if (prefix_.empty() && assets.add_bos) AddId(bos_id_, &prefix_);
  if (suffix_.empty() && assets.add_eos && !eos_ids_.empty()) suffix_.push_back(eos_ids_.front());
  return {};
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, bool parse_special) const {
  if (text.size() > kMaxTextBytes) {
    return Err(ErrorCode::kInvalidArgument, "the text has {} bytes; expected at most {}", text.size(), kMaxTextBytes);
  }
  haast_bytes error{};
  haast_ids ids{};
  const haast_text_status status = haast_tokenizer_encode(handle_, ToSlice(text), parse_special, &ids, &error);
  if (status != HAAST_TEXT_OK) return RustError(status, error, source_);
  std::vector<int32_t> result = ToIds(ids);
  haast_ids_free(ids);
  return result;
}

Result<std::vector<int32_t>> Tokenizer::EncodePrompt(std::string_view text, bool parse_special) const {
  HAAST_ASSIGN_OR_RETURN(std::vector<int32_t> ids, Encode(text, parse_special));
  ids.insert(ids.begin(), prefix_.begin(), prefix_.end());
  ids.insert(ids.end(), suffix_.begin(), suffix_.end());
  return ids;
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool skip_special) const {
  std::string bytes;
  bool at_start = true;
  for (const int32_t id : ids) AppendBytes(id, skip_special, &at_start, &bytes);
  return ToValidUtf8(bytes);
}

void Tokenizer::AppendBytes(int32_t id, bool skip_special, bool* at_start, std::string* out) const {
  if (id < 0 || id >= vocab_size() || (skip_special && IsSpecial(id))) return;
  std::string_view bytes = TokenBytes(id);
  if (!std::exchange(*at_start, false) || leading_space_ == LeadingSpace::kKeep) {
    out->append(bytes);
    return;
  }
  if (leading_space_ == LeadingSpace::kDropOne) {
    if (bytes.starts_with(' ')) bytes.remove_prefix(1);
    out->append(bytes);
    return;
  }
  std::copy_if(bytes.begin(), bytes.end(), std::back_inserter(*out), [](char c) { return c != ' '; });
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const uint32_t begin = id == 0 ? 0 : byte_ends_[id - 1];
  return std::string_view(bytes_).substr(begin, byte_ends_[id] - begin);
}

std::string_view Tokenizer::TokenText(int32_t id) const {
  if (id < 0 || id >= vocab_size()) return {};
  const uint32_t begin = id == 0 ? 0 : text_ends_[id - 1];
  return std::string_view(texts_).substr(begin, text_ends_[id] - begin);
}

std::optional<int32_t> Tokenizer::TokenToId(std::string_view token) const {
  const int64_t id = haast_tokenizer_token_to_id(handle_, ToSlice(token));
  if (id < 0) return std::nullopt;
  return static_cast<int32_t>(id);
}

bool Tokenizer::IsSpecial(int32_t id) const { return id >= 0 && id < vocab_size() && special_[id] != 0; }

bool Tokenizer::IsEos(int32_t id) const { return std::find(eos_ids_.begin(), eos_ids_.end(), id) != eos_ids_.end(); }

}  // namespace haast::text
