#include "cli/answer.h"

#include <algorithm>

#include "base/format.h"

namespace haast::cli {

std::vector<int32_t> Answer::token_ids() const {
  std::vector<int32_t> ids;
  ids.reserve(tokens.size());
  for (const TokenOutput& output : tokens) ids.push_back(output.token);
  return ids;
}

double DecodeTokensPerSecond(const RequestTimings& timings) {
  if (timings.generated_tokens < 2 || timings.decode_seconds <= 0.0) return 0.0;
  return static_cast<double>(timings.generated_tokens - 1) / timings.decode_seconds;
}

double PrefillTokensPerSecond(const RequestTimings& timings) {
  if (timings.prefill_seconds <= 0.0) return 0.0;
  return static_cast<double>(timings.prompt_tokens - timings.cached_prompt_tokens) / timings.prefill_seconds;
}

std::vector<double> PositionAcceptance(const SpeculationStats& stats) {
  std::vector<double> shares;
  for (const int64_t accepted : stats.accepted_at) {
    shares.push_back(stats.rounds == 0 ? 0.0 : static_cast<double>(accepted) / static_cast<double>(stats.rounds));
  }
  return shares;
}

std::string StatisticsLine(const Answer& answer) {
  const RequestTimings& timings = answer.timings;
  const std::string cached = timings.cached_prompt_tokens > 0 ? fmt::format(" ({} cached)", timings.cached_prompt_tokens) : "";
  const auto speed = [](double tps) { return tps > 0.0 ? fmt::format(", {:.1f} tokens/s", tps) : ""; };
  std::string line = fmt::format("{} tokens{}; prompt {} tokens{}{}", timings.generated_tokens, speed(DecodeTokensPerSecond(timings)),
                                 timings.prompt_tokens, cached, speed(PrefillTokensPerSecond(timings)));
  const SpeculationStats& stats = answer.speculation;
  if (stats.rounds > 0) {
    line += fmt::format("; tau {:.2f} over {} rounds, accepted by position:", stats.tau(), stats.rounds);
    for (const double share : PositionAcceptance(stats)) line += fmt::format(" {:.0f}%", 100.0 * share);
  }
  return line + fmt::format("; finished: {}", FinishReasonName(answer.finish));
}

std::string DisabledDrafters(const EngineStats& stats) {
  std::string text;
  for (const DrafterStats& drafter : stats.drafters) {
    if (!drafter.disabled.empty()) text += fmt::format("{}: {}\n", drafter.name, drafter.disabled);
  }
  return text;
}

double BytesRead(const SpeculationStats& stats, const RequestTimings& timings, int64_t target_bytes, int64_t draft_bytes) {
  const int64_t outside_rounds = std::max<int64_t>(0, timings.generated_tokens - 1 - stats.emitted);
  return static_cast<double>(stats.rounds + outside_rounds) * static_cast<double>(target_bytes) +
         static_cast<double>(stats.drafted) * static_cast<double>(draft_bytes);
}

Spread SpreadOf(std::vector<double> samples) {
  if (samples.empty()) return {};
  std::sort(samples.begin(), samples.end());
  const size_t half = samples.size() / 2;
  const double median = samples.size() % 2 == 1 ? samples[half] : 0.5 * (samples[half - 1] + samples[half]);
  return {.min = samples.front(), .median = median, .max = samples.back()};
}

}  // namespace haast::cli
