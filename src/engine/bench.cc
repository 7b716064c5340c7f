// RunBench: the engine's steps one by one, in turns, so that a change of the machine's state meets all of them alike.
#include "haast/bench.h"

#include <algorithm>
#include <array>

#include "base/clock.h"
#include "base/format.h"
#include "engine/engine_impl.h"
#include "engine/loaded_models.h"
#include "engine/roofline.h"
#include "engine/step_bench.h"
#include "engine/step_costs.h"
#include "engine/step_profile.h"

namespace haast {
namespace engine {
namespace {

constexpr int kPasses = 7;      // of each kind of step in one repeat; their median is the repeat's value
constexpr int kExtendRows = 4;  // of the measured draft extend
constexpr std::array<int64_t, 3> kProfiledRows = {1, 4, 8};

double Median(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : 0.5 * (values[half - 1] + values[half]);
}

Timing TimingOf(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto [min, max] = std::minmax_element(values.begin(), values.end());
  return {.min = *min, .median = Median(values), .max = *max};
}

// One kind of step: the passes of the running repeat, and the medians of the finished ones.
struct Series {
  std::vector<double> passes;
  std::vector<double> repeats;
  void EndRepeat() {
    repeats.push_back(Median(passes));
    passes.clear();
  }
};

// One request of `prompt` tokens through the engine, plainly.
Result<RequestTimings> RunPlain(EngineImpl& engine, int64_t prompt, int64_t max_tokens) {
  Request request;
  for (int64_t i = 0; i < prompt; ++i) request.prompt.push_back(static_cast<int32_t>((i * 7919 + 17) % engine.model().vocab_size));
  request.max_tokens = max_tokens;
  HAAST_ASSIGN_OR_RETURN(const RequestId id, engine.Submit(std::move(request)));
  while (!engine.idle()) {
    for (const Event& event : engine.Step()) {
      if (event.request != id || event.finish == FinishReason::kNone) continue;
      if (event.finish == FinishReason::kError) return MakeError(ErrorCode::kUnsupported, event.error);
      return event.timings;
    }
  }
  return Err(ErrorCode::kCancelled, "the measured request ended without its last event");
}

// Of target passes.
std::vector<int64_t> StepRows(const BenchOptions& options) {
  std::vector<int64_t> rows(options.verify_rows.begin(), options.verify_rows.end());
  if (options.profile) rows.insert(rows.end(), kProfiledRows.begin(), kProfiledRows.end());
  return rows;
}

int64_t MostRows(const BenchOptions& options) {
  int64_t most = kExtendRows;
  for (const int64_t rows : StepRows(options)) most = std::max(most, rows);
  return most;
}

// Everything that could be refused later, with the numbers and the option to change.
Status CheckBenchOptions(const EngineOptions& engine, const BenchOptions& options, const LoadedModels& models) {
  if (options.prefill_tokens < 1 || options.decode_tokens < 2 || options.depth < 1 || options.repeats < 1) {
    return Err(ErrorCode::kInvalidArgument,
               "bench.prefill_tokens {}, bench.decode_tokens {}, bench.depth {}, bench.repeats {}: expected at least 1, 2, 1 and 1",
               options.prefill_tokens, options.decode_tokens, options.depth, options.repeats);
  }
  for (const int64_t rows : StepRows(options)) {
    const int64_t most = models.target_runner->options().max_logit_rows;
    if (rows < 1 || rows > most) return Err(ErrorCode::kInvalidArgument, "verify with {} rows: expected 1 to {}", rows, most);
  }
  const int64_t longest = std::max({options.prefill_tokens + 1, options.depth + options.decode_tokens, options.depth + MostRows(options)});
  if (longest > engine.max_context) {
    return Err(ErrorCode::kInvalidArgument,
               "needs {} tokens of context, but it has {}: lower bench.depth, bench.prefill_tokens or bench.decode_tokens", longest,
               engine.max_context);
  }
  const int64_t pages = kv::PagesFor(options.depth + MostRows(options), engine.page_size) +
                        kv::PagesFor(std::max(options.prefill_tokens + 1, options.depth + options.decode_tokens), engine.page_size);
  if (pages > models.pages->num_free()) {
    return Err(ErrorCode::kInvalidArgument, "needs {} KV pages of {} tokens, but the pool has {}: raise kv_tokens", pages, engine.page_size,
               models.pages->num_free());
  }
  return {};
}

// A prompt as one launch takes it.
int64_t PromptRows(const EngineOptions& engine, const BenchOptions& options) {
  return std::min<int64_t>(options.prefill_tokens, engine.prefill_chunk);
}

StepToProfile VerifyStep(int64_t rows, int64_t context) {
  return {fmt::format("verify({})", rows), StepKind::kVerify, {rows, context, LogitRows::kAll}};
}

// The steps of a prompt and of drafting.
void AddOtherSteps(const EngineOptions& engine, const BenchOptions& options, bool has_head, std::vector<StepToProfile>* steps) {
  const int64_t prompt = PromptRows(engine, options);
  steps->push_back({fmt::format("prompt({})", prompt), StepKind::kVerify, {prompt, 0, LogitRows::kLast}});
  if (!has_head) return;
  steps->push_back({fmt::format("draft extend({})", kExtendRows), StepKind::kDraftExtend, {kExtendRows, options.depth, LogitRows::kLast}});
  steps->push_back({"draft step", StepKind::kDraftStep, {1, options.depth, LogitRows::kAll}});
}

// One pass of every kind of step: of these only what they read and compute is used.
Result<std::vector<StepProfile>> WorkOfSteps(const EngineOptions& engine, const BenchOptions& options, const LoadedModels& models) {
  std::vector<StepToProfile> steps;
  for (const int rows : options.verify_rows) steps.push_back(VerifyStep(rows, options.depth));
  AddOtherSteps(engine, options, models.draft != nullptr, &steps);
  return ProfileSteps(models, steps, 1);
}

Result<std::vector<StepProfile>> OpProfiles(const EngineOptions& engine, const BenchOptions& options, const LoadedModels& models) {
  std::vector<StepToProfile> steps;
  for (const int64_t rows : kProfiledRows) steps.push_back(VerifyStep(rows, options.depth));
  AddOtherSteps(engine, options, models.draft != nullptr, &steps);
  return ProfileSteps(models, steps, kPasses * options.repeats);
}

class Bench {
 public:
  Bench(const EngineOptions& resolved, const BenchOptions& options, LoadedModels models, std::vector<StepProfile> work)
      : options_(options),
        has_head_(models.draft != nullptr),
        ops_(*models.ops),
        work_(std::move(work)),
        step_models_{models.target_runner.get(), models.draft_runner.get(), models.pages.get()},
        engine_(resolved, std::move(models)),
        steps_(step_models_, options.depth + MostRows(options), MostRows(options)),
        verify_(options.verify_rows.size()) {}

  Status Run(const std::function<void(const std::string&)>& progress) {
    HAAST_RETURN_IF_ERROR(steps_.Prepare());
    HAAST_RETURN_IF_ERROR(Passes(/*warm_up=*/true));
    for (int repeat = 0; repeat < options_.repeats; ++repeat) {
      if (progress) progress(fmt::format("repeat {} of {}", repeat + 1, options_.repeats));
      for (int pass = 0; pass < kPasses; ++pass) HAAST_RETURN_IF_ERROR(Passes(/*warm_up=*/false));
      for (Series& series : verify_) series.EndRepeat();
      draft_step_.EndRepeat();
      draft_extend_.EndRepeat();
      HAAST_ASSIGN_OR_RETURN(const RequestTimings prefill, RunPlain(engine_, options_.prefill_tokens, 1));
      prefill_tps_.push_back(static_cast<double>(prefill.prompt_tokens) / std::max(prefill.prefill_seconds, 1e-9));
      HAAST_ASSIGN_OR_RETURN(const RequestTimings decode, RunPlain(engine_, options_.depth, options_.decode_tokens));
      decode_tps_.push_back(static_cast<double>(decode.generated_tokens - 1) / std::max(decode.decode_seconds, 1e-9));
      HAAST_ASSIGN_OR_RETURN(const double read, MeasureReadBandwidth(engine_.options().threads, engine_.target_bytes_per_pass()));
      read_gb_per_s_.push_back(read);
      int8_tops_.push_back(MeasureInt8Rate(ops_, engine_.options().threads));
    }
    return {};
  }

  BenchReport Report() const {
    BenchReport report;
    report.prefill_tps = TimingOf(prefill_tps_);
    report.decode_tps = TimingOf(decode_tps_);
    for (size_t i = 0; i < verify_.size(); ++i) report.verify.push_back({options_.verify_rows[i], TimingOf(verify_[i].repeats)});
    report.bytes_per_pass = engine_.target_bytes_per_pass();
    report.draft_bytes_per_pass = engine_.draft_bytes_per_pass();
    report.read_gb_per_s = Median(read_gb_per_s_);
    report.int8_tops = Median(int8_tops_);
    if (has_head_) {
      report.draft_step_ms = TimingOf(draft_step_.repeats);
      report.draft_extend_ms = TimingOf(draft_extend_.repeats);
    }
    AddRooflines(&report);
    return report;
  }

 private:
  // work_ is in the order of WorkOfSteps.
  void AddRooflines(BenchReport* report) const {
    const Roofline roofline{report->read_gb_per_s, report->int8_tops};
    const auto share = [&](const StepProfile& work, double milliseconds) {
      return roofline.Floor(work.bytes, work.operations) / (milliseconds * 1e-3);
    };
    for (size_t i = 0; i < verify_.size(); ++i) {
      VerifyTiming& timing = report->verify[i];
      timing.roofline = share(work_[i], timing.milliseconds.median);
      if (timing.rows == 1) report->decode_roofline = timing.roofline;
    }
    const StepProfile* other = &work_[verify_.size()];
    report->prefill_roofline = share(other[0], static_cast<double>(other[0].rows) / report->prefill_tps.median * 1e3);
    if (!has_head_) return;
    report->draft_extend_roofline = share(other[1], report->draft_extend_ms.median);
    report->draft_step_roofline = share(other[2], report->draft_step_ms.median);
  }

  // Every kind of step once; the head's as in a round: its extend finds the caches full of the target, its step finds itself there.
  Status Passes(bool warm_up) {
    for (size_t i = 0; i < verify_.size(); ++i) {
      HAAST_ASSIGN_OR_RETURN(const double seconds, steps_.Verify({options_.verify_rows[i], options_.depth}));
      if (!warm_up) verify_[i].passes.push_back(seconds * 1e3);
    }
    if (!has_head_) return {};
    HAAST_ASSIGN_OR_RETURN(const double extend, steps_.DraftExtend({kExtendRows, options_.depth, LogitRows::kLast}));
    HAAST_ASSIGN_OR_RETURN(const double step, steps_.DraftStep({1, options_.depth}));
    if (warm_up) return {};
    draft_step_.passes.push_back(step * 1e3);
    draft_extend_.passes.push_back(extend * 1e3);
    return {};
  }

  const BenchOptions& options_;
  const bool has_head_;
  const kernels::Ops& ops_;
  const std::vector<StepProfile> work_;
  const StepModels step_models_;  // taken before the engine takes the models
  EngineImpl engine_;
  StepBench steps_;
  std::vector<Series> verify_;  // [options.verify_rows]
  Series draft_step_;
  Series draft_extend_;
  std::vector<double> prefill_tps_;
  std::vector<double> decode_tps_;
  std::vector<double> read_gb_per_s_;
  std::vector<double> int8_tops_;
};

}  // namespace
}  // namespace engine

Result<BenchReport> RunBench(const EngineOptions& options, const BenchOptions& bench_options,
                             const std::function<void(const std::string&)>& progress) {
  EngineOptions resolved = options;
  resolved.prefix_cache = false;    // the same prompt again and again must be computed each time
  resolved.trace_metadata.clear();  // writing would be timed
  if (progress) progress("loading " + options.model);
  HAAST_ASSIGN_OR_RETURN(engine::LoadedModels models, engine::LoadModels(&resolved));
  HAAST_RETURN_IF_ERROR(engine::CheckBenchOptions(resolved, bench_options, models));
  std::vector<StepProfile> profile;
  if (bench_options.profile) {
    if (progress) progress("profiling");
    HAAST_ASSIGN_OR_RETURN(profile, engine::OpProfiles(resolved, bench_options, models));
  }
  HAAST_ASSIGN_OR_RETURN(std::vector<StepProfile> work, engine::WorkOfSteps(resolved, bench_options, models));
  engine::Bench bench(resolved, bench_options, std::move(models), std::move(work));
  HAAST_RETURN_IF_ERROR(bench.Run(progress));
  BenchReport report = bench.Report();
  report.profile = std::move(profile);
  return report;
}

Result<StepCosts> MeasureStepCosts(const EngineOptions& options, int repeats) {
  if (repeats < 1) return Err(ErrorCode::kInvalidArgument, "step costs: {} repeats: expected at least 1", repeats);
  EngineOptions resolved = options;
  resolved.trace_metadata.clear();  // writing would be timed
  HAAST_ASSIGN_OR_RETURN(const engine::LoadedModels models, engine::LoadModels(&resolved));
  StepCosts costs;
  HAAST_ASSIGN_OR_RETURN(const bool measured, engine::MeasureStepCosts(models, engine::ThoroughGrid(repeats), &costs));
  if (!measured) {
    return Err(ErrorCode::kInvalidArgument, "step costs: no room in {} tokens of KV and a context of {}: raise kv_tokens",
               static_cast<int64_t>(models.pages->num_free()) * resolved.page_size, resolved.max_context);
  }
  return costs;
}

}  // namespace haast
