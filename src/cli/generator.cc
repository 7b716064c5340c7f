#include "cli/generator.h"

#include <algorithm>
#include <unordered_map>

#include "base/clock.h"
#include "base/format.h"
#include "cli/interrupt.h"
#include "cli/load_progress.h"
#include "cli/session_note.h"
#include "haast/model_info.h"
#include "text/stop_constraint.h"

namespace haast::cli {
namespace {

std::shared_ptr<const text::StopSet> OrNoStops(std::shared_ptr<const text::StopSet> stops) {
  return stops != nullptr ? std::move(stops) : *text::StopSet::Create({});
}

// A head has no vocabulary of its own.
tl::unexpected<Error> WhyNoTokenizer(const std::string& model, Error error) {
  const Result<ModelInfo> info = InspectModel(model);
  if (!info || info->target_hidden_size == 0) return tl::make_unexpected(std::move(error));
  return Err(ErrorCode::kUnsupported, "{}: expected a whole model, got a draft head ('{}'), which goes to options.draft", model,
             info->architecture);
}

}  // namespace

AnswerBuilder::AnswerBuilder(const text::Tokenizer& tokenizer, std::shared_ptr<const text::StopSet> stops)
    : decoder_(tokenizer, /*skip_special=*/true), matcher_(OrNoStops(std::move(stops))) {}

StepText AnswerBuilder::Add(const Event& event) {
  StepText step;
  answer_.prompt.insert(answer_.prompt.end(), event.prompt.begin(), event.prompt.end());
  for (const TokenOutput& output : event.tokens) {
    answer_.tokens.push_back(output);
    step.pieces.push_back(matcher_.Push(decoder_.Push(output.token)).text);
    answer_.text += step.pieces.back();
  }
  if (event.finish != FinishReason::kNone) {
    step.tail = matcher_.Push(decoder_.Finish()).text;
    if (!matcher_.stopped()) step.tail += matcher_.Finish();
    answer_.text += step.tail;
    answer_.finish = event.finish;
    answer_.error = event.error;
    answer_.speculation = event.speculation;
    answer_.timings = event.timings;
  }
  return step;
}

Result<std::unique_ptr<Generator>> Generator::Load(const EngineOptions& options, Output& err) {
  const double start = base::NowSeconds();
  const LoadProgress progress(err, "loading " + options.model);
  std::unique_ptr<Generator> generator(new Generator());
  HAAST_ASSIGN_OR_RETURN(const TextAssets assets, LoadTextAssets(options.model));
  auto tokenizer = text::Tokenizer::Create(assets);
  if (!tokenizer) return WhyNoTokenizer(options.model, std::move(tokenizer.error()));
  generator->tokenizer_ = std::move(*tokenizer);
  if (!assets.chat_template.empty()) {
    HAAST_ASSIGN_OR_RETURN(generator->chat_template_, text::ChatTemplate::Create(assets, *generator->tokenizer_));
  }
  generator->eos_ids_ = generator->tokenizer_->eos_ids();
  HAAST_ASSIGN_OR_RETURN(generator->engine_, Engine::Create(options));
  generator->load_seconds_ = base::NowSeconds() - start;
  return generator;
}

Result<std::vector<int32_t>> Generator::CheckRoom(Result<std::vector<int32_t>> ids, const std::string& name) const {
  const std::string begin = name.empty() ? "" : name + ": ";
  if (!ids) return MakeError(ids.error().code, begin + ids.error().message);
  const int64_t context = engine_->options().max_context;
  if (static_cast<int64_t>(ids->size()) < context) return ids;
  return Err(
      ErrorCode::kInvalidArgument,
      "{}the prompt has {} tokens, but the context is {} and the answer needs at least one; shorten the prompt, or raise max_context",
      begin, ids->size(), context);
}

Result<std::vector<int32_t>> Generator::EncodeChat(const std::vector<text::ChatMessage>& messages, const std::string& name) const {
  if (chat_template_ == nullptr) {
    return Err(ErrorCode::kInvalidArgument, "{}: expected a chat template, got none: give the whole prompt with --raw",
               engine_->options().model);
  }
  const Result<std::string> prompt = chat_template_->Render(messages);
  return CheckRoom(prompt.and_then([&](const std::string& text) { return tokenizer_->Encode(text, /*parse_special=*/true); }), name);
}

Result<std::vector<int32_t>> Generator::EncodeRaw(const std::string& text, const std::string& name) const {
  return CheckRoom(tokenizer_->EncodePrompt(text, /*parse_special=*/true), name);
}

Result<RequestId> Generator::Submit(const TextRequest& text_request) {
  Request request;
  request.prompt = text_request.prompt;
  request.sampling = text_request.sampling;
  request.speculation = text_request.speculation;
  request.logprobs = text_request.logprobs;
  request.prompt_logprobs = text_request.prompt_logprobs;
  if (!text_request.ignore_eos) request.eos_ids = eos_ids_;
  const int64_t room = engine_->options().max_context - static_cast<int64_t>(request.prompt.size());
  request.max_tokens = std::min(text_request.max_tokens, std::max<int64_t>(room, 1));
  request.min_tokens = std::min(text_request.min_tokens, std::max<int64_t>(room, 1));
  if (text_request.stops != nullptr && !text_request.stops->stops().empty()) {
    request.constraint = std::make_shared<text::StopConstraint>(*tokenizer_, text_request.stops, /*skip_special=*/true);
  }
  return engine_->Submit(std::move(request));
}

Result<Answer> Generator::RunToEnd(RequestId id, const TextRequest& request, const AnswerSink& sink, const SavePlan& save,
                                   AnswerBuilder* builder) {
  Status saved;
  const auto save_now = [&] {
    const auto stops = request.stops != nullptr ? request.stops->stops() : std::vector<std::string>();
    saved = engine_->Save(id, save.path, WriteNote({stops, builder->so_far().prompt, builder->so_far().tokens}));
    if (!saved) engine_->Cancel(id);
  };
  size_t tokens_saved = builder->so_far().tokens.size();
  bool running = true;
  while (!engine_->idle()) {
    if (InterruptScope::Interrupted()) {
      if (!save.path.empty() && running && saved) save_now();
      engine_->Cancel(id);
    }
    for (const Event& event : engine_->Step()) {
      running &= event.finish == FinishReason::kNone;
      const StepText text = builder->Add(event);
      if (sink && !sink(event, text)) engine_->Cancel(id);
    }
    const size_t tokens = builder->so_far().tokens.size();
    if (save.path.empty() || !running || !saved || tokens < tokens_saved + static_cast<size_t>(save.every)) continue;
    save_now();
    tokens_saved = tokens;
  }
  HAAST_RETURN_IF_ERROR(saved);
  return builder->Take();
}

Result<Answer> Generator::Run(const TextRequest& request, const AnswerSink& sink, const SavePlan& save) {
  HAAST_ASSIGN_OR_RETURN(const RequestId id, Submit(request));
  AnswerBuilder builder(*tokenizer_, request.stops);
  return RunToEnd(id, request, sink, save, &builder);
}

Result<Answer> Generator::Resume(const std::string& path, const AnswerSink& sink, const SavePlan& save, TextRequest* request) {
  Result<SessionNote> note;
  const ConstraintMaker make_constraint = [&](const ResumedRequest& resumed) -> std::shared_ptr<TokenConstraint> {
    note = ReadNote(resumed.note, path);
    auto stops = note ? text::StopSet::Create(note->stops) : Result<std::shared_ptr<const text::StopSet>>();
    if (!note || !stops || *stops == nullptr) return nullptr;
    return std::make_shared<text::StopConstraint>(*tokenizer_, *stops, /*skip_special=*/true);
  };
  HAAST_ASSIGN_OR_RETURN(const ResumedRequest resumed, engine_->Resume(path, make_constraint));
  note = ReadNote(resumed.note, path);
  if (note) {
    Event before{.request = resumed.id, .tokens = note->outputs, .prompt = note->prompt};
    request->prompt = resumed.request.prompt;
    request->sampling = resumed.request.sampling;
    request->speculation = resumed.request.speculation;
    request->max_tokens = resumed.request.max_tokens;
    request->logprobs = resumed.request.logprobs;
    request->prompt_logprobs = resumed.request.prompt_logprobs;
    HAAST_ASSIGN_OR_RETURN(request->stops, text::StopSet::Create(note->stops));
    AnswerBuilder builder(*tokenizer_, request->stops);
    const StepText text = builder.Add(before);
    if (builder.so_far().token_ids() == resumed.generated) {
      if (sink && !sink(before, text)) engine_->Cancel(resumed.id);
      return RunToEnd(resumed.id, *request, sink, save, &builder);
    }
    note = Err(ErrorCode::kInvalidFile, "{}: tells of {} tokens, but {} others were generated", path, note->outputs.size(),
               resumed.generated.size());
  }
  engine_->Cancel(resumed.id);
  engine_->Step();
  return tl::make_unexpected(note.error());
}

Result<std::vector<Answer>> Generator::RunTogether(const std::vector<TextRequest>& requests, double* wall_seconds) {
  std::unordered_map<RequestId, size_t> index;
  std::vector<AnswerBuilder> builders;
  const double start = base::NowSeconds();
  Status refused;
  for (const TextRequest& request : requests) {
    const Result<RequestId> id = Submit(request);
    if (!id) {
      refused = tl::make_unexpected(id.error());
      break;
    }
    index[*id] = builders.size();
    builders.emplace_back(*tokenizer_, request.stops);
  }
  while (!engine_->idle()) {
    if (InterruptScope::Interrupted() || !refused) {
      for (const auto& [id, unused] : index) engine_->Cancel(id);
    }
    for (const Event& event : engine_->Step()) builders[index.at(event.request)].Add(event);
  }
  *wall_seconds = base::NowSeconds() - start;
  HAAST_RETURN_IF_ERROR(refused);
  std::vector<Answer> answers;
  for (AnswerBuilder& builder : builders) answers.push_back(builder.Take());
  return answers;
}

Status Generator::TraceStatus() const {
  const std::string error = engine_->stats().trace_error;
  return error.empty() ? Status() : MakeError(ErrorCode::kIo, error);
}

std::string Generator::TokenText(int32_t token) const { return tokenizer_->Decode(std::vector<int32_t>{token}, /*skip_special=*/false); }

}  // namespace haast::cli
