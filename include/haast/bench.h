// Measures an engine's steps against the machine's memory bandwidth.
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
  int repeats = 5;  // interleaved; min, median and max are over them
};

struct VerifyTiming {
  int rows = 0;
  Timing milliseconds;  // one target pass of `rows` tokens with logits on all of them
};

struct BenchReport {
  Timing prefill_tps;  // prompt tokens a second
  Timing decode_tps;   // plain decoding, one request
  std::vector<VerifyTiming> verify;
  Timing draft_step_ms;        // one draft decode step; 0 without a head
  Timing draft_extend_ms;      // draft extend of 4 rows; 0 without a head
  double read_gb_per_s = 0.0;  // measured: all threads read a buffer of the model's size, median
  int64_t bytes_per_pass = 0;  // weights one decode step reads
  int64_t draft_bytes_per_pass = 0;
  double decode_roofline = 0.0;  // bytes_per_pass / read bandwidth over the median time of verify(1)
  double draft_roofline = 0.0;
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
