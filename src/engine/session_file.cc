#include "engine/session_file.h"

#include <cstring>

#include "base/checksum.h"
#include "base/format.h"
#include "base/printable.h"
#include "engine/archive.h"

namespace haast::engine {
namespace {

constexpr char kMagic[] = {'H', 'A', 'A', 'S', 'T', 'S', 'E', 'S'};
constexpr size_t kHeaderBytes = sizeof(kMagic) + sizeof(kSessionVersion) + sizeof(uint64_t);

template <typename Value, typename T>
concept Is = std::is_same_v<std::remove_const_t<Value>, T>;

}  // namespace

// Each names every field of its struct: one that is added does not compile until it is saved too.
template <typename Archive, Is<TokenBias> Value>
void Describe(Archive& archive, Value& entry) {
  auto& [token, bias] = entry;
  archive(token, bias);
}

template <typename Archive, Is<SamplingParams> Value>
void Describe(Archive& archive, Value& params) {
  auto& [temperature, top_k, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty, logit_bias, seed] = params;
  archive(temperature, top_k, top_p, min_p, repetition_penalty, frequency_penalty, presence_penalty, logit_bias, seed);
}

template <typename Archive, Is<SpeculationParams> Value>
void Describe(Archive& archive, Value& params) {
  auto& [algorithm, num_draft_tokens, top_k, depth, automatic, sampling] = params;
  archive(algorithm, num_draft_tokens, top_k, depth, automatic, sampling);
}

template <typename Archive, Is<Request> Value>
void Describe(Archive& archive, Value& request) {
  auto& [prompt, sampling, speculation, max_tokens, min_tokens, eos_ids, logprobs, prompt_logprobs, constraint] = request;
  static_cast<void>(constraint);  // made anew from the tokens
  archive(prompt, sampling, speculation, max_tokens, min_tokens, eos_ids, logprobs, prompt_logprobs);
}

template <typename Archive, Is<SpeculationStats> Value>
void Describe(Archive& archive, Value& stats) {
  auto& [rounds, drafted, accepted, emitted, accepted_at] = stats;
  archive(rounds, drafted, accepted, emitted, accepted_at);
}

template <typename Archive, Is<spec::AcceptanceEstimate::Counts> Value>
void Describe(Archive& archive, Value& counts) {
  auto& [tried, accepted] = counts;
  archive(tried, accepted);
}

template <typename Archive, Is<SessionOrigin> Value>
void Describe(Archive& archive, Value& origin) {
  auto& [build, backend, kv_dtype, model, drafter, drafter_weights] = origin;
  archive(build, backend, kv_dtype, model, drafter, drafter_weights);
}

template <typename Archive, Is<Session> Value>
void Describe(Archive& archive, Value& session) {
  auto& [origin, request, constrained, most_tokens, generated, stats, acceptance, planned_depth, cached_prompt_tokens, age, since_start,
         since_first_token, kv_state, note] = session;
  archive(origin, request, constrained, most_tokens, generated, stats, acceptance, planned_depth, cached_prompt_tokens, age, since_start,
          since_first_token, kv_state, note);
}

std::vector<uint8_t> EncodeSession(const Session& session) {
  std::vector<uint8_t> fields;
  ArchiveWriter field_writer(&fields);
  field_writer(session);
  std::vector<uint8_t> bytes;
  bytes.reserve(kHeaderBytes + fields.size() + sizeof(uint64_t));
  ArchiveWriter writer(&bytes);
  writer.Raw(kMagic, sizeof(kMagic));
  writer(kSessionVersion, static_cast<uint64_t>(fields.size()));
  writer.Raw(fields.data(), fields.size());
  writer(base::Checksum(bytes));
  return bytes;
}

Result<Session> DecodeSession(std::span<const uint8_t> bytes, const std::string& path) {
  if (bytes.size() < kHeaderBytes || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) {
    return Err(ErrorCode::kInvalidFile, "{}: expected a saved session (it begins with HAASTSES), got {} other bytes", path, bytes.size());
  }
  ArchiveReader header(bytes.subspan(sizeof(kMagic)));
  uint32_t version = 0;
  uint64_t size = 0;
  header(version, size);
  if (version != kSessionVersion) {
    return Err(ErrorCode::kInvalidFile,
               "{}: a session of version {}, but this build reads version {}: resume it with the build that saved it", path, version,
               kSessionVersion);
  }
  const uint64_t rest = bytes.size() - kHeaderBytes;
  if (rest < sizeof(uint64_t) || size != rest - sizeof(uint64_t)) {
    return Err(ErrorCode::kInvalidFile, "{}: cut off or grown: its header promises {} bytes of fields and 8 of checksum, {} follow", path,
               size, rest);
  }
  ArchiveReader trailer(bytes.last(sizeof(uint64_t)));
  uint64_t expected = 0;
  trailer(expected);
  const uint64_t actual = base::Checksum(bytes.first(bytes.size() - sizeof(uint64_t)));
  if (actual != expected) {
    return Err(ErrorCode::kInvalidFile, "{}: damaged: checksum {:016x}, expected {:016x}", path, actual, expected);
  }
  ArchiveReader fields(bytes.subspan(kHeaderBytes, size));
  Session session;
  fields(session);
  if (!fields.at_end()) return Err(ErrorCode::kInvalidFile, "{}: its {} bytes of fields are not those of a session", path, size);
  return session;
}

Status CheckOrigin(const SessionOrigin& saved, const SessionOrigin& here, const std::string& path) {
  const auto differs = [&](const char* what, const auto& theirs, const auto& ours) -> Status {
    if (theirs == ours) return {};
    return Err(ErrorCode::kInvalidFile,
               "{}: saved with another {}: {}, here it is {}; the answer would not be the same: resume with what it was saved with", path,
               what, base::Label(fmt::to_string(theirs)), ours);
  };
  HAAST_RETURN_IF_ERROR(differs("build of haast", saved.build, here.build));
  HAAST_RETURN_IF_ERROR(differs("backend", saved.backend, here.backend));
  HAAST_RETURN_IF_ERROR(differs("KV type (kv_dtype)", saved.kv_dtype, here.kv_dtype));
  HAAST_RETURN_IF_ERROR(differs("model (fingerprint)", saved.model, here.model));
  HAAST_RETURN_IF_ERROR(differs("draft head or draft model (fingerprint; 0: none)", saved.drafter, here.drafter));
  return differs("draft quantisation (draft_quantisation)", saved.drafter_weights, here.drafter_weights);
}

}  // namespace haast::engine
