// Speculation on and off over prompt files, in turns.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/generator.h"
#include "cli/json_forms.h"
#include "cli/prompt_input.h"

namespace haast::cli {

struct PromptFile {
  std::string path;
  std::vector<BenchPrompt> prompts;
};

// What one mode gave over one file. Wall time includes the prompts; decode time starts at each answer's first token.
struct ModeTotals {
  std::vector<double> tps;         // [repeats] generated tokens / wall seconds
  std::vector<double> decode_tps;  // [repeats] tokens after the first / sum of the requests' decode seconds
  int64_t tokens = 0;              // of one repeat
  // Where the engine's time went, per step, over all repeats.
  int64_t steps = 0;
  int64_t preemptions = 0;  // over all repeats: requests that lost their pages for a while
  double target_seconds = 0.0;
  double draft_seconds = 0.0;
  double sample_seconds = 0.0;
  double priced_seconds = 0.0;
  double priced_prompt_seconds = 0.0;
};

struct FileReport {
  std::string path;
  int64_t prompts = 0;
  ModeTotals plain;  // without repeats where it was not run (SpeculationBenchOptions::single)
  ModeTotals speculative;
  SpeculationStats speculation;  // of one repeat
  // Answers whose tokens or logprob bits differ between the modes or the repeats; between the repeats only where drafts are sampled
  // (SpeculativeSampling::kRejection).
  int64_t different = 0;
  std::string first_difference;  // "prompt 3, token 17"
  uint64_t checksum = 0;         // of all answers' tokens

  // Median over the repeats of the speed-up within a repeat.
  double speedup() const;
  double decode_speedup() const;
  double priced_speedup() const;
};

struct SpeculationBenchOptions {
  TextRequest request;  // sampling, drafts, max_tokens; the prompt is filled in
  int repeats = 1;
  int concurrency = 1;
  bool single = false;  // only as `request` says, not plainly too
};

// Errors: a prompt that the engine refuses (named by its number), kCancelled after Ctrl-C. `progress` may be null.
Result<FileReport> BenchFile(Generator& generator, const PromptFile& file, const SpeculationBenchOptions& options,
                             const std::function<void(const std::string&)>& progress);

// All files as one: tokens and counters added, speeds weighted by tokens.
FileReport Total(const std::vector<FileReport>& files);

std::string SpeculationText(const std::vector<FileReport>& files, const SpeculationBenchOptions& options);
Json SpeculationBenchJson(const std::vector<FileReport>& files, const SpeculationBenchOptions& options);

}  // namespace haast::cli
