// The front of the engine: creation, and what other threads may call.
#include <algorithm>

#include "base/clock.h"
#include "base/format.h"
#include "engine/engine_impl.h"

namespace haast {

namespace engine {
namespace {

// Drafts of a drafter without costs would count as free.
Status CheckCostsAreThere(const StepCosts& costs, const LoadedModels& models) {
  const char* missing = nullptr;
  if (models.draft && (costs.head_step.empty() || costs.head_extend.empty())) missing = "head_step and head_extend, but a head";
  if (models.draft_model && costs.draft_model.empty()) missing = "draft_model, but a draft model";
  if (missing == nullptr) return {};
  return Err(ErrorCode::kInvalidArgument,
             "step costs: no launches of {} is loaded: measure them with it (MeasureStepCosts, haast bench --costs-out)", missing);
}

}  // namespace
}  // namespace engine

Result<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options) {
  EngineOptions resolved = options;
  HAAST_ASSIGN_OR_RETURN(engine::LoadedModels models, engine::LoadModels(&resolved));
  if (resolved.step_costs != nullptr) HAAST_RETURN_IF_ERROR(engine::CheckCostsAreThere(*resolved.step_costs, models));
  return std::make_unique<engine::EngineImpl>(std::move(resolved), std::move(models));
}

namespace engine {
Status EngineImpl::CheckRequest(const Request& request) const {
  const int64_t prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t vocab = models_.target_info.vocab_size;
  auto invalid = [](std::string message) { return MakeError(ErrorCode::kInvalidArgument, std::move(message)); };
  if (prompt == 0) return invalid("the prompt is empty; give at least one token");
  if (prompt >= options_.max_context) {
    return invalid(fmt::format(
        "the prompt has {} tokens, but the context is {} and the answer needs at least one; shorten the prompt, or raise max_context",
        prompt, options_.max_context));
  }
  for (int64_t i = 0; i < prompt; ++i) {
    if (request.prompt[i] < 0 || request.prompt[i] >= vocab) {
      return invalid(fmt::format("prompt[{}] = {} is outside the vocabulary of {}", i, request.prompt[i], vocab));
    }
  }
  if (request.max_tokens < 1) return invalid(fmt::format("max_tokens = {}: expected at least 1", request.max_tokens));
  if (request.min_tokens < 0 || request.min_tokens > request.max_tokens) {
    return invalid(fmt::format("min_tokens = {}: expected 0 to max_tokens, which is {}", request.min_tokens, request.max_tokens));
  }
  for (const auto& [name, value] : {std::pair("logprobs", request.logprobs), {"prompt_logprobs", request.prompt_logprobs}}) {
    if (value < -1 || value > kMaxLogprobs) return invalid(fmt::format("{} = {}: expected -1 (none) to {}", name, value, kMaxLogprobs));
  }
  HAAST_RETURN_IF_ERROR(sampling::CheckSamplingParams(request.sampling, vocab));
  if (request.speculation.algorithm != SpeculativeAlgorithm::kNone) {
    HAAST_RETURN_IF_ERROR(CheckSpeculation(request.speculation));
    const SpeculativeAlgorithm algorithm = request.speculation.algorithm;
    const size_t index = static_cast<size_t>(algorithm);
    if (index >= drafters_.size() || drafters_[index] == nullptr) {
      return invalid(fmt::format("speculation with {} was asked for, but the engine has not loaded {}; load it or turn speculation off",
                                 SpeculativeAlgorithmName(algorithm), MissingFor(algorithm)));
    }
  }
  const int64_t pages = kv::PagesFor(MostTokens(request), options_.page_size);
  const int64_t total = models_.pages->num_pages() - 1;
  if (pages > total) {
    return invalid(fmt::format("the request needs {} KV pages of {} tokens, but the pool has {}; lower max_tokens or raise kv_tokens",
                               pages, options_.page_size, total));
  }
  return {};
}

Result<RequestId> EngineImpl::Submit(Request request) {
  HAAST_RETURN_IF_ERROR(CheckRequest(request));
  auto sequence = std::make_unique<Sequence>();
  sequence->tokens = request.prompt;
  sequence->edits = sampling::LogitEdits(request);
  sequence->request = std::move(request);
  sequence->submitted = base::NowSeconds();
  return Enqueue(std::move(sequence));
}

RequestId EngineImpl::Enqueue(std::unique_ptr<Sequence> sequence) {
  std::lock_guard lock(inbox_mutex_);
  const RequestId id = next_id_++;
  sequence->id = id;
  inbox_.push_back(std::move(sequence));
  unfinished_.fetch_add(1);
  return id;
}

void EngineImpl::Cancel(RequestId id) {
  std::lock_guard lock(inbox_mutex_);
  cancelled_.push_back(id);
}

}  // namespace engine
}  // namespace haast
