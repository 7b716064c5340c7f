#include <csignal>

#include "base/format.h"
#include "cli/answer_printer.h"
#include "cli/chat_session.h"
#include "cli/commands.h"
#include "cli/draft_view.h"
#include "cli/error_words.h"
#include "cli/exit_code.h"
#include "cli/flag_rules.h"
#include "cli/generator.h"
#include "cli/interrupt.h"
#include "cli/line_source.h"
#include "cli/model_paths.h"
#include "cli/options.h"
#include "text/utf8.h"

namespace haast::cli {
namespace {

struct ChatFlags {
  ModelFlags model;
  SamplingFlags sampling;
  std::string system;
  bool show_drafts = false;
  bool quiet = false;
};

class Chat {
 public:
  Chat(Generator& generator, const ChatFlags& flags, Streams& streams)
      : generator_(generator), flags_(flags), streams_(streams), session_(flags.system) {}

  Result<int> Loop(LineSource& lines) {
    const InterruptScope interrupts;
    while (streams_.out.ok()) {
      HAAST_ASSIGN_OR_RETURN(const Line line, lines.Next());
      if (line.kind == LineKind::kEnd) return kExitOk;
      if (line.kind == LineKind::kInterrupted) {
        if (InterruptScope::Signal() != SIGINT || !streams_.in_is_terminal) return ExitCodeOfSignal(InterruptScope::Signal());
        InterruptScope::Clear();
        streams_.err.Write("\n/quit or Ctrl-D leaves\n");
        continue;
      }
      const ChatSession::Outcome outcome = session_.Handle(line.text);
      if (outcome.action == ChatSession::Action::kQuit) return kExitOk;
      streams_.err.Write(outcome.reply);
      if (outcome.action != ChatSession::Action::kAnswer) continue;
      AnswerLast();
      if (InterruptScope::Signal() == SIGTERM) return ExitCodeOfSignal(SIGTERM);  // Ctrl-C ends the answer only
      InterruptScope::Clear();
    }
    return kExitRuntime;
  }

 private:
  // A refused or failed request is said and costs the last message, not the chat.
  void AnswerLast() {
    const Result<Answer> answer = Ask();
    if (!answer) {
      streams_.err.WriteText(fmt::format("haast chat: {}\n/reset starts over\n", WithFlagNames(answer.error().message)));
      return session_.Answered("");
    }
    session_.Answered(answer->text);
    if (answer->finish == FinishReason::kError) {
      streams_.err.WriteText(fmt::format("haast chat: {}\n", WithFlagNames(answer->error)));
    } else if (!flags_.quiet) {
      const std::string disabled = DisabledDrafters(generator_.engine().stats());
      streams_.err.Write(StatisticsLine(*answer) + "\n" + (disabled_shown_ ? "" : disabled));
      disabled_shown_ = disabled_shown_ || !disabled.empty();
    }
  }

  Result<Answer> Ask() {
    TextRequest request;
    HAAST_ASSIGN_OR_RETURN(request.prompt, generator_.EncodeChat(session_.messages(), ""));
    request.sampling = ToSampling(flags_.sampling);
    request.speculation = ToSpeculation(flags_.model, generator_.engine().draft());
    request.max_tokens = flags_.sampling.max_tokens;
    request.min_tokens = flags_.sampling.min_tokens;
    request.ignore_eos = flags_.sampling.ignore_eos;
    AnswerPrinter printer(streams_.out, generator_, flags_.show_drafts);
    return generator_.Run(request, [&](const Event& event, const StepText& text) { return printer.Show(event, text); });
  }

  Generator& generator_;
  const ChatFlags& flags_;
  Streams& streams_;
  ChatSession session_;
  bool disabled_shown_ = false;
};

std::vector<FlagRule> RulesOf(const ChatFlags& flags) {
  std::vector<FlagRule> rules = ModelFlagRules(flags.model, /*resumed=*/false);
  for (FlagRule& rule : SamplingFlagRules(flags.sampling)) rules.push_back(std::move(rule));
  rules.push_back({Verdict::kNoted, SpeculationOff(flags.model), {"--show-drafts"}, "marks nothing without speculation"});
  return rules;
}

Result<int> RunChatWith(const CLI::App& app, const ChatFlags& flags, Streams& streams) {
  HAAST_RETURN_IF_ERROR(CheckModelFlags(flags.model));
  HAAST_RETURN_IF_ERROR(CheckFlagRules(app, RulesOf(flags), streams.err));
  if (!text::IsValidUtf8(flags.system)) return Err(ErrorCode::kInvalidArgument, "--system: expected UTF-8 text");
  const Places places = SystemPlaces();
  HAAST_ASSIGN_OR_RETURN(const ModelPaths paths, ResolveModel(flags.model, places, /*want_head=*/true));
  HAAST_ASSIGN_OR_RETURN(const auto generator, Generator::Load(ToEngineOptions(flags.model, paths.model, paths.draft), streams.err));
  // A model without a chat template cannot chat: said at once rather than after the first message.
  HAAST_RETURN_IF_ERROR(generator->EncodeChat({{"user", "?"}}, "").map([](const auto&) {}));
  const bool edited = streams.in_is_terminal && streams.out.is_terminal();
  if (edited) streams.err.Write("/help lists the commands; Ctrl-C ends an answer, Ctrl-D the chat\n");
  if (flags.show_drafts) streams.err.Write(DraftLegend(streams.err.colour()) + "\n");
  const auto lines = edited ? MakeEditedSource("> ", places.cache_folder + "/chat_history", streams.err) : MakePlainSource(streams.in_fd);
  HAAST_ASSIGN_OR_RETURN(const int exit_code, Chat(*generator, flags, streams).Loop(*lines));
  HAAST_RETURN_IF_ERROR(generator->TraceStatus());
  return exit_code;
}

}  // namespace

int RunChat(const Args& args, Streams& streams) {
  CLI::App app(
      "Talks with the model. On a terminal lines can be edited and are kept in chat_history in the cache folder; otherwise every line\n"
      "of standard input is a message. /help in the chat lists its commands.",
      "haast chat");
  ChatFlags flags;
  flags.sampling.max_tokens = 1024;
  app.add_option("--system", flags.system, "system message of the chat template")->type_name("TEXT");
  app.add_flag("--show-drafts", flags.show_drafts, "mark accepted and rejected drafts in the text");
  app.add_flag("--quiet", flags.quiet, "no statistics on standard error");
  AddSamplingFlags(app, flags.sampling);
  AddModelFlags(app, flags.model);
  app.footer("Exit codes: 0 done, 1 the run failed, 2 wrong flags, 3 a file cannot be used, 130 or 143 interrupted.");
  if (const auto code = Parse(app, args, streams.out, streams.err)) return *code;
  const Result<int> exit_code = RunChatWith(app, flags, streams);
  if (!exit_code) return Fail(streams, app, exit_code.error());
  return FinishOutput(streams, "chat", *exit_code);
}

}  // namespace haast::cli
