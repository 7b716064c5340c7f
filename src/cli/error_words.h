// Errors of the engine in the words of the command line: flags where it names fields and paths.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <string>
#include <string_view>

namespace haast::cli {

// A field of EngineOptions, Request or BenchOptions as the engine's messages write it, and the flag that sets it.
struct FieldFlag {
  std::string_view field;
  std::string_view flag;
};

inline constexpr std::array kFieldFlags = {
    FieldFlag{"max_context", "--context"},
    FieldFlag{"kv_tokens", "--kv-tokens"},
    FieldFlag{"kv_dtype", "--kv-dtype"},
    FieldFlag{"prefill_chunk", "--prefill-chunk"},
    FieldFlag{"max_batch", "--concurrency"},
    FieldFlag{"options.draft", "--draft"},
    FieldFlag{"options.draft_model", "--draft-model"},
    FieldFlag{"draft_quantisation", "--draft-quantisation"},
    FieldFlag{"speculation.algorithm", "--speculative-algorithm"},
    FieldFlag{"num_draft_tokens", "--num-draft-tokens"},
    FieldFlag{"speculation.top_k", "--draft-top-k"},
    FieldFlag{"speculation.depth", "--draft-depth"},
    FieldFlag{"max_tokens", "--max-tokens"},
    FieldFlag{"min_tokens", "--min-tokens"},
    FieldFlag{"logit_bias", "--logit-bias"},
    FieldFlag{"features.layers", "--layers"},
    FieldFlag{"bench.depth", "--depth"},
    FieldFlag{"bench.prefill_tokens", "--prefill-tokens"},
    FieldFlag{"bench.decode_tokens", "--decode-tokens"},
};

// `message` with the flags of kFieldFlags for their fields. A field is a whole word: not a part of a path, nor what is quoted.
std::string WithFlagNames(const std::string& message);

// `message` with the flag before it whose path it begins with ("PATH: ...", "PATH/file: ..."), as `app` was given it. `app` has parsed.
std::string WithPathFlag(const CLI::App& app, const std::string& message);

}  // namespace haast::cli
