// The JSON that commands print with --json (docs/cli.md).
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "cli/answer.h"
#include "haast/bench.h"
#include "haast/model_info.h"
#include "haast/request.h"

namespace haast::cli {

using Json = nlohmann::ordered_json;

// Text of one token.
using TokenText = std::function<std::string(int32_t)>;

// "speculation" of an answer: counters; zeros for plain decoding.
Json SpeculationJson(const SpeculationStats& stats, const SpeculationParams& params);
Json TimingsJson(const RequestTimings& timings, double load_seconds);
// One entry a token: {token_id, token, logprob, top: [{token_id, token, logprob}]}.
Json LogprobsJson(std::span<const TokenOutput> tokens, const TokenText& token_text);
Json SpreadJson(const Spread& spread);
Json ModelJson(const ModelInfo& info);
// Everything RunBench measured, without "speculation".
Json BenchJson(const BenchReport& report);

// One line; ill-formed UTF-8 is repaired, numbers that are not finite are null.
std::string Dump(const Json& json);

}  // namespace haast::cli
