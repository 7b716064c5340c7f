// What one request gave, as commands print it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "haast/engine.h"
#include "haast/event.h"

namespace haast::cli {

struct Answer {
  std::string text;                 // without special tokens and without the stop string that ended it
  std::vector<TokenOutput> tokens;  // everything emitted, an end token included
  std::vector<TokenOutput> prompt;  // logprobs of the prompt from its second token on, where they were asked for
  FinishReason finish = FinishReason::kNone;
  std::string error;  // with FinishReason::kError
  SpeculationStats speculation;
  RequestTimings timings;

  std::vector<int32_t> token_ids() const;
};

// Tokens a second after the first one, which belongs to the prompt's time; 0 where there is no second token.
double DecodeTokensPerSecond(const RequestTimings& timings);
double PrefillTokensPerSecond(const RequestTimings& timings);

// For draft i (from 0), the share of rounds in which it was accepted.
std::vector<double> PositionAcceptance(const SpeculationStats& stats);

// The line after an answer: "128 tokens, 301.2 tokens/s; prompt 31 tokens, 700.1 tokens/s; tau 2.31 over 55 rounds,
// accepted 61% 38% 22% 14% by position; finished: length".
std::string StatisticsLine(const Answer& answer);

// A line for each drafter that the engine stopped using, with the reason; empty without one.
std::string DisabledDrafters(const EngineStats& stats);

// Bytes of weights that the passes of a run read, for roofline fractions: a target pass for each round and each token
// outside rounds (the prompt's own pass not counted), a draft pass for each draft.
double BytesRead(const SpeculationStats& stats, const RequestTimings& timings, int64_t target_bytes, int64_t draft_bytes);

struct Spread {
  double min = 0.0;
  double median = 0.0;
  double max = 0.0;
};
// Zeros for no samples.
Spread SpreadOf(std::vector<double> samples);

}  // namespace haast::cli
