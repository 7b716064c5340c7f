// Measures an engine's steps against what the machine can do: its memory bandwidth and its rate of 8-bit products.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "haast/engine.h"
#include "haast/result.h"

namespace haast {

struct Timing {
  double min = 0.0;
  double median = 0.0;
  double max = 0.0;
};

struct BenchOptions {
  int64_t prefill_tokens = 512;
  int64_t decode_tokens = 128;
  int64_t depth = 128;  // tokens of context before each measured step
  std::vector<int> verify_rows = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16};
  int repeats = 5;       // interleaved; min, median and max are over them
  bool profile = false;  // also op by op
};

// Of a step: the time below which its bytes cannot be read nor its 8-bit products be computed, over the median time it took.
using RooflineShare = double;

struct VerifyTiming {
  int rows = 0;
  Timing milliseconds;  // one target pass of `rows` tokens with logits on all of them
  RooflineShare roofline = 0.0;
};

struct OpProfile {
  std::string op;             // "linear q_proj+k_proj+v_proj 960x576" ([N, K]); the last is "the rest": what is outside all ops
  int64_t calls = 0;          // of one step
  double microseconds = 0.0;  // of all of them; the median over the passes, so that a step's sum differs a little from its time
  int64_t bytes = 0;          // that all of them must read
};

struct StepProfile {
  std::string step;  // "verify(4)"
  int64_t rows = 0;
  double milliseconds = 0.0;  // median
  int64_t bytes = 0;
  int64_t operations = 0;  // of products with block formats: 2 for each weight and row
  std::vector<OpProfile> ops;
};

struct BenchReport {
  Timing prefill_tps;  // prompt tokens a second
  Timing decode_tps;   // plain decoding, one request
  std::vector<VerifyTiming> verify;
  Timing draft_step_ms;        // one draft decode step; 0 without a head
  Timing draft_extend_ms;      // draft extend of 4 rows; 0 without a head
  double read_gb_per_s = 0.0;  // measured in the same turns: all threads read a buffer of the model's size
  int64_t bytes_per_pass = 0;  // weights one decode step reads
  int64_t draft_bytes_per_pass = 0;
  double int8_tops = 0.0;  // measured, 1e12 operations a second: all threads multiply bytes in registers; 0: not known
  RooflineShare prefill_roofline = 0.0;
  RooflineShare decode_roofline = 0.0;  // of verify(1)
  RooflineShare draft_step_roofline = 0.0;
  RooflineShare draft_extend_roofline = 0.0;
  std::vector<StepProfile> profile;  // BenchOptions::profile: target passes of 1, 4 and 8 rows, a prompt, draft extend, draft step
};

// Loads the model of `engine` anew; `progress` (may be null) gets a line now and then.
Result<BenchReport> RunBench(const EngineOptions& engine, const BenchOptions& options,
                             const std::function<void(const std::string&)>& progress);

// What launches cost, for EngineOptions::step_costs: each is timed `repeats` times and the shortest time counts. Loads the models of
// `engine` anew. kInvalidArgument: a pool or context too small.
Result<StepCosts> MeasureStepCosts(const EngineOptions& engine, int repeats);

// Gigabytes (1e9) a second that `threads` threads together read from a buffer of `bytes`, the median of several passes.
// Errors: kInvalidArgument where either is below 1, kOutOfMemory.
Result<double> MeasureReadBandwidth(int threads, int64_t bytes);

}  // namespace haast
