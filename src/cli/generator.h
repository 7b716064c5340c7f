// A loaded model with its text side: prompts in, answers out.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/answer.h"
#include "cli/output.h"
#include "haast/engine.h"
#include "haast/result.h"
#include "text/chat_template.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace haast::cli {

struct TextRequest {
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  SpeculationParams speculation;
  int64_t max_tokens = 256;  // cut to what the context leaves after the prompt
  int64_t min_tokens = 0;    // likewise
  int logprobs = -1;
  int prompt_logprobs = -1;
  bool ignore_eos = false;
  std::shared_ptr<const text::StopSet> stops;  // null: none
};

// The text that one event's tokens gave.
struct StepText {
  std::vector<std::string> pieces;  // [event.tokens]
  std::string tail;                 // at the end of an answer: text that had been held back
};

// Collects the events of one request into an answer.
class AnswerBuilder {
 public:
  // `tokenizer` outlives this object.
  AnswerBuilder(const text::Tokenizer& tokenizer, std::shared_ptr<const text::StopSet> stops);
  StepText Add(const Event& event);
  const Answer& so_far() const { return answer_; }
  Answer Take() { return std::move(answer_); }

 private:
  text::StreamDecoder decoder_;
  text::StopMatcher matcher_;
  Answer answer_;
};

// Shows one event; false cancels the request.
using AnswerSink = std::function<bool(const Event& event, const StepText& text)>;

// Where and how often a running request is saved (Engine::Save); so is one that Ctrl-C ends. Without a path: never.
struct SavePlan {
  std::string path;
  int64_t every = 0;  // tokens
};

class Generator {
 public:
  // Errors name file, expected, got and remedy. A line of progress on `err` when it takes long.
  static Result<std::unique_ptr<Generator>> Load(const EngineOptions& options, Output& err);

  // Prompt ids of a conversation by the model's chat template, or kInvalidArgument where it has none. `name` (of the file, ...) begins the
  // kInvalidArgument of a text that is too long to be encoded, or to be answered within the context; empty: nothing does.
  Result<std::vector<int32_t>> EncodeChat(const std::vector<text::ChatMessage>& messages, const std::string& name) const;
  // Prompt ids of a text as it is; special tokens in it are recognised. `name` as in EncodeChat.
  Result<std::vector<int32_t>> EncodeRaw(const std::string& text, const std::string& name) const;

  // Runs one request to its end; Ctrl-C (interrupt.h) cancels it. The error is the engine's refusal of the request, or that it
  // could not be saved.
  Result<Answer> Run(const TextRequest& request, const AnswerSink& sink, const SavePlan& save = {});
  // Goes on with a saved request, whose fields `*request` gets. The sink sees what was said before first, as one event.
  Result<Answer> Resume(const std::string& path, const AnswerSink& sink, const SavePlan& save, TextRequest* request);
  // Runs several together; answers in their order, and the wall time of all.
  Result<std::vector<Answer>> RunTogether(const std::vector<TextRequest>& requests, double* wall_seconds);

  // What a single token stands for, ill-formed bytes repaired.
  std::string TokenText(int32_t token) const;

  // The error of a --trace-metadata that could not be written to its end.
  Status TraceStatus() const;

  Engine& engine() const { return *engine_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  double load_seconds() const { return load_seconds_; }

 private:
  Generator() = default;
  // `ids`, or why they are no prompt of `name`.
  Result<std::vector<int32_t>> CheckRoom(Result<std::vector<int32_t>> ids, const std::string& name) const;
  Result<RequestId> Submit(const TextRequest& request);
  Result<Answer> RunToEnd(RequestId id, const TextRequest& request, const AnswerSink& sink, const SavePlan& save, AnswerBuilder* builder);

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<const text::Tokenizer> tokenizer_;
  std::unique_ptr<const text::ChatTemplate> chat_template_;  // null: the model has none
  std::vector<int32_t> eos_ids_;
  double load_seconds_ = 0.0;
};

}  // namespace haast::cli
