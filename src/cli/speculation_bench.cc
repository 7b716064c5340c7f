#include "cli/speculation_bench.h"

#include <algorithm>
#include <array>

#include "base/checksum.h"
#include "base/format.h"
#include "cli/compare.h"
#include "cli/interrupt.h"

namespace haast::cli {
namespace {

// Sums of one mode in one repeat.
struct Sums {
  double wall_seconds = 0.0;
  double decode_seconds = 0.0;
  int64_t tokens = 0;
  int64_t decode_tokens = 0;
  SpeculationStats speculation;

  void Add(const Answer& answer) {
    tokens += answer.timings.generated_tokens;
    decode_tokens += std::max<int64_t>(0, answer.timings.generated_tokens - 1);
    decode_seconds += answer.timings.decode_seconds;
    speculation.Add(answer.speculation);
  }
};

double Ratio(double a, double b) { return b > 0.0 ? a / b : 0.0; }

double MedianRatio(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) ratios.push_back(Ratio(a[i], b[i]));
  return SpreadOf(std::move(ratios)).median;
}

// Whether speculation must give the tokens of plain decoding.
bool SameAsPlain(const TextRequest& request) {
  return request.speculation.sampling == SpeculativeSampling::kCoupled || request.sampling.temperature == 0.0f;
}

class FileBench {
 public:
  FileBench(Generator& generator, const PromptFile& file, const SpeculationBenchOptions& options,
            const std::function<void(const std::string&)>& progress)
      : generator_(generator), file_(file), options_(options), progress_(progress) {
    report_.path = file.path;
    report_.prompts = static_cast<int64_t>(file.prompts.size());
  }

  Result<FileReport> Run() {
    HAAST_RETURN_IF_ERROR(EncodeAll());
    for (std::vector<Answer>& first : first_) first.resize(prompts_.size());
    different_.resize(prompts_.size());
    // Prices know neither cold nor warm.
    if (generator_.engine().options().step_costs == nullptr) HAAST_RETURN_IF_ERROR(WarmUp());
    for (int repeat = 0; repeat < options_.repeats; ++repeat) HAAST_RETURN_IF_ERROR(RunRepeat(repeat));
    report_.different = std::count(different_.begin(), different_.end(), true);
    for (const std::vector<Answer>& first : first_) AddChecksum(first);
    return std::move(report_);
  }

 private:
  void AddChecksum(const std::vector<Answer>& answers) {
    for (const Answer& answer : answers) {
      const std::vector<int32_t> ids = answer.token_ids();
      report_.checksum = base::Checksum({reinterpret_cast<const uint8_t*>(ids.data()), ids.size() * sizeof(int32_t)}, report_.checksum);
    }
  }

  Status EncodeAll() {
    for (const BenchPrompt& prompt : file_.prompts) {
      HAAST_ASSIGN_OR_RETURN(std::vector<int32_t> ids, generator_.EncodeChat({{"user", prompt.first_turn}}, prompt.where));
      prompts_.push_back(std::move(ids));
    }
    return {};
  }

  // Prompts [begin, end) together; the speculation of `options_` or none.
  Result<std::vector<Answer>> RunGroup(size_t begin, size_t end, bool speculative, double* wall_seconds) {
    std::vector<TextRequest> requests;
    for (size_t i = begin; i < end; ++i) {
      TextRequest request = options_.request;
      request.prompt = prompts_[i];
      if (!speculative) request.speculation.algorithm = SpeculativeAlgorithm::kNone;
      requests.push_back(std::move(request));
    }
    const EngineStats before = generator_.engine().stats();
    Result<std::vector<Answer>> answers = generator_.RunTogether(requests, wall_seconds);
    const EngineStats after = generator_.engine().stats();
    ModeTotals& totals = speculative ? report_.speculative : report_.plain;
    totals.steps += after.steps - before.steps;
    totals.preemptions += after.preemptions - before.preemptions;
    totals.target_seconds += after.target_seconds - before.target_seconds;
    totals.draft_seconds += after.draft_seconds - before.draft_seconds;
    totals.sample_seconds += after.sample_seconds - before.sample_seconds;
    totals.priced_seconds += after.priced_seconds - before.priced_seconds;
    totals.priced_prompt_seconds += after.priced_prompt_seconds - before.priced_prompt_seconds;
    if (InterruptScope::Interrupted()) return Err(ErrorCode::kCancelled, "interrupted in {}", file_.path);
    if (!answers) return Err(answers.error().code, "{}: prompts {} to {}: {}", file_.path, begin + 1, end, answers.error().message);
    for (size_t i = 0; i < answers->size(); ++i) {
      if ((*answers)[i].finish != FinishReason::kError) continue;
      return Err(ErrorCode::kOutOfMemory, "{}: prompt {}: {}", file_.path, begin + i + 1, (*answers)[i].error);
    }
    return answers;
  }

  Status WarmUp() {
    double unused = 0.0;
    const size_t end = std::min(prompts_.size(), static_cast<size_t>(options_.concurrency));
    if (!options_.single) HAAST_RETURN_IF_ERROR(RunGroup(0, end, /*speculative=*/false, &unused).map([](const auto&) {}));
    return RunGroup(0, end, /*speculative=*/true, &unused).map([](const auto&) {});
  }

  Status RunRepeat(int repeat) {
    Sums plain;
    Sums speculative;
    const size_t step = static_cast<size_t>(options_.concurrency);
    for (size_t begin = 0; begin < prompts_.size(); begin += step) {
      const size_t end = std::min(prompts_.size(), begin + step);
      if (progress_)
        progress_(fmt::format("{}: repeat {} of {}, prompt {} of {}", file_.path, repeat + 1, options_.repeats, end, prompts_.size()));
      // The mode that goes first alternates: a machine that grows slower or faster favours neither.
      const bool speculative_first = (static_cast<size_t>(repeat) + begin / step) % 2 == 1;
      for (const bool mode : {speculative_first, !speculative_first}) {
        if (options_.single && !mode) continue;
        Sums& sums = mode ? speculative : plain;
        double seconds = 0.0;
        HAAST_ASSIGN_OR_RETURN(std::vector<Answer> answers, RunGroup(begin, end, mode, &seconds));
        sums.wall_seconds += seconds;
        for (size_t i = 0; i < answers.size(); ++i) {
          sums.Add(answers[i]);
          Check(begin + i, mode, std::move(answers[i]));
        }
      }
    }
    if (!options_.single) Close(plain, &report_.plain);
    Close(speculative, &report_.speculative);
    report_.speculation = speculative.speculation;
    return {};
  }

  // Every answer to a prompt must have the bits of the first one, or of the first one of its mode.
  void Check(size_t prompt, bool speculative, Answer answer) {
    Answer& first = first_[speculative && !SameAsPlain(options_.request) ? 1 : 0][prompt];
    if (first.tokens.empty()) {
      first = std::move(answer);
      return;
    }
    const int64_t at = FirstDifference(first, answer);
    if (at < 0) return;
    different_[prompt] = true;
    if (report_.first_difference.empty()) report_.first_difference = fmt::format("prompt {}, token {}", prompt + 1, at);
  }

  static void Close(const Sums& sums, ModeTotals* totals) {
    totals->tps.push_back(Ratio(static_cast<double>(sums.tokens), sums.wall_seconds));
    totals->decode_tps.push_back(Ratio(static_cast<double>(sums.decode_tokens), sums.decode_seconds));
    totals->tokens = sums.tokens;
  }

  Generator& generator_;
  const PromptFile& file_;
  const SpeculationBenchOptions& options_;
  const std::function<void(const std::string&)>& progress_;
  std::vector<std::vector<int32_t>> prompts_;
  std::array<std::vector<Answer>, 2> first_;  // [prompts]; the second: of speculation that does not give the tokens of plain decoding
  std::vector<bool> different_;               // [prompts]
  FileReport report_;
};

// Adds `b` to `a`, repeat by repeat: the speed of both one after the other.
void AddMode(const ModeTotals& b, ModeTotals* a) {
  const double tokens_a = static_cast<double>(a->tokens);
  const double tokens_b = static_cast<double>(b.tokens);
  const auto add = [&](const std::vector<double>& from, std::vector<double>* to) {
    if (to->empty()) *to = std::vector<double>(from.size(), 0.0);
    for (size_t i = 0; i < from.size(); ++i) (*to)[i] = Ratio(tokens_a + tokens_b, Ratio(tokens_a, (*to)[i]) + Ratio(tokens_b, from[i]));
  };
  add(b.tps, &a->tps);
  add(b.decode_tps, &a->decode_tps);
  a->tokens += b.tokens;
  a->steps += b.steps;
  a->preemptions += b.preemptions;
  a->target_seconds += b.target_seconds;
  a->draft_seconds += b.draft_seconds;
  a->sample_seconds += b.sample_seconds;
  a->priced_seconds += b.priced_seconds;
  a->priced_prompt_seconds += b.priced_prompt_seconds;
}

Json StepJson(const ModeTotals& mode) {
  const double steps = static_cast<double>(mode.steps);
  return {{"steps", mode.steps},
          {"preemptions", mode.preemptions},
          {"target_ms", 1e3 * Ratio(mode.target_seconds, steps)},
          {"draft_ms", 1e3 * Ratio(mode.draft_seconds, steps)},
          {"sample_ms", 1e3 * Ratio(mode.sample_seconds, steps)}};
}

std::string StepText(const char* name, const ModeTotals& mode) {
  const double steps = static_cast<double>(mode.steps);
  return fmt::format("  {:<16} target {:.2f} ms, draft {:.2f} ms, sampling {:.2f} ms a step\n", name,
                     1e3 * Ratio(mode.target_seconds, steps), 1e3 * Ratio(mode.draft_seconds, steps),
                     1e3 * Ratio(mode.sample_seconds, steps));
}

// Tokens of all repeats a priced second; null where nothing was priced.
Json PricedTps(const ModeTotals& mode, int64_t tokens, double seconds) {
  if (seconds <= 0.0) return nullptr;
  return static_cast<double>(tokens) * static_cast<double>(mode.tps.size()) / seconds;
}

Json PricedJson(const FileReport& file, const ModeTotals& mode) {
  return {{"tps", PricedTps(mode, mode.tokens, mode.priced_seconds)},
          {"decode_tps", PricedTps(mode, mode.tokens - file.prompts, mode.priced_seconds - mode.priced_prompt_seconds)}};
}

// null where the mode was not run.
Json OfMode(const ModeTotals& mode, Json value) { return mode.tps.empty() ? Json() : std::move(value); }

Json FileJson(const FileReport& file) {
  const ModeTotals& plain = file.plain;
  return {{"prompts", file.prompts},
          {"tokens", file.speculative.tokens},
          {"identical", file.different == 0},
          {"different", file.different},
          {"answers_checksum", fmt::format("{:016x}", file.checksum)},
          {"plain_tps", OfMode(plain, SpreadJson(SpreadOf(plain.tps)))},
          {"speculative_tps", SpreadJson(SpreadOf(file.speculative.tps))},
          {"speedup", OfMode(plain, file.speedup())},
          {"plain_decode_tps", OfMode(plain, SpreadJson(SpreadOf(plain.decode_tps)))},
          {"speculative_decode_tps", SpreadJson(SpreadOf(file.speculative.decode_tps))},
          {"decode_speedup", OfMode(plain, file.decode_speedup())},
          {"plain_priced", PricedJson(file, plain)},
          {"speculative_priced", PricedJson(file, file.speculative)},
          {"plain_step", OfMode(plain, StepJson(plain))},
          {"speculative_step", StepJson(file.speculative)},
          {"rounds", file.speculation.rounds},
          {"drafted", file.speculation.drafted},
          {"accepted", file.speculation.accepted},
          {"tau", file.speculation.tau()},
          {"position_acceptance", PositionAcceptance(file.speculation)}};
}

std::string SpeedText(const Spread& spread) { return fmt::format("{:7.1f} ({:.1f} to {:.1f})", spread.median, spread.min, spread.max); }

// One line of speeds: of both modes, or of the only one.
std::string SpeedLine(const char* name, const std::vector<double>& plain, const std::vector<double>& speculative) {
  const std::string on = SpeedText(SpreadOf(speculative));
  if (plain.empty()) return fmt::format("  {:<16} {}\n", name, on);
  return fmt::format("  {:<16} plain {}, speculative {}, {:.2f}x\n", name, SpeedText(SpreadOf(plain)), on, MedianRatio(speculative, plain));
}

std::string DraftText(const SpeculationStats& stats) {
  if (stats.rounds == 0) return "  no drafts were made\n";
  std::string text = fmt::format("  tau {:.3f} over {} rounds, accepted by position:", stats.tau(), stats.rounds);
  for (const double share : PositionAcceptance(stats)) text += fmt::format(" {:.1f}%", 100.0 * share);
  return text + "\n";
}

std::string TokensText(const FileReport& file, const SpeculationBenchOptions& options) {
  if (file.different > 0) {
    return fmt::format("  {} answers DIFFER, first: {}: this is a bug, please report it with `haast devices`\n", file.different,
                       file.first_difference);
  }
  if (options.single && options.repeats == 1) return fmt::format("  answered once: answers_checksum {:016x}\n", file.checksum);
  if (options.single) return fmt::format("  tokens identical in all repeats: answers_checksum {:016x}\n", file.checksum);
  return SameAsPlain(options.request) ? "  tokens identical with speculation on and off\n"
                                      : "  tokens identical in all repeats of a mode\n";
}

std::string FileText(const FileReport& file, const SpeculationBenchOptions& options) {
  std::string text = fmt::format("{}: {} prompts, {} tokens\n", file.path, file.prompts, file.speculative.tokens);
  text += SpeedLine("tokens/s", file.plain.tps, file.speculative.tps);
  text += SpeedLine("decode tokens/s", file.plain.decode_tps, file.speculative.decode_tps);
  if (file.plain.priced_seconds > 0.0) text += fmt::format("  priced           speedup {:.3f}x\n", file.priced_speedup());
  if (!options.single) text += StepText("plain step", file.plain);
  text += StepText(options.single ? "step" : "speculative step", file.speculative);
  const int64_t preemptions = file.plain.preemptions + file.speculative.preemptions;
  if (preemptions > 0) text += fmt::format("  preemptions      {}: the KV pool was full; raise --kv-tokens for none\n", preemptions);
  return text + DraftText(file.speculation) + TokensText(file, options);
}

}  // namespace

double FileReport::speedup() const { return MedianRatio(speculative.tps, plain.tps); }
double FileReport::priced_speedup() const { return Ratio(plain.priced_seconds, speculative.priced_seconds); }
double FileReport::decode_speedup() const { return MedianRatio(speculative.decode_tps, plain.decode_tps); }

Result<FileReport> BenchFile(Generator& generator, const PromptFile& file, const SpeculationBenchOptions& options,
                             const std::function<void(const std::string&)>& progress) {
  return FileBench(generator, file, options, progress).Run();
}

FileReport Total(const std::vector<FileReport>& files) {
  FileReport total;
  total.path = "all files";
  for (const FileReport& file : files) {
    total.prompts += file.prompts;
    AddMode(file.plain, &total.plain);
    AddMode(file.speculative, &total.speculative);
    total.speculation.Add(file.speculation);
    total.different += file.different;
    total.checksum = total.checksum * 31 + file.checksum;
    if (total.first_difference.empty() && !file.first_difference.empty()) total.first_difference = file.path + ", " + file.first_difference;
  }
  return total;
}

std::string SpeculationText(const std::vector<FileReport>& files, const SpeculationBenchOptions& options) {
  std::string text;
  for (const FileReport& file : files) text += FileText(file, options);
  return files.size() > 1 ? text + FileText(Total(files), options) : text;
}

Json SpeculationBenchJson(const std::vector<FileReport>& files, const SpeculationBenchOptions& options) {
  const TextRequest& request = options.request;
  Json json = {{"algorithm", SpeculativeAlgorithmName(request.speculation.algorithm)},
               {"num_draft_tokens", request.speculation.num_draft_tokens},
               {"automatic", request.speculation.automatic},
               {"sampling", SpeculativeSamplingName(request.speculation.sampling)},
               {"top_k", request.speculation.top_k},
               {"depth", request.speculation.depth},
               {"temperature", request.sampling.temperature},
               {"max_tokens", request.max_tokens},
               {"repeats", options.repeats},
               {"concurrency", options.concurrency}};
  json.update(FileJson(Total(files)));
  json["files"] = Json::array();
  for (const FileReport& file : files) {
    Json entry = {{"file", file.path}};
    entry.update(FileJson(file));
    json["files"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace haast::cli
