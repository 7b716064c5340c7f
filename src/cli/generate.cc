#include "base/file_bytes.h"
#include "base/format.h"
#include "cli/answer_printer.h"
#include "cli/commands.h"
#include "cli/compare.h"
#include "cli/draft_view.h"
#include "cli/error_words.h"
#include "cli/exit_code.h"
#include "cli/flag_rules.h"
#include "cli/flag_values.h"
#include "cli/generator.h"
#include "cli/interrupt.h"
#include "cli/model_paths.h"
#include "cli/options.h"
#include "cli/prompt_input.h"

namespace haast::cli {
namespace {

constexpr int kCompareRuns = 3;

struct GenerateFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string prompt;
  std::string file;
  std::string system;
  std::vector<std::string> stops;
  int logprobs = -1;
  int prompt_logprobs = -1;
  SavePlan save{.path = "", .every = 32};
  std::string resume;
  std::string not_with_resume;  // a flag that was given although --resume takes it from the file
  bool raw = false;
  bool json = false;
  bool compare = false;
  bool show_drafts = false;
  bool quiet = false;
  bool prompt_given = false;
};

void AddFlags(CLI::App& app, GenerateFlags& flags) {
  app.add_option("PROMPT", flags.prompt, "what to answer; - or nothing: standard input; after -- it may begin with a dash")
      ->type_name("TEXT");
  AddPath(app, "--file", flags.file, "read the prompt from this file");
  app.add_option("--system", flags.system, "system message of the chat template")->type_name("TEXT");
  app.add_flag("--raw", flags.raw, "continue the prompt as it is, without the chat template");
  app.add_flag("--json", flags.json, "print one JSON object instead of streaming the text");
  app.add_flag("--show-drafts", flags.show_drafts, "mark accepted and rejected drafts in the text");
  app.add_flag("--compare", flags.compare, "then time plain and speculative decoding in turns and check that the tokens are identical");
  app.add_flag("--quiet", flags.quiet, "no statistics on standard error");
  AddPath(app, "--save", flags.save.path, "keep the request in this file, so that --resume can go on with it");
  app.add_option("--save-every", flags.save.every, "tokens between two saves")->transform(WholeNumber(1, INT32_MAX))->capture_default_str();
  AddPath(app, "--resume", flags.resume, "go on with a request that --save kept, and show its whole answer");
  AddSamplingFlags(app, flags.sampling);
  app.add_option("--stop", flags.stops, "end the answer before this text; may be given several times")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)
      ->group("Sampling");
  app.add_option("--logprobs", flags.logprobs, "with --json: log-probabilities of each token and of the N most likely; -1: none")
      ->transform(WholeNumber(-1, kMaxLogprobs))
      ->capture_default_str()
      ->group("Sampling");
  app.add_option("--prompt-logprobs", flags.prompt_logprobs, "with --json: the same for the prompt's tokens; -1: none")
      ->transform(WholeNumber(-1, kMaxLogprobs))
      ->capture_default_str()
      ->group("Sampling");
  AddModelFlags(app, flags.model);
  app.footer(
      "Exit codes: 0 done, 1 the run failed or --compare found different tokens, 2 wrong flags or prompt, 3 a file cannot be used,\n"
      "130 or 143 interrupted.");
}

// The first flag given that belongs to the request, which --resume takes from the file.
std::string RequestFlagOf(const CLI::App& app) {
  for (const char* name : {"PROMPT", "--file", "--system", "--raw", "--compare", "--num-draft-tokens", "--draft-top-k", "--draft-depth",
                           "--speculative-algorithm", "--speculative-sampling", "--no-speculation"}) {
    if (app.count(name) > 0) return name;
  }
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group() == "Sampling" && option->count() > 0) return option->get_name();
  }
  return "";
}

Status CheckFlags(const GenerateFlags& flags) {
  HAAST_RETURN_IF_ERROR(CheckModelFlags(flags.model));
  if (!flags.resume.empty() && !flags.not_with_resume.empty()) {
    return Err(ErrorCode::kInvalidArgument, "--resume takes the request from {}: leave out {}", flags.resume, flags.not_with_resume);
  }
  if (!flags.save.path.empty() && flags.compare) {
    return Err(ErrorCode::kInvalidArgument, "--compare runs the request several times and --save keeps one: give one of them");
  }
  if (flags.prompt_given && !flags.file.empty()) {
    return Err(ErrorCode::kInvalidArgument, "expected one prompt, got an argument and --file {}: give one of them", flags.file);
  }
  if (flags.compare && SpeculationOff(flags.model)) {
    return Err(ErrorCode::kInvalidArgument, "--compare needs speculation: leave out --no-speculation");
  }
  if (flags.compare && flags.model.speculative_sampling == "rejection" && flags.sampling.temperature > 0.0f) {
    return Err(ErrorCode::kInvalidArgument,
               "--compare expects the tokens of plain decoding, and --speculative-sampling rejection gives others: leave out one of them");
  }
  if (flags.raw && !flags.system.empty()) {
    return Err(ErrorCode::kInvalidArgument, "--system belongs to the chat template: leave out --raw, or write it into the prompt");
  }
  if (flags.json && flags.show_drafts) {
    return Err(ErrorCode::kInvalidArgument, "--show-drafts marks streamed text and --json prints none: give one of them");
  }
  if (!text::IsValidUtf8(flags.system)) return Err(ErrorCode::kInvalidArgument, "--system: expected UTF-8 text");
  if (const auto stops = text::StopSet::Create(flags.stops); !stops) return Err(stops.error().code, "--{}", stops.error().message);
  return {};
}

// Where the prompt comes from, for messages.
std::string PromptName(const GenerateFlags& flags) {
  if (!flags.file.empty()) return flags.file;
  return flags.prompt_given && flags.prompt != "-" ? "prompt" : "standard input";
}

// The prompt's text. Without --raw the line break that ends a file or a pipe is not part of it.
Result<std::string> ReadPrompt(const GenerateFlags& flags, const Streams& streams) {
  std::string text = flags.prompt;
  const std::string name = PromptName(flags);
  if (!flags.file.empty()) {
    HAAST_ASSIGN_OR_RETURN(text, ReadTextFile(flags.file, ErrorCode::kInvalidArgument));
  } else if (!flags.prompt_given && streams.in_is_terminal) {
    return Err(ErrorCode::kInvalidArgument, "expected a prompt: as an argument, from --file PATH or on standard input; got none");
  } else if (!flags.prompt_given || flags.prompt == "-") {
    HAAST_ASSIGN_OR_RETURN(text, ReadAll(streams.in_fd, name, ErrorCode::kInvalidArgument));
  }
  const bool from_stream = name != "prompt";
  if (from_stream && !flags.raw && text.ends_with('\n')) text.pop_back();
  HAAST_RETURN_IF_ERROR(CheckPrompt(text, name));
  return text;
}

Result<std::vector<int32_t>> Encode(const Generator& generator, const GenerateFlags& flags, const std::string& prompt) {
  if (flags.raw) return generator.EncodeRaw(prompt, PromptName(flags));
  std::vector<text::ChatMessage> messages;
  if (!flags.system.empty()) messages.push_back({"system", flags.system});
  messages.push_back({"user", prompt});
  return generator.EncodeChat(messages, PromptName(flags));
}

Result<TextRequest> MakeRequest(const Generator& generator, const GenerateFlags& flags, const std::string& prompt) {
  TextRequest request;
  HAAST_ASSIGN_OR_RETURN(request.prompt, Encode(generator, flags, prompt));
  HAAST_ASSIGN_OR_RETURN(request.stops, text::StopSet::Create(flags.stops));
  request.sampling = ToSampling(flags.sampling);
  request.speculation = ToSpeculation(flags.model, generator.engine().draft());
  request.max_tokens = flags.sampling.max_tokens;
  request.ignore_eos = flags.sampling.ignore_eos;
  request.min_tokens = flags.sampling.min_tokens;
  request.logprobs = flags.logprobs;
  request.prompt_logprobs = flags.prompt_logprobs;
  return request;
}

Json AnswerJson(const Generator& generator, const TextRequest& request, const Answer& answer) {
  const auto token_text = [&](int32_t token) { return generator.TokenText(token); };
  return {{"text", answer.text},
          {"token_ids", answer.token_ids()},
          {"logprobs", request.logprobs < 0 ? Json() : LogprobsJson(answer.tokens, token_text)},
          {"prompt_logprobs", request.prompt_logprobs < 0 ? Json() : LogprobsJson(answer.prompt, token_text)},
          {"finish_reason", FinishReasonName(answer.finish)},
          {"timings", TimingsJson(answer.timings, generator.load_seconds())},
          {"speculation", SpeculationJson(answer.speculation, request.speculation)}};
}

int ExitCodeOfRun(const Comparison& comparison, Streams& streams) {
  if (comparison.answer.finish == FinishReason::kError) {
    streams.err.WriteText(fmt::format("haast generate: {}\n", WithFlagNames(comparison.answer.error)));
    return kExitRuntime;
  }
  if (InterruptScope::Interrupted()) return ExitCodeOfSignal(InterruptScope::Signal());
  return comparison.first_difference < 0 ? kExitOk : kExitRuntime;
}

// Streams the answer, or prints its JSON; then the statistics. With --resume the file gives the request.
Result<int> RunAndPrint(Generator& generator, const GenerateFlags& flags, TextRequest request, Streams& streams) {
  const InterruptScope interrupts;
  AnswerPrinter printer(streams.out, generator, flags.show_drafts);
  const AnswerSink show = [&](const Event& event, const StepText& text) { return printer.Show(event, text); };
  const AnswerSink sink = flags.json ? AnswerSink() : show;
  if (flags.show_drafts && !flags.quiet) streams.err.Write(DraftLegend(streams.err.colour()) + "\n");

  Comparison comparison;
  if (flags.compare) {
    HAAST_ASSIGN_OR_RETURN(comparison, Compare(generator, request, kCompareRuns, sink));
  } else if (!flags.resume.empty()) {
    HAAST_ASSIGN_OR_RETURN(comparison.answer, generator.Resume(flags.resume, sink, flags.save, &request));
  } else {
    HAAST_ASSIGN_OR_RETURN(comparison.answer, generator.Run(request, sink, flags.save));
  }
  const int exit_code = ExitCodeOfRun(comparison, streams);
  if (flags.json && comparison.answer.finish != FinishReason::kError) {
    Json json = AnswerJson(generator, request, comparison.answer);
    if (comparison.runs > 0) json["compare"] = ComparisonJson(comparison);
    streams.out.Write(Dump(json));
  }
  if (!flags.quiet && streams.out.ok()) {
    streams.err.Write(StatisticsLine(comparison.answer) + "\n" + DisabledDrafters(generator.engine().stats()));
    if (comparison.runs > 0) streams.err.Write(ComparisonText(comparison));
  }
  HAAST_RETURN_IF_ERROR(generator.TraceStatus());
  return exit_code;
}

std::vector<FlagRule> RulesOf(const GenerateFlags& flags) {
  std::vector<FlagRule> rules = ModelFlagRules(flags.model, /*resumed=*/!flags.resume.empty());
  for (FlagRule& rule : SamplingFlagRules(flags.sampling)) rules.push_back(std::move(rule));
  // A saved request keeps its logprobs for a --resume with --json.
  rules.push_back({Verdict::kRefused,
                   !flags.json && flags.save.path.empty(),
                   {"--logprobs", "--prompt-logprobs"},
                   "is printed by --json only: give --json"});
  rules.push_back({Verdict::kRefused, flags.save.path.empty(), {"--save-every"}, "needs a file: give --save FILE"});
  rules.push_back({Verdict::kNoted, SpeculationOff(flags.model), {"--show-drafts"}, "marks nothing without speculation"});
  return rules;
}

Result<int> Generate(const CLI::App& app, const GenerateFlags& flags, Streams& streams) {
  HAAST_RETURN_IF_ERROR(CheckFlags(flags));
  HAAST_RETURN_IF_ERROR(CheckFlagRules(app, RulesOf(flags), streams.err));
  if (!flags.save.path.empty()) {
    // The part is removed below; --resume itself may be the file that is written.
    HAAST_RETURN_IF_ERROR(RefuseOverwriting("--save", flags.save.path, {flags.file}));
    HAAST_RETURN_IF_ERROR(RefuseOverwriting("--save", flags.save.path + base::kPartSuffix, {flags.resume}));
    HAAST_RETURN_IF_ERROR(base::CheckReplaceable(flags.save.path));
  }
  std::string prompt;
  if (flags.resume.empty()) {
    HAAST_ASSIGN_OR_RETURN(prompt, ReadPrompt(flags, streams));
  }
  HAAST_ASSIGN_OR_RETURN(const ModelPaths paths, ResolveModel(flags.model, SystemPlaces(), /*want_head=*/true));
  HAAST_RETURN_IF_ERROR(RefuseOverwriting("--save", flags.save.path, {paths.model, paths.draft, flags.model.draft_model}));
  HAAST_RETURN_IF_ERROR(RefuseOverwriting("--trace-metadata", flags.model.trace_metadata, {flags.resume, flags.file}));
  HAAST_RETURN_IF_ERROR(RefuseOneFileForTwo("--save", flags.save.path, "--trace-metadata", flags.model.trace_metadata));
  EngineOptions options = ToEngineOptions(flags.model, paths.model, paths.draft);
  options.prefix_cache &= !flags.compare;  // each run computes the prompt
  HAAST_ASSIGN_OR_RETURN(const auto generator, Generator::Load(options, streams.err));
  if (!flags.resume.empty()) return RunAndPrint(*generator, flags, {}, streams);
  HAAST_ASSIGN_OR_RETURN(const TextRequest request, MakeRequest(*generator, flags, prompt));
  if (flags.compare && request.speculation.algorithm == SpeculativeAlgorithm::kNone) {
    return Err(ErrorCode::kInvalidArgument, "--compare needs a head for {}: give --draft HEAD", paths.model);
  }
  return RunAndPrint(*generator, flags, request, streams);
}

}  // namespace

int RunGenerate(const Args& args, Streams& streams) {
  CLI::App app("Answers one prompt: the text on standard output as it comes, statistics on standard error.", "haast generate");
  GenerateFlags flags;
  AddFlags(app, flags);
  if (const auto code = Parse(app, args, streams.out, streams.err)) return *code;
  flags.prompt_given = app.count("PROMPT") > 0;
  flags.not_with_resume = RequestFlagOf(app);
  const Result<int> exit_code = Generate(app, flags, streams);
  if (!exit_code) return Fail(streams, app, exit_code.error());
  return FinishOutput(streams, "generate", *exit_code);
}

}  // namespace haast::cli
