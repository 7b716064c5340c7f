#include "haast/bench.h"

#include <sys/stat.h>

#include <set>

#include "base/file_bytes.h"
#include "base/format.h"
#include "cli/commands.h"
#include "cli/cost_file.h"
#include "cli/exit_code.h"
#include "cli/flag_rules.h"
#include "cli/flag_values.h"
#include "cli/interrupt.h"
#include "cli/json_forms.h"
#include "cli/load_progress.h"
#include "cli/model_paths.h"
#include "cli/options.h"
#include "cli/speculation_bench.h"

namespace haast::cli {
namespace {

struct BenchFlags {
  ModelFlags model;
  SamplingFlags sampling;
  BenchOptions steps;
  std::vector<std::string> files;
  int64_t limit = 0;
  int concurrency = 1;
  bool single = false;
  std::string costs;
  std::string costs_out;
  bool no_steps = false;
  bool json = false;
};

void AddFlags(CLI::App& app, BenchFlags& flags) {
  const std::string steps = "Steps";
  const std::string prompts = "Prompts";
  app.option_defaults()->always_capture_default();
  app.add_flag("--json", flags.json, "print one JSON object");
  app.add_option("--repeats", flags.steps.repeats, "how often each measurement is repeated, in turns; medians are shown")
      ->transform(WholeNumber(1, 1000));
  app.add_flag("--profile", flags.steps.profile, "also where the time of each kind of step goes, op by op")->group(steps);
  app.add_flag("--no-steps", flags.no_steps, "leave out the steps, measure --prompts only")->group(steps);
  app.add_option("--depth", flags.steps.depth, "tokens of context before each measured step")
      ->transform(WholeNumber(1, kMaxContext))
      ->group(steps);
  app.add_option("--prefill-tokens", flags.steps.prefill_tokens, "length of the prompt whose speed is measured")
      ->transform(WholeNumber(1, kMaxContext))
      ->group(steps);
  app.add_option("--decode-tokens", flags.steps.decode_tokens, "tokens decoded plainly")
      ->transform(WholeNumber(2, kMaxContext))
      ->group(steps);
  app.add_option("--limit", flags.limit, "prompts used of each file; 0: all")->transform(WholeNumber(0, INT32_MAX))->group(prompts);
  app.add_option("--concurrency", flags.concurrency, "requests that run together")->transform(WholeNumber(1, kMaxBatch))->group(prompts);
  app.option_defaults()->always_capture_default(false);
  AddPath(app, "--prompts", flags.files,
          "JSON Lines file of {\"turns\": [\"text\"]}; may be given several times. The first turns are answered "
          "with speculation on and off, in turns, and must be identical")
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)
      ->group(prompts);
  app.add_flag("--single", flags.single, "answer as the flags say only, not plainly beside it: compare answers_checksum")->group(prompts);
  AddPath(app, "--costs", flags.costs,
          "step costs that --costs-out wrote: automatic speculation decides by them alone, and runs over --prompts are priced by them")
      ->group(prompts);
  AddPath(app, "--costs-out", flags.costs_out, "measure what launches cost here (seconds) and write it to this file")->group(steps);
  AddSamplingFlags(app, flags.sampling);
  AddModelFlags(app, flags.model);
  app.footer(
      "Sampling flags are those of the answers to --prompts.\n"
      "Exit codes: 0 done, 1 the run failed or speculation changed an answer, 2 wrong flags, 3 a file cannot be used, 130 or 143 "
      "interrupted.");
}

std::string SpreadText(const Timing& timing, int digits) {
  return fmt::format("{:9.{}f} ({:.{}f} to {:.{}f})", timing.median, digits, timing.min, digits, timing.max, digits);
}

std::string RooflineText(double share) { return fmt::format("{:3.0f}% of the roofline", 100.0 * share); }

std::string StepsText(const BenchReport& report) {
  std::string text = fmt::format("prefill       {} tokens/s, {}\ndecode        {} tokens/s\n", SpreadText(report.prefill_tps, 1),
                                 RooflineText(report.prefill_roofline), SpreadText(report.decode_tps, 1));
  for (const VerifyTiming& timing : report.verify) {
    const double ratio =
        report.verify[0].milliseconds.median > 0.0 ? timing.milliseconds.median / report.verify[0].milliseconds.median : 0.0;
    text += fmt::format("verify({:>2})    {} ms, {:.2f}x, {}\n", timing.rows, SpreadText(timing.milliseconds, 3), ratio,
                        RooflineText(timing.roofline));
  }
  if (report.draft_bytes_per_pass > 0) {
    text += fmt::format("draft step    {} ms, {}\ndraft extend  {} ms for 4 rows, {}\n", SpreadText(report.draft_step_ms, 3),
                        RooflineText(report.draft_step_roofline), SpreadText(report.draft_extend_ms, 3),
                        RooflineText(report.draft_extend_roofline));
  }
  text += fmt::format("roofline      {:9.1f} GB/s read, {:.2f}e12 operations/s in 8 bits; a pass reads {:.1f} MB of weights",
                      report.read_gb_per_s, report.int8_tops, static_cast<double>(report.bytes_per_pass) / 1e6);
  if (report.draft_bytes_per_pass > 0) {
    text += fmt::format(", a draft step {:.1f} MB", static_cast<double>(report.draft_bytes_per_pass) / 1e6);
  }
  return text + "\n";
}

std::string ProfileText(const BenchReport& report) {
  std::string text;
  for (const StepProfile& step : report.profile) {
    text += fmt::format("\n{}: {:.3f} ms, {:.1f} MB, {:.2f}e9 operations\n  {:<44} {:>5} {:>9} {:>6} {:>7} {:>6} {:>9}\n", step.step,
                        step.milliseconds, static_cast<double>(step.bytes) / 1e6, static_cast<double>(step.operations) / 1e9, "op", "calls",
                        "us", "share", "MB", "GB/s", "of memory");
    for (const OpProfile& op : step.ops) {
      const double rate = op.microseconds > 0.0 ? static_cast<double>(op.bytes) / op.microseconds * 1e-3 : 0.0;
      text += fmt::format("  {:<44} {:>5} {:>9.1f} {:>5.1f}% {:>7.2f} {:>6.1f} {:>8.0f}%\n", op.op, op.calls, op.microseconds,
                          step.milliseconds > 0.0 ? op.microseconds / step.milliseconds * 0.1 : 0.0, static_cast<double>(op.bytes) / 1e6,
                          rate, 100.0 * rate / report.read_gb_per_s);
    }
  }
  return text;
}

// A FIFO gives what it holds once: a second reading would wait for another writer, or find nothing. By inode, as names differ.
Status RefuseReadingTwice(const std::vector<std::string>& paths) {
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& path : paths) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0 || !(S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode))) continue;
    if (seen.emplace(info.st_dev, info.st_ino).second) continue;
    return Err(ErrorCode::kInvalidArgument, "{}: {} cannot be read twice: give it once, or a file with what it holds", path,
               base::FileKind(info.st_mode));
  }
  return {};
}

Result<std::vector<PromptFile>> ReadFiles(const BenchFlags& flags) {
  HAAST_RETURN_IF_ERROR(RefuseReadingTwice(flags.files));
  std::vector<PromptFile> files;
  for (const std::string& path : flags.files) {
    HAAST_ASSIGN_OR_RETURN(std::vector<BenchPrompt> prompts, ReadBenchPrompts(path, flags.limit));
    files.push_back({path, std::move(prompts)});
  }
  return files;
}

Result<std::vector<FileReport>> BenchFiles(const EngineOptions& options, const std::vector<PromptFile>& files, const ModelFlags& flags,
                                           SpeculationBenchOptions* bench, Streams& streams) {
  HAAST_ASSIGN_OR_RETURN(const auto generator, Generator::Load(options, streams.err));
  bench->request.speculation = ToSpeculation(flags, generator->engine().draft());
  const InterruptScope interrupts;
  std::vector<FileReport> reports;
  for (const PromptFile& file : files) {
    HAAST_ASSIGN_OR_RETURN(FileReport report, BenchFile(*generator, file, *bench, ProgressOn(streams.err)));
    reports.push_back(std::move(report));
  }
  EndProgress(streams.err);
  HAAST_RETURN_IF_ERROR(generator->TraceStatus());
  return reports;
}

// The names of all flags of AddSamplingFlags.
std::vector<const char*> SamplingFlagNames() {
  return {"--temperature",      "--top-k",      "--top-p", "--min-p",      "--repetition-penalty", "--frequency-penalty",
          "--presence-penalty", "--logit-bias", "--seed",  "--max-tokens", "--min-tokens",         "--ignore-eos"};
}

std::vector<FlagRule> RulesOf(const BenchFlags& flags) {
  std::vector<FlagRule> rules = ModelFlagRules(flags.model, /*resumed=*/false);
  for (FlagRule& rule : SamplingFlagRules(flags.sampling)) rules.push_back(std::move(rule));
  const bool no_prompts = flags.files.empty();
  rules.push_back({Verdict::kRefused,
                   flags.no_steps,
                   {"--depth", "--prefill-tokens", "--decode-tokens", "--profile"},
                   "is for the steps, which --no-steps leaves out"});
  rules.push_back({Verdict::kRefused,
                   no_prompts,
                   {"--limit", "--concurrency", "--single", "--costs", "--trace-metadata"},
                   "is for the runs over prompts, not for the timed steps: give --prompts FILE"});
  rules.push_back({Verdict::kNoted, no_prompts, SamplingFlagNames(), "not used without --prompts"});
  rules.push_back({Verdict::kNoted,
                   no_prompts,
                   {"--num-draft-tokens", "--draft-top-k", "--draft-depth", "--speculative-sampling"},
                   "not used without --prompts"});
  return rules;
}

Status CheckFlags(const BenchFlags& flags) {
  HAAST_RETURN_IF_ERROR(CheckModelFlags(flags.model));
  if (flags.no_steps && flags.files.empty() && flags.costs_out.empty()) {
    return Err(ErrorCode::kInvalidArgument, "--no-steps leaves nothing to measure: give --prompts FILE, or leave it out");
  }
  if (!flags.files.empty() && SpeculationOff(flags.model) && !flags.single) {
    return Err(ErrorCode::kInvalidArgument, "--prompts compares speculation on and off: leave out --no-speculation, or give --single");
  }
  return {};
}

// What will be written can be, and nothing that is read is overwritten: said before minutes of measuring.
Status CheckOutputs(const BenchFlags& flags, const ModelPaths& paths) {
  const std::string& trace = flags.model.trace_metadata;
  for (const std::string& file : flags.files) {
    HAAST_RETURN_IF_ERROR(RefuseOverwriting("--trace-metadata", trace, {file}));
    HAAST_RETURN_IF_ERROR(RefuseOverwriting("--costs-out", flags.costs_out, {file}));
  }
  HAAST_RETURN_IF_ERROR(RefuseOverwriting("--trace-metadata", trace, {flags.costs}));
  HAAST_RETURN_IF_ERROR(RefuseOneFileForTwo("--costs-out", flags.costs_out, "--trace-metadata", trace));
  HAAST_RETURN_IF_ERROR(RefuseOverwriting("--costs-out", flags.costs_out, {paths.model, paths.draft, flags.model.draft_model}));
  if (!flags.costs_out.empty()) HAAST_RETURN_IF_ERROR(base::CheckReplaceable(flags.costs_out));
  struct stat info;  // a device or a FIFO is written as it is
  const bool stream = stat(trace.c_str(), &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode) || S_ISBLK(info.st_mode));
  return trace.empty() || stream ? Status() : base::CheckReplaceable(trace);
}

Result<int> Bench(const CLI::App& app, BenchFlags& flags, Streams& streams) {
  HAAST_RETURN_IF_ERROR(CheckFlags(flags));
  HAAST_RETURN_IF_ERROR(CheckFlagRules(app, RulesOf(flags), streams.err));
  HAAST_ASSIGN_OR_RETURN(const std::vector<PromptFile> files, ReadFiles(flags));
  HAAST_ASSIGN_OR_RETURN(const ModelPaths paths, ResolveModel(flags.model, SystemPlaces(), /*want_head=*/true));
  if (!files.empty() && flags.model.algorithm.empty() && paths.draft.empty() && !SpeculationOff(flags.model)) {
    return Err(ErrorCode::kInvalidArgument, "--prompts needs a head for {}: give --draft HEAD, or another --speculative-algorithm",
               paths.model);
  }
  HAAST_RETURN_IF_ERROR(CheckOutputs(flags, paths));
  EngineOptions options = ToEngineOptions(flags.model, paths.model, paths.draft);
  options.prefix_cache = false;  // prompts are run again and again and must be computed each time
  // Before minutes of measuring; but what --costs-out is about to write is read after it.
  if (!flags.costs.empty() && flags.costs != flags.costs_out) HAAST_RETURN_IF_ERROR(ReadStepCosts(flags.costs).map([](const auto&) {}));
  if (!flags.costs_out.empty()) {
    HAAST_ASSIGN_OR_RETURN(const StepCosts costs, MeasureStepCosts(options, flags.steps.repeats));
    HAAST_RETURN_IF_ERROR(WriteStepCosts(flags.costs_out, costs, options));
  }
  if (!flags.costs.empty()) {
    HAAST_ASSIGN_OR_RETURN(StepCosts costs, ReadStepCosts(flags.costs));
    options.step_costs = std::make_shared<const StepCosts>(std::move(costs));
  }
  Json json = Json::object();
  std::string text;
  if (!flags.no_steps) {
    flags.steps.verify_rows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    const Result<BenchReport> report = RunBench(options, flags.steps, ProgressOn(streams.err));
    EndProgress(streams.err);
    if (!report) return tl::make_unexpected(report.error());
    json = BenchJson(*report);
    text = StepsText(*report) + ProfileText(*report);
    if (!flags.json) streams.out.Write(text);
  }
  int exit_code = kExitOk;
  json["speculation"] = nullptr;
  if (!files.empty()) {
    options.max_batch = std::max(options.max_batch, flags.concurrency);
    SpeculationBenchOptions bench;
    bench.request.sampling = ToSampling(flags.sampling);
    bench.request.max_tokens = flags.sampling.max_tokens;
    bench.request.min_tokens = flags.sampling.min_tokens;
    bench.request.ignore_eos = flags.sampling.ignore_eos;
    bench.repeats = flags.steps.repeats;
    bench.concurrency = flags.concurrency;
    bench.single = flags.single;
    HAAST_ASSIGN_OR_RETURN(const std::vector<FileReport> reports, BenchFiles(options, files, flags.model, &bench, streams));
    json["speculation"] = SpeculationBenchJson(reports, bench);
    if (!flags.json) streams.out.WriteText(SpeculationText(reports, bench));
    if (Total(reports).different > 0) exit_code = kExitRuntime;
  }
  if (flags.json) streams.out.Write(Dump(json));
  return exit_code;
}

}  // namespace

int RunBenchCommand(const Args& args, Streams& streams) {
  CLI::App app(
      "Measures the engine: prompt and decode speed, what verifying M tokens costs, draft steps, the share of the memory bandwidth; and\n"
      "with --prompts what speculation gains on real prompts. Close other programs first.",
      "haast bench");
  BenchFlags flags;
  AddFlags(app, flags);
  if (const auto code = Parse(app, args, streams.out, streams.err)) return *code;
  const Result<int> exit_code = Bench(app, flags, streams);
  if (!exit_code) return Fail(streams, app, exit_code.error());
  return FinishOutput(streams, "bench", *exit_code);
}

}  // namespace haast::cli
