// The one loop: admit, draft, run the target, accept, commit, emit, let the drafter learn.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "engine/draft_health.h"
#include "engine/drafters.h"
#include "engine/kv_state.h"
#include "engine/loaded_models.h"
#include "engine/sequence.h"
#include "engine/session_file.h"
#include "engine/step_costs.h"
#include "haast/engine.h"
#include "kv/prefix_cache.h"
#include "sampling/sampler.h"

namespace haast::engine {

class EngineImpl final : public Engine {
 public:
  EngineImpl(EngineOptions options, LoadedModels models);

  Result<RequestId> Submit(Request request) override;
  void Cancel(RequestId id) override;
  std::vector<Event> Step() override;
  Status Save(RequestId id, const std::string& path, const std::string& note) override;
  Result<ResumedRequest> Resume(const std::string& path, const ConstraintMaker& make_constraint) override;
  bool idle() const override { return unfinished_.load() == 0; }

  const EngineOptions& options() const override { return options_; }
  const ModelInfo& model() const override { return models_.target_info; }
  const ModelInfo* draft() const override { return models_.draft ? &models_.draft_info : nullptr; }
  EngineStats stats() const override;
  int64_t target_bytes_per_pass() const override { return models_.target->bytes_per_pass(); }
  int64_t draft_bytes_per_pass() const override { return models_.draft ? models_.draft->bytes_per_pass() : 0; }

  // Page accounting, counted again from what the requests hold, the prefix cache, and whether drafters have followed: for tests.
  Status CheckInvariants() const;

 private:
  // A sequence's part in the step's target launch.
  struct Share {
    Sequence* sequence;
    int64_t rows;           // committed tokens that get their KV now
    int64_t first_row;      // of the launch
    int64_t first_logit;    // of the rows that tokens are drawn from; -1: the prompt goes on
    int64_t prompt_logit;   // of `rows` prompt rows whose logprobs are asked for; -1: none
    std::vector<int> kept;  // verified rows that were accepted, the root first (AcceptResult::rows)
  };

  Status CheckRequest(const Request& request) const;
  int64_t MostTokens(const Request& request) const;
  RequestId Enqueue(std::unique_ptr<Sequence> sequence);
  void TakeInbox(std::vector<Event>* events);
  Status Propose();
  spec::Drafter* DrafterOf(const Sequence& sequence) const;        // null where it does not speculate
  spec::Drafter* ActiveDrafterOf(const Sequence& sequence) const;  // likewise where it is no longer used
  spec::TreeShape WantedShape(const Sequence& sequence) const;
  Status RunTarget();
  void ReadPromptLogprobs(const Share& share);
  std::span<const float> LogitsToDraw(const Sequence& sequence, int64_t logit);
  void Accept(Share* share, Event* event);
  void CommitRows(const Share& share);
  void CountRound(Sequence* sequence, int num_accepted, int64_t emitted);
  bool Emit(Sequence* sequence, int64_t logit, int32_t token, bool from_draft, Event* event);
  Status Observe();
  void Finish(Sequence* sequence, FinishReason reason, Event* event);
  double PricedSeconds() const;  // of all launches
  void FailStep(const Error& error, std::vector<Event>* events);
  void RemoveFinished();

  // Pages (paging.cc). Requests run and wait in order of arrival: who runs came before who waits.
  void Admit();
  bool Start(Sequence* sequence);
  void ReservePages();
  int64_t TokensToRun(const Sequence& sequence) const;
  bool Grow(Sequence* sequence, int64_t tokens);
  bool MakeRoom(int64_t pages) { return prefix_ ? prefix_->MakeRoom(pages) : pages <= models_.pages->num_free(); }
  bool TakeBackSurplus();
  void Preempt();
  bool Keep(std::vector<uint8_t> state, Sequence* sequence);
  bool CanPack(const Sequence& sequence) const;
  bool SwapOut(Sequence* sequence);
  bool SwapIn(Sequence* sequence);
  void CachePages(Sequence* sequence);
  Status CheckSequence(const Sequence& sequence) const;
  // Which drafter's entries the pages of a sequence hold beside the target's; 0: none. Pages are shared within one kind.
  int DraftKind(const Sequence& sequence) const;
  SequenceCaches CachesOf(const Sequence& sequence) const;

  // Automatic speculation (automatic.cc).
  void PriceLaunches();
  bool learns_costs() const { return options_.step_costs == nullptr && !costs_.target.empty(); }
  Status MeasureCosts();
  Status RunDrafter(size_t algorithm, LaunchCosts* costs, spec::CostLearner* learner, const std::function<Status()>& part);
  spec::DepthRequest DepthRequestOf(const Sequence& sequence) const;
  void PlanDepths();

  // Saved requests (sessions.cc).
  Result<Session> ToSession(const Sequence& sequence);
  Result<std::unique_ptr<Sequence>> FromSession(Session* session, const std::string& path);
  SessionOrigin OriginOf(const Request& request);
  uint64_t FingerprintOf(const io::ModelFile& file);

  EngineOptions options_;
  LoadedModels models_;
  Drafters drafters_;
  std::array<DraftHealth, kNumSpeculativeAlgorithms> health_;
  std::array<DrafterStats, kNumSpeculativeAlgorithms> drafter_stats_;
  StepCosts costs_;        // as given, or empty until a request speculates automatically
  CostLearners learners_;  // of costs that were measured here
  std::array<spec::AcceptanceEstimate, kNumSpeculativeAlgorithms> acceptance_;  // over all requests
  std::array<spec::ProbeClock, kNumSpeculativeAlgorithms> probes_;
  std::array<spec::DepthExplorer, kNumSpeculativeAlgorithms> explorers_;
  std::unique_ptr<kv::PrefixCache> prefix_;  // null: off
  SwapSpace swap_;
  sampling::SamplerScratch sampler_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of arrival
  int32_t next_owner_ = 0;
  std::map<const io::ModelFile*, uint64_t> fingerprints_;  // of files that a session needed
  EngineStats stats_;

  // Arrays of one step, kept for their memory.
  std::vector<Share> shares_;
  std::vector<attention::SequenceRows> sequence_rows_;
  std::vector<int32_t> owners_;
  std::vector<int32_t> ids_;
  std::vector<int32_t> logit_rows_;
  attention::ForwardMode target_mode_ = attention::ForwardMode::kIdle;  // of the step's target launch

  // The inbox is all that other threads touch.
  std::mutex inbox_mutex_;
  std::vector<std::unique_ptr<Sequence>> inbox_;
  std::vector<RequestId> cancelled_;
  RequestId next_id_ = 1;
  std::atomic<int64_t> unfinished_{0};
};

}  // namespace haast::engine
