#include "cli/compare.h"

#include <algorithm>
#include <cstring>

#include "base/format.h"
#include "cli/interrupt.h"
#include "haast/bench.h"

namespace haast::cli {
namespace {

struct Mode {
  TextRequest request;
  std::vector<double> tps;
  std::vector<double> gb_per_s;  // weights read
};

void AddRun(const Answer& answer, const Engine& engine, Mode* mode) {
  mode->tps.push_back(DecodeTokensPerSecond(answer.timings));
  if (answer.timings.decode_seconds <= 0.0) return;
  const double bytes = BytesRead(answer.speculation, answer.timings, engine.target_bytes_per_pass(), engine.draft_bytes_per_pass());
  mode->gb_per_s.push_back(bytes / answer.timings.decode_seconds / 1e9);
}

bool SameBits(float a, float b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

bool SameOutput(const TokenOutput& a, const TokenOutput& b) {
  const auto same = [](const TokenLogprob& x, const TokenLogprob& y) { return x.token == y.token && SameBits(x.logprob, y.logprob); };
  return a.token == b.token && SameBits(a.logprob, b.logprob) && std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(), same);
}

}  // namespace

int64_t FirstDifference(const Answer& a, const Answer& b) {
  const auto [end_a, end_b] = std::mismatch(a.tokens.begin(), a.tokens.end(), b.tokens.begin(), b.tokens.end(), SameOutput);
  return end_a == a.tokens.end() && end_b == b.tokens.end() ? -1 : end_a - a.tokens.begin();
}

Result<Comparison> Compare(Generator& generator, const TextRequest& request, int runs, const AnswerSink& sink) {
  Engine& engine = generator.engine();
  Mode speculative{request, {}, {}};
  Mode plain{request, {}, {}};
  plain.request.speculation.algorithm = SpeculativeAlgorithm::kNone;

  Comparison comparison;
  HAAST_ASSIGN_OR_RETURN(comparison.answer, generator.Run(speculative.request, sink));
  for (int run = -1; run < runs; ++run) {  // -1 warms up
    for (Mode* mode : {&plain, &speculative}) {
      if (run < 0 && mode == &speculative) continue;
      if (comparison.answer.finish == FinishReason::kError || InterruptScope::Interrupted()) break;
      HAAST_ASSIGN_OR_RETURN(const Answer answer, generator.Run(mode->request, nullptr));
      if (InterruptScope::Interrupted()) break;
      if (comparison.first_difference < 0) comparison.first_difference = FirstDifference(comparison.answer, answer);
      if (run >= 0) AddRun(answer, engine, mode);
    }
  }
  comparison.interrupted = InterruptScope::Interrupted();
  if (comparison.interrupted || comparison.answer.finish == FinishReason::kError) return comparison;
  comparison.runs = runs;
  comparison.plain_tps = SpreadOf(plain.tps);
  comparison.speculative_tps = SpreadOf(speculative.tps);
  HAAST_ASSIGN_OR_RETURN(comparison.read_gb_per_s, MeasureReadBandwidth(engine.options().threads, engine.target_bytes_per_pass()));
  comparison.plain_bandwidth = SpreadOf(plain.gb_per_s).median / comparison.read_gb_per_s;
  comparison.speculative_bandwidth = SpreadOf(speculative.gb_per_s).median / comparison.read_gb_per_s;
  return comparison;
}

std::string ComparisonText(const Comparison& comparison) {
  const auto line = [](const char* name, const Spread& tps, double share) {
    return fmt::format("{:<12} {:7.1f} tokens/s ({:.1f} to {:.1f}), {:.0f}% of the memory bandwidth\n", name, tps.median, tps.min, tps.max,
                       100.0 * share);
  };
  std::string text = line("plain", comparison.plain_tps, comparison.plain_bandwidth) +
                     line("speculative", comparison.speculative_tps, comparison.speculative_bandwidth);
  text += fmt::format("speed-up     {:7.2f}x, medians of {} runs in turns; memory reads {:.1f} GB/s, measured now\n", comparison.speedup(),
                      comparison.runs, comparison.read_gb_per_s);
  if (comparison.first_difference < 0)
    return text + fmt::format("tokens       identical in all runs ({})\n", comparison.answer.tokens.size());
  return text +
         fmt::format("tokens       DIFFERENT from token {} on: this is a bug, please report it with the prompt and `haast devices`\n",
                     comparison.first_difference);
}

Json ComparisonJson(const Comparison& comparison) {
  return {{"runs", comparison.runs},
          {"identical", comparison.first_difference < 0},
          {"speedup", comparison.speedup()},
          {"plain_tokens_per_second", SpreadJson(comparison.plain_tps)},
          {"speculative_tokens_per_second", SpreadJson(comparison.speculative_tps)},
          {"read_gb_per_s", comparison.read_gb_per_s},
          {"plain_bandwidth_fraction", comparison.plain_bandwidth},
          {"speculative_bandwidth_fraction", comparison.speculative_bandwidth}};
}

}  // namespace haast::cli
