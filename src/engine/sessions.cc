// Requests that outlive the process: Save and Resume. A resumed request is one that waits with its swapped KV.
#include <algorithm>

#include "base/build_id.h"
#include "base/clock.h"
#include "base/file_bytes.h"
#include "base/format.h"
#include "engine/engine_impl.h"
#include "io/fingerprint.h"

namespace haast::engine {
namespace {

constexpr int64_t kMostFieldBytes = int64_t{256} << 20;  // of a session file, beside its KV

double Since(double time, double now) { return time > 0.0 ? now - time : -1.0; }
double Before(double now, double seconds) { return seconds >= 0.0 ? now - seconds : 0.0; }

}  // namespace

uint64_t EngineImpl::FingerprintOf(const io::ModelFile& file) {
  const auto [it, fresh] = fingerprints_.try_emplace(&file, 0);
  if (fresh) it->second = io::Fingerprint(file);
  return it->second;
}

SessionOrigin EngineImpl::OriginOf(const Request& request) {
  SessionOrigin origin;
  origin.build = base::BuildId();
  origin.backend = options_.backend;
  origin.kv_dtype = Info(models_.target_runner->cache().dtype()).name;
  origin.model = FingerprintOf(*models_.target_file);
  const DraftSource source = DraftSourceOf(request.speculation.algorithm);
  if (IsHead(source) && models_.draft_file) {
    origin.drafter = FingerprintOf(*models_.draft_file);
    origin.drafter_weights = options_.draft_quantisation;
  } else if (source == DraftSource::kDraftModel && models_.draft_model_file) {
    origin.drafter = FingerprintOf(*models_.draft_model_file);
  }
  return origin;
}

Result<Session> EngineImpl::ToSession(const Sequence& sequence) {
  Session session;
  session.origin = OriginOf(sequence.request);
  session.request = sequence.request;
  session.request.constraint.reset();
  session.constrained = sequence.request.constraint != nullptr;
  session.most_tokens = MostTokens(sequence.request);
  session.generated.assign(sequence.tokens.begin() + static_cast<int64_t>(sequence.request.prompt.size()), sequence.tokens.end());
  session.stats = sequence.stats;
  session.acceptance = sequence.acceptance.counts();
  session.planned_depth = sequence.planned_depth;
  session.cached_prompt_tokens = sequence.cached_prompt_tokens;
  const double now = base::NowSeconds();
  session.age = now - sequence.submitted;
  session.since_start = Since(sequence.started, now);
  session.since_first_token = Since(sequence.first_token, now);
  if (sequence.swapped) {
    HAAST_ASSIGN_OR_RETURN(session.kv_state, sequence.swapped->Read());
  } else if (CanPack(sequence)) {
    session.kv_state = PackKvState(sequence, CachesOf(sequence));
  }
  return session;
}

Status EngineImpl::Save(RequestId id, const std::string& path, const std::string& note) {
  std::lock_guard lock(inbox_mutex_);
  const Sequence* sequence = nullptr;
  const auto look_in = [&](const auto& queue) {
    for (const auto& each : queue) {
      if (each->id == id) sequence = each.get();
    }
  };
  look_in(running_);
  look_in(waiting_);
  look_in(inbox_);
  if (sequence == nullptr) return Err(ErrorCode::kNotFound, "request {} neither runs nor waits: there is nothing to save", id);
  HAAST_ASSIGN_OR_RETURN(Session session, ToSession(*sequence));
  session.note = note;
  return base::WriteFileAtomically(path, EncodeSession(session));
}

Result<std::unique_ptr<Sequence>> EngineImpl::FromSession(Session* session, const std::string& path) {
  const auto refuse = [&](const std::string& why) { return Err(ErrorCode::kInvalidFile, "{}: cannot go on here: {}", path, why); };
  HAAST_RETURN_IF_ERROR(CheckOrigin(session->origin, OriginOf(session->request), path));
  const Status accepted = CheckRequest(session->request);
  if (!accepted) return refuse(accepted.error().message);
  auto sequence = std::make_unique<Sequence>();
  sequence->request = std::move(session->request);
  sequence->tokens = sequence->request.prompt;
  sequence->tokens.insert(sequence->tokens.end(), session->generated.begin(), session->generated.end());
  sequence->edits = sampling::LogitEdits(sequence->request);
  const int64_t tokens = static_cast<int64_t>(sequence->tokens.size());
  const int64_t most = MostTokens(sequence->request);
  if (most != session->most_tokens || tokens >= most) {
    return refuse(fmt::format("prompt and answer may have {} tokens in this context, {} where it was saved, and {} are there", most,
                              session->most_tokens, tokens));
  }
  const auto outside = [&](int32_t token) { return token < 0 || token >= models_.target_info.vocab_size; };
  if (std::any_of(session->generated.begin(), session->generated.end(), outside)) return refuse("a token is outside the vocabulary");
  for (const int32_t token : session->generated) sequence->edits.Advance(token);
  if (!session->kv_state.empty()) {
    const Status state = CheckKvState(session->kv_state, tokens, CachesOf(*sequence), DrafterOf(*sequence));
    if (!state) return refuse(state.error().message);
    Keep(std::move(session->kv_state), sequence.get());  // without room it is computed again
  }
  if (!spec::AcceptanceEstimate::AreCounts(session->acceptance) || session->planned_depth < 0 ||
      session->planned_depth > sequence->request.speculation.num_draft_tokens) {
    return refuse(fmt::format("{:.3g} of {:.3g} first drafts accepted and a plan of {} drafts are no state of it",
                              session->acceptance.accepted[0], session->acceptance.tried[0], session->planned_depth));
  }
  sequence->acceptance = spec::AcceptanceEstimate(session->acceptance);
  sequence->planned_depth = session->planned_depth;
  sequence->stats = session->stats;
  sequence->cached_prompt_tokens = session->cached_prompt_tokens;
  const double now = base::NowSeconds();
  sequence->submitted = now - std::max(0.0, session->age);
  sequence->started = Before(now, session->since_start);
  sequence->first_token = Before(now, session->since_first_token);
  return sequence;
}

Result<ResumedRequest> EngineImpl::Resume(const std::string& path, const ConstraintMaker& make_constraint) {
  int64_t slot_bytes = models_.target_runner->cache().bytes_per_slot();
  for (const auto& drafter : drafters_) {
    if (drafter && drafter->runner() != nullptr) slot_bytes += drafter->runner()->cache().bytes_per_slot();
  }
  const auto bytes = base::ReadFileBytes(path, slot_bytes * options_.max_context + kMostFieldBytes);
  if (!bytes) return Err(bytes.error().code, "{}: expected a saved session", bytes.error().message);
  HAAST_ASSIGN_OR_RETURN(Session session, DecodeSession(*bytes, path));
  HAAST_ASSIGN_OR_RETURN(std::unique_ptr<Sequence> sequence, FromSession(&session, path));
  ResumedRequest resumed{.request = sequence->request, .generated = std::move(session.generated), .note = std::move(session.note)};
  if (session.constrained) {
    if (make_constraint) sequence->request.constraint = make_constraint(resumed);
    if (!sequence->request.constraint) {
      return Err(ErrorCode::kInvalidArgument, "{}: the request has a constraint (stop strings or the like): give it again to resume", path);
    }
    for (const int32_t token : resumed.generated) {
      if (!sequence->request.constraint->finished()) sequence->request.constraint->Advance(token);
    }
    if (sequence->request.constraint->finished()) {
      return Err(ErrorCode::kInvalidArgument, "{}: the constraint given to resume ends the answer before its {} saved tokens", path,
                 resumed.generated.size());
    }
    resumed.request.constraint = sequence->request.constraint;
  }
  resumed.id = Enqueue(std::move(sequence));
  return resumed;
}

}  // namespace haast::engine
