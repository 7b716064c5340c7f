// RunBench: the engine's steps one by one, in turns, so that a change of the machine's state meets all of them alike.
#include "haast/bench.h"

#include <algorithm>
#include <numeric>

#include "base/clock.h"
#include "base/format.h"
#include "engine/engine_impl.h"
#include "engine/loaded_models.h"

namespace haast {
namespace engine {
namespace {

constexpr int kPasses = 7;             // of each kind of step in one repeat; their median is the repeat's value
constexpr int kExtendRows = 4;         // of the measured draft extend
constexpr int32_t kOwner = INT32_MAX;  // of this file's pages: the engine counts up from 0

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

// What single launches need of the models; valid as long as they are, whoever owns them.
struct StepModels {
  exec::Runner* target;
  exec::Runner* head;  // null: none
  kv::PagePool* pages;
};

// Single launches of target and head on a sequence of `depth` tokens. Nothing is committed: every launch writes the entries
// after the depth and the next one overwrites them.
class StepBench {
 public:
  // The models outlive this object; their page pool has room (CheckBenchOptions).
  StepBench(const StepModels& models, int64_t depth, int64_t rows)
      : target_(models.target), head_(models.head), pages_(models.pages), kv_(kOwner), depth_(depth) {
    const bool reserved = kv_.Reserve(depth + rows, pages_);
    HAAST_CHECK(reserved) << depth + rows << " tokens, " << pages_->num_free() << " free pages";
    const model::Model& target = target_->model();
    const int64_t vocab = target.config().vocab_size;
    ids_.resize(static_cast<size_t>(std::max(depth, rows)));
    for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<int32_t>((static_cast<int64_t>(i) * 7919 + 17) % vocab);
    const int64_t width = std::max<int64_t>(target.tap_width(), target.config().hidden_size);
    features_.assign(static_cast<size_t>(std::max<int64_t>(rows, kExtendRows) * width), 0.25f);
    logit_rows_.resize(static_cast<size_t>(rows));
    std::iota(logit_rows_.begin(), logit_rows_.end(), 0);
  }
  ~StepBench() { kv_.Release(pages_); }
  StepBench(const StepBench&) = delete;
  StepBench& operator=(const StepBench&) = delete;

  // Fills target and draft entries of the first `depth` tokens.
  Status Prepare(int64_t chunk) {
    for (int64_t done = 0; done < depth_; done += chunk) {
      const int64_t rows = std::min(chunk, depth_ - done);
      exec::Batch batch = MakeBatch(attention::ForwardMode::kExtend, done, rows);
      batch.want_taps = head_ != nullptr;
      HAAST_RETURN_IF_ERROR(target_->Run(batch));
      if (head_ == nullptr) continue;
      exec::Batch extend = MakeBatch(attention::ForwardMode::kDraftExtend, done, rows);
      extend.features = target_->taps(0);
      extend.features_are_taps = true;
      HAAST_RETURN_IF_ERROR(head_->Run(extend));
    }
    return {};
  }

  // Seconds of one target pass of `rows` tokens, with logits on all of them.
  Result<double> Verify(int64_t rows) {
    exec::Batch batch = MakeBatch(rows == 1 ? attention::ForwardMode::kDecode : attention::ForwardMode::kTargetVerify, depth_, rows);
    batch.logit_rows = std::span(logit_rows_).first(static_cast<size_t>(rows));
    batch.want_taps = head_ != nullptr;
    return Time(*target_, batch);
  }

  Result<double> DraftStep() {
    exec::Batch batch = MakeBatch(attention::ForwardMode::kDraftDecode, depth_, 1);
    batch.features = features_.data();
    batch.logit_rows = std::span(logit_rows_).first(1);
    return Time(*head_, batch);
  }

  Result<double> DraftExtend() {
    static constexpr int32_t kLastRow[] = {kExtendRows - 1};
    exec::Batch batch = MakeBatch(attention::ForwardMode::kDraftExtend, depth_, kExtendRows);
    batch.features = features_.data();
    batch.features_are_taps = true;
    batch.logit_rows = kLastRow;
    return Time(*head_, batch);
  }

 private:
  exec::Batch MakeBatch(attention::ForwardMode mode, int64_t kv_before, int64_t rows) {
    sequence_ = {kv_.pages(), kv_before, rows, {}};
    exec::Batch batch;
    batch.mode = mode;
    batch.sequences = std::span(&sequence_, 1);
    batch.owners = std::span(&kOwner, 1);
    batch.ids = std::span(ids_).first(static_cast<size_t>(rows));
    return batch;
  }

  static Result<double> Time(exec::Runner& runner, const exec::Batch& batch) {
    const double start = base::NowSeconds();
    HAAST_RETURN_IF_ERROR(runner.Run(batch));
    return base::NowSeconds() - start;
  }

  exec::Runner* target_;
  exec::Runner* head_;  // null: none
  kv::PagePool* pages_;
  kv::KvSeq kv_;
  const int64_t depth_;
  std::vector<int32_t> ids_;         // [max(depth, rows)] any tokens of the vocabulary
  std::vector<float> features_;      // for draft launches: their values do not matter to their time
  std::vector<int32_t> logit_rows_;  // 0, 1, ...
  attention::SequenceRows sequence_;
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

int64_t MostRows(const BenchOptions& options) {
  const int64_t rows = options.verify_rows.empty() ? 1 : *std::max_element(options.verify_rows.begin(), options.verify_rows.end());
  return std::max<int64_t>(rows, kExtendRows);
}

// Everything that could be refused later, with the numbers and the option to change.
Status CheckBenchOptions(const EngineOptions& engine, const BenchOptions& options, const LoadedModels& models) {
  if (options.prefill_tokens < 1 || options.decode_tokens < 2 || options.depth < 1 || options.repeats < 1) {
    return Err(ErrorCode::kInvalidArgument,
               "bench: prefill_tokens {}, decode_tokens {}, depth {}, repeats {}: expected at least 1, 2, 1 and 1", options.prefill_tokens,
               options.decode_tokens, options.depth, options.repeats);
  }
  for (const int rows : options.verify_rows) {
    const int64_t most = models.target_runner->options().max_logit_rows;
    if (rows < 1 || rows > most) return Err(ErrorCode::kInvalidArgument, "bench: verify with {} rows: expected 1 to {}", rows, most);
  }
  const int64_t longest = std::max({options.prefill_tokens + 1, options.depth + options.decode_tokens, options.depth + MostRows(options)});
  if (longest > engine.max_context) {
    return Err(ErrorCode::kInvalidArgument,
               "bench: needs {} tokens of context, but it has {}: lower depth, prefill_tokens or decode_tokens", longest,
               engine.max_context);
  }
  const int64_t pages = kv::PagesFor(options.depth + MostRows(options), engine.page_size) +
                        kv::PagesFor(std::max(options.prefill_tokens + 1, options.depth + options.decode_tokens), engine.page_size);
  if (pages > models.pages->num_free()) {
    return Err(ErrorCode::kInvalidArgument, "bench: needs {} KV pages of {} tokens, but the pool has {}: enlarge the pool (kv_tokens)",
               pages, engine.page_size, models.pages->num_free());
  }
  return {};
}

class Bench {
 public:
  Bench(const EngineOptions& resolved, const BenchOptions& options, LoadedModels models)
      : options_(options),
        has_head_(models.draft != nullptr),
        step_models_{models.target_runner.get(), models.draft_runner.get(), models.pages.get()},
        engine_(resolved, std::move(models)),
        steps_(step_models_, options.depth, MostRows(options)),
        verify_(options.verify_rows.size()) {}

  Status Run(const std::function<void(const std::string&)>& progress) {
    HAAST_RETURN_IF_ERROR(steps_.Prepare(engine_.options().prefill_chunk));
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
    }
    return {};
  }

  Result<BenchReport> Report() const {
    BenchReport report;
    report.prefill_tps = TimingOf(prefill_tps_);
    report.decode_tps = TimingOf(decode_tps_);
    for (size_t i = 0; i < verify_.size(); ++i) report.verify.push_back({options_.verify_rows[i], TimingOf(verify_[i].repeats)});
    report.bytes_per_pass = engine_.target_bytes_per_pass();
    report.draft_bytes_per_pass = engine_.draft_bytes_per_pass();
    HAAST_ASSIGN_OR_RETURN(report.read_gb_per_s, MeasureReadBandwidth(engine_.options().threads, report.bytes_per_pass));
    const auto share = [&](int64_t bytes, double milliseconds) {
      return milliseconds > 0.0 ? static_cast<double>(bytes) / (report.read_gb_per_s * 1e9) / (milliseconds * 1e-3) : 0.0;
    };
    for (const VerifyTiming& timing : report.verify) {
      if (timing.rows == 1) report.decode_roofline = share(report.bytes_per_pass, timing.milliseconds.median);
    }
    if (has_head_) {
      report.draft_step_ms = TimingOf(draft_step_.repeats);
      report.draft_extend_ms = TimingOf(draft_extend_.repeats);
      report.draft_roofline = share(report.draft_bytes_per_pass, report.draft_step_ms.median);
    }
    return report;
  }

 private:
  // Every kind of step once.
  Status Passes(bool warm_up) {
    for (size_t i = 0; i < verify_.size(); ++i) {
      HAAST_ASSIGN_OR_RETURN(const double seconds, steps_.Verify(options_.verify_rows[i]));
      if (!warm_up) verify_[i].passes.push_back(seconds * 1e3);
    }
    if (!has_head_) return {};
    HAAST_ASSIGN_OR_RETURN(const double step, steps_.DraftStep());
    HAAST_ASSIGN_OR_RETURN(const double extend, steps_.DraftExtend());
    if (warm_up) return {};
    draft_step_.passes.push_back(step * 1e3);
    draft_extend_.passes.push_back(extend * 1e3);
    return {};
  }

  const BenchOptions& options_;
  const bool has_head_;
  const StepModels step_models_;  // taken before the engine takes the models
  EngineImpl engine_;
  StepBench steps_;
  std::vector<Series> verify_;  // [options.verify_rows]
  Series draft_step_;
  Series draft_extend_;
  std::vector<double> prefill_tps_;
  std::vector<double> decode_tps_;
};

}  // namespace
}  // namespace engine

Result<BenchReport> RunBench(const EngineOptions& options, const BenchOptions& bench_options,
                             const std::function<void(const std::string&)>& progress) {
  EngineOptions resolved = options;
  if (progress) progress("loading " + options.model);
  HAAST_ASSIGN_OR_RETURN(engine::LoadedModels models, engine::LoadModels(&resolved));
  HAAST_RETURN_IF_ERROR(engine::CheckBenchOptions(resolved, bench_options, models));
  engine::Bench bench(resolved, bench_options, std::move(models));
  HAAST_RETURN_IF_ERROR(bench.Run(progress));
  return bench.Report();
}

}  // namespace haast
