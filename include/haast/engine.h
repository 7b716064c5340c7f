// The engine: many requests, one model, one step at a time.
//
//   auto engine = haast::Engine::Create({.model = "model.gguf", .draft = "head/"});
//   auto id = (*engine)->Submit(request);
//   while (!(*engine)->idle()) for (const haast::Event& event : (*engine)->Step()) ...
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "haast/event.h"
#include "haast/model_info.h"
#include "haast/request.h"
#include "haast/result.h"
#include "haast/step_costs.h"

namespace haast {

enum class KvDtype { kF16, kF32 };

// What happens to the latest request when the KV pool is full: its tokens are computed again later, or its KV waits elsewhere.
enum class Preemption { kRecompute, kSwap };

struct EngineOptions {
  std::string model;                        // GGUF file or Hugging Face folder
  std::string draft;                        // EAGLE head folder (EAGLE-1, 2, 3 or 3.1); empty: none
  std::string draft_model;                  // GGUF file or folder of a smaller model of the same vocabulary; empty: none
  std::string backend = "cpu";              // "cpu", or "ref": the naive fp32 definition of correct
  std::string draft_quantisation = "auto";  // head weights at load: "auto" (q8_0, lm_head q4_1), "q8_0", "q4_1", "none"
  int threads = 0;                          // 0: every processor this process may use
  KvDtype kv_dtype = KvDtype::kF16;
  int page_size = 16;        // tokens a KV page
  int64_t kv_tokens = 0;     // tokens in the KV pool, all requests together; 0: one full context, at least 8,192
  int64_t max_context = 0;   // longest sequence; 0: the model's own limit
  int max_batch = 16;        // requests that run together
  int prefill_chunk = 512;   // prompt tokens a step may take, all requests together
  bool prefix_cache = true;  // KV of what was computed is used again by requests that begin alike; never changes an answer
  Preemption preemption = Preemption::kRecompute;
  std::string swap_directory;  // with kSwap: a folder for the swapped KV; empty: host memory
  int64_t swap_bytes = 0;      // with kSwap: how much of it; 0: as much as the KV pool has. What does not fit is recomputed
  // A head or draft model whose first drafts are accepted less often than this, in 256 rounds of all requests together, is no
  // longer used: it does not fit what it drafts for, and only costs time. 0: never. Requests whose drafts are sampled
  // (SpeculativeSampling::kRejection) go on with it, for their answers depend on it.
  double acceptance_floor = 0.02;
  // File that gets the metadata of every launch, target and head, one JSON line each (docs/check.md); empty: none. A path
  // that cannot be opened is refused; a later failure ends the trace (EngineStats::trace_error), not the run.
  std::string trace_metadata;
  // What launches cost (MeasureStepCosts in haast/bench.h): automatic speculation then decides by these alone, the same way
  // every time, and EngineStats::priced_seconds adds them up. Null: measured when a request first speculates automatically.
  std::shared_ptr<const StepCosts> step_costs;
};

// One drafter's part in the speculation of all requests.
struct DrafterStats {
  std::string name;  // "eagle3", "ngram", ...
  SpeculationStats speculation;
  double seconds = 0.0;         // spent drafting
  double wasted_seconds = 0.0;  // of those, the share of drafts that were not accepted
  // Why the engine stopped using it, beginning with a code: "low_acceptance: ..."; empty while it is in use.
  std::string disabled;
};

struct EngineStats {
  int64_t steps = 0;
  int64_t running = 0;
  int64_t waiting = 0;
  // free + cached + held by requests = total.
  int64_t free_pages = 0;
  int64_t cached_pages = 0;       // hold a prefix that a request may use again; free at need
  int64_t total_pages = 0;        // without the reserved one
  int64_t prefix_hit_tokens = 0;  // tokens that were not computed again
  int64_t prefix_evictions = 0;   // cached pages that made room
  int64_t preemptions = 0;        // requests that lost their pages for a while
  int64_t swaps = 0;              // of these, whose KV was kept elsewhere
  SpeculationStats speculation;   // finished and running requests, all drafters
  std::vector<DrafterStats> drafters;
  double draft_seconds = 0.0;          // draft decode and draft extend
  double target_seconds = 0.0;         // target launches
  double sample_seconds = 0.0;         // acceptance and sampling
  double priced_seconds = 0.0;         // what all launches cost by EngineOptions::step_costs; 0 without
  double priced_prompt_seconds = 0.0;  // of those, in steps that took prompt tokens
  int64_t traced_launches = 0;         // written to trace_metadata
  std::string trace_error;             // why the trace ended early; empty: it did not
};

// A saved request as it came back.
struct ResumedRequest {
  RequestId id = 0;
  Request request;                 // as submitted; its constraint is the new one
  std::vector<int32_t> generated;  // tokens that were emitted before it was saved
  std::string note;                // what Save was given
};

// Makes the constraint of a saved request anew; the engine then advances it by `generated`. Null: none.
using ConstraintMaker = std::function<std::shared_ptr<TokenConstraint>(const ResumedRequest&)>;

class Engine {
 public:
  static Result<std::unique_ptr<Engine>> Create(const EngineOptions& options);
  virtual ~Engine() = default;

  // Queues a request. A request that can never run (empty or too long prompt, an id outside the vocabulary, more pages
  // than the pool has, a parameter out of range) is refused here and touches nobody. May be called from any thread.
  virtual Result<RequestId> Submit(Request request) = 0;
  // Ends a request at the next step; its last event says kCancelled. Unknown and finished ids are ignored. Any thread.
  virtual void Cancel(RequestId id) = 0;

  // Admits, drafts, verifies, commits; gives the events. One thread owns it. Without work it returns nothing at once.
  virtual std::vector<Event> Step() = 0;
  // Writes all that the request needs to go on (tokens, parameters, target and draft KV, drafter state) to a file, as a whole
  // or not at all. Between steps, by the thread that steps; the request goes on here too. `note` is the front door's. kNotFound:
  // no such request waits or runs; kIo: the file cannot be written.
  virtual Status Save(RequestId id, const std::string& path, const std::string& note = "") = 0;
  // Queues a saved request under a new id. What it generates is, bit for bit, what it would have generated without the break;
  // events carry new tokens only. A file of another build, model, head or KV type, a damaged one, and one whose request cannot
  // run here is refused with the reason. The pool and its page size may be others. By the thread that steps.
  virtual Result<ResumedRequest> Resume(const std::string& path, const ConstraintMaker& make_constraint = nullptr) = 0;
  // No request is queued or running.
  virtual bool idle() const = 0;

  virtual const EngineOptions& options() const = 0;  // as resolved: threads, context and pool size filled in
  virtual const ModelInfo& model() const = 0;
  virtual const ModelInfo* draft() const = 0;  // null without a head
  virtual EngineStats stats() const = 0;
  // Bytes a decode step reads (weights), and one draft step: for roofline fractions.
  virtual int64_t target_bytes_per_pass() const = 0;
  virtual int64_t draft_bytes_per_pass() const = 0;
};

}  // namespace haast
