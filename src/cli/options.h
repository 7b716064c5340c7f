// The flags that commands share, their --help texts and what they mean to the engine.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "haast/engine.h"
#include "haast/request.h"
#include "haast/result.h"

namespace haast::cli {

struct ModelFlags {
  std::string model;  // empty: the default model
  std::string draft;  // empty: the default head with the default model, else none
  std::string draft_model;
  std::string algorithm;  // "": that of the head; else SpeculativeAlgorithmName
  bool no_speculation = false;
  int num_draft_tokens = 0;  // 0: the engine chooses, round by round
  int draft_top_k = 1;
  int draft_depth = 0;
  std::string speculative_sampling = "coupled";
  std::string draft_quantisation = "auto";
  int threads = 0;
  std::string kv_dtype = "f16";
  int64_t context = 0;
  int64_t kv_tokens = 0;
  std::string backend = "cpu";
  int prefill_chunk = 512;
  bool no_prefix_cache = false;
  std::string preemption = "recompute";
  std::string swap_directory;  // empty: host memory
  std::string trace_metadata;  // empty: none
};

struct SamplingFlags {
  float temperature = 0.0f;
  int top_k = 0;
  float top_p = 1.0f;
  float min_p = 0.0f;
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  std::vector<std::string> logit_bias;  // "ID=BIAS"
  uint64_t seed = 0;
  int64_t max_tokens = 256;
  int64_t min_tokens = 0;
  bool ignore_eos = false;
};

void AddModelFlags(CLI::App& app, ModelFlags& flags);
void AddSamplingFlags(CLI::App& app, SamplingFlags& flags);

// kInvalidArgument where flags contradict each other; kNotFound or kIo where the folder for swapped KV cannot be used.
Status CheckModelFlags(const ModelFlags& flags);
// The user asked for plain decoding.
bool SpeculationOff(const ModelFlags& flags);
// What the algorithm that was asked for drafts from; nullopt: none was asked for.
std::optional<DraftSource> AskedSource(const ModelFlags& flags);

// Paths are those of ResolveModel (model_paths.h).
EngineOptions ToEngineOptions(const ModelFlags& flags, const std::string& model, const std::string& draft);
// `head`: the loaded head, or null. It drafts unless the flags say otherwise.
SpeculationParams ToSpeculation(const ModelFlags& flags, const ModelInfo* head);
SamplingParams ToSampling(const SamplingFlags& flags);

// Parses `args` (without program and command name). An exit code means: stop here. Help has been written to `out`, or
// "haast NAME: what was wrong" and the way to help to `err`.
std::optional<int> Parse(CLI::App& app, const std::vector<std::string>& args, class Output& out, class Output& err);

}  // namespace haast::cli
