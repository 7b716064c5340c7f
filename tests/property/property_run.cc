#include "property/property_run.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/file_bytes.h"
#include "engine/engine_impl.h"
#include "engine/session_file.h"
#include "haast/check.h"
#include "support/engine_harness.h"

namespace haast::testing {
namespace {

constexpr int kMostSteps = 5000;  // far more than any case takes: the engine must not stand still
constexpr RequestId kGone = -1;   // it ended in an earlier engine
constexpr int64_t kMostSessionBytes = int64_t{256} << 20;

Request RequestOf(const PlannedRequest& planned) {
  Request request = planned.request;
  if (planned.constrained) request.constraint = std::make_shared<PairStop>();
  return request;
}

// Lets nothing but one token come next.
class OnlyToken final : public TokenConstraint {
 public:
  explicit OnlyToken(int32_t token) : token_(token) {}
  bool NeedsMask() const override { return true; }
  void Mask(std::span<float> logits) override {
    std::fill(logits.begin(), logits.end(), -1.0f);
    logits[static_cast<size_t>(token_)] = 1e6f;
  }
  void Advance(int32_t) override {}
  void Rollback(int) override {}
  bool finished() const override { return false; }

 private:
  int32_t token_;
};

void ExpectSound(const CheckReport& report) {
  for (const LaunchFinding& finding : report.findings)
    ADD_FAILURE() << finding.model << ": " << finding.invariant << ": " << finding.message;
  EXPECT_EQ(report.unreadable_lines, 0);
}

class PropertyRun {
 public:
  PropertyRun(const PropertyCase& property, PropertyCounts* counts)
      : property_(property), counts_(*counts), answers_(property.requests.size()), ids_(property.requests.size(), 0) {}

  void Run() {
    WriteModels();
    ComputeExpected();
    engine_ = MustCreate(OptionsOf(property_.options.page_size));
    for (int step = 0; !(AllSubmitted() && engine_->idle()); ++step) {
      ASSERT_LT(step, kMostSteps) << "the requests come to no end";
      Submit(step);
      Restart(step);
      Cancel(step);
      Step();
      if (std::count(property_.inspections.begin(), property_.inspections.end(), step) > 0) Inspect(step);
      if (::testing::Test::HasFailure()) return;
    }
    ++counts_.cases;
    CheckAnswers();
    LeaveEngine();
  }

 private:
  void WriteModels() {
    options_ = property_.options;
    options_.model = WriteTinyGguf(property_.llama, dir_.Join("model.gguf"));
    if (property_.head == Head::kEagle3) options_.draft = WriteTinyEagle3(property_.eagle3, dir_.Join("head"));
    if (property_.head == Head::kEagle1) {
      options_.draft = WriteTinyEagle1(property_.llama, property_.eagle1_layers, property_.eagle1_echo, dir_.Join("head"));
    }
    if (property_.has_draft_model) options_.draft_model = WriteTinyGguf(property_.draft_model, dir_.Join("draft.gguf"));
    if (property_.swap_to_file) options_.swap_directory = dir_.path();
  }

  EngineOptions OptionsOf(int page_size) const {
    EngineOptions options = options_;
    options.page_size = page_size;
    options.kv_tokens = std::max(options.kv_tokens, SmallestPool(property_, page_size));
    if (property_.traced) options.trace_metadata = dir_.Join("trace");
    return options;
  }

  // One request at a time, in a large pool, without anything that could go wrong.
  EngineOptions PlainOptions() const {
    EngineOptions options;
    options.model = options_.model;
    options.kv_dtype = options_.kv_dtype;
    options.threads = 1;
    options.prefix_cache = false;
    return options;
  }

  // Of plain decoding; where answers depend on drafts (SpeculativeSampling::kRejection), with these.
  void ComputeExpected() {
    EngineOptions options = PlainOptions();
    options.draft = options_.draft;
    options.draft_model = options_.draft_model;
    options.draft_quantisation = options_.draft_quantisation;
    auto engine = MustCreate(options);
    for (const PlannedRequest& planned : property_.requests) {
      Request request = RequestOf(planned);
      if (request.speculation.sampling == SpeculativeSampling::kCoupled) request.speculation = {};
      expected_.push_back(RunRequests(*engine, {request})[0]);
    }
  }

  engine::EngineImpl& impl() { return dynamic_cast<engine::EngineImpl&>(*engine_); }
  bool AllSubmitted() const { return std::count(ids_.begin(), ids_.end(), 0) == 0; }
  bool Unfinished(size_t i) const { return ids_[i] != 0 && answers_[i].finish == FinishReason::kNone; }
  size_t IndexOf(RequestId id) const { return static_cast<size_t>(std::find(ids_.begin(), ids_.end(), id) - ids_.begin()); }

  void Submit(int step) {
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (property_.requests[i].arrives != step) continue;
      const auto id = engine_->Submit(RequestOf(property_.requests[i]));
      ASSERT_TRUE(id) << id.error().message;
      ids_[i] = *id;
    }
  }

  void Cancel(int step) {
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (step > 0 && property_.requests[i].cancelled == step && Unfinished(i)) engine_->Cancel(ids_[i]);
    }
  }

  void Step() {
    ++counts_.steps;
    for (Event& event : engine_->Step()) {
      CheckEvent(event);
      const size_t i = IndexOf(event.request);
      ASSERT_LT(i, ids_.size()) << "an event of request " << event.request;
      ASSERT_TRUE(Unfinished(i)) << "an event after the end of request " << i;
      AddEvent(std::move(event), &answers_[i]);
    }
    const Status invariants = impl().CheckInvariants();
    ASSERT_TRUE(invariants) << invariants.error().message;
    const EngineStats stats = engine_->stats();
    ASSERT_LE(stats.free_pages + stats.cached_pages, stats.total_pages);
    ASSERT_LE(stats.running, options_.max_batch);
    if (stats.running == 0) {
      ASSERT_EQ(stats.free_pages + stats.cached_pages, stats.total_pages);
    }
  }

  // Tokens, drafts and counts of one round tell the same.
  void CheckEvent(const Event& event) {
    const auto from_draft = [](const TokenOutput& token) { return token.from_draft; };
    ASSERT_EQ(event.num_accepted, std::count_if(event.tokens.begin(), event.tokens.end(), from_draft));
    ASSERT_EQ(event.num_accepted, static_cast<int>(event.accepted.size()));
    bool first_rows = true;
    for (size_t i = 0; i < event.accepted.size(); ++i) {
      const int32_t draft = event.accepted[i];
      first_rows &= draft == static_cast<int32_t>(i);
      ASSERT_EQ(event.drafts[static_cast<size_t>(draft)], event.tokens[i].token);
      if (event.parents.empty()) continue;
      ASSERT_EQ(event.parents[static_cast<size_t>(draft)], i == 0 ? -1 : event.accepted[i - 1]);
    }
    counts_.other_branches += !first_rows;
  }

  // Every request is saved, the engine ends, another one goes on.
  void Restart(int step) {
    const auto restart = std::find(property_.restarts.begin(), property_.restarts.end(), step);
    if (restart == property_.restarts.end()) return;
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (!Unfinished(i)) continue;
      const Status saved = engine_->Save(ids_[i], dir_.Join("session" + std::to_string(i)));
      ASSERT_TRUE(saved) << saved.error().message;
    }
    LeaveEngine();
    engine_ = MustCreate(OptionsOf(property_.page_sizes[static_cast<size_t>(restart - property_.restarts.begin())]));
    for (size_t i = 0; i < ids_.size(); ++i) {
      if (ids_[i] != 0 && !Unfinished(i)) ids_[i] = kGone;
      if (!Unfinished(i)) continue;
      const auto resumed =
          engine_->Resume(dir_.Join("session" + std::to_string(i)), [](const ResumedRequest&) { return std::make_shared<PairStop>(); });
      ASSERT_TRUE(resumed) << resumed.error().message;
      ASSERT_EQ(resumed->generated, answers_[i].tokens);
      ids_[i] = resumed->id;
      ++counts_.resumed;
    }
  }

  // Counts what the engine came by, ends it and reads its trace.
  void LeaveEngine() {
    const EngineStats stats = engine_->stats();
    counts_.preemptions += stats.preemptions;
    counts_.swaps += stats.swaps;
    counts_.prefix_hit_tokens += stats.prefix_hit_tokens;
    counts_.prefix_evictions += stats.prefix_evictions;
    engine_.reset();
    if (!property_.traced || stats.traced_launches == 0) return;
    ASSERT_EQ(stats.trace_error, "");
    const int file = open(dir_.Join("trace").c_str(), O_RDONLY | O_CLOEXEC);
    const auto report = CheckMetadata(file, "trace");
    close(file);
    ASSERT_TRUE(report) << report.error().message;
    ASSERT_EQ(report->launches, stats.traced_launches);
    counts_.checked_launches += report->launches;
    ExpectSound(*report);
  }

  std::vector<uint8_t> SavedBytes(Engine& engine, RequestId id, engine::Session* session) {
    const std::string path = dir_.Join("inspected");
    const Status saved = engine.Save(id, path);
    EXPECT_TRUE(saved) << saved.error().message;
    const auto bytes = base::ReadFileBytes(path, kMostSessionBytes);
    EXPECT_TRUE(bytes);
    auto decoded = engine::DecodeSession(*bytes, path);
    EXPECT_TRUE(decoded);
    *session = std::move(*decoded);
    return session->kv_state;
  }

  // The KV of a decoding request, its draft KV, carried feature and next drafts are those of the same tokens as a fresh prompt.
  void Inspect(int step) {
    for (size_t n = 0; n < ids_.size(); ++n) {
      const size_t i = (n + static_cast<size_t>(step)) % ids_.size();
      const SpeculationParams& speculation = property_.requests[i].request.speculation;
      // A draft model may be ahead or behind, and so may a head where depths are chosen by time.
      if (!Unfinished(i) || speculation.algorithm == SpeculativeAlgorithm::kDraftModel || speculation.automatic) continue;
      engine::Session session;
      const std::vector<uint8_t> state = SavedBytes(*engine_, ids_[i], &session);
      const size_t tokens = session.request.prompt.size() + session.generated.size();
      int64_t length = 0;
      if (state.size() >= sizeof(length)) std::memcpy(&length, state.data(), sizeof(length));
      if (session.generated.empty() || length != static_cast<int64_t>(tokens) - 1) continue;
      ASSERT_EQ(state, FreshState(std::move(session))) << "request " << i << " after step " << step << ", " << tokens << " tokens";
      ++counts_.inspected;
      return;
    }
  }

  std::vector<uint8_t> FreshState(engine::Session session) {
    if (!fresh_) {
      EngineOptions options = PlainOptions();
      options.draft = options_.draft;
      options.draft_quantisation = options_.draft_quantisation;
      fresh_ = MustCreate(options);
    }
    Request request = std::move(session.request);
    request.prompt.insert(request.prompt.end(), session.generated.begin(), session.generated.end() - 1);
    request.constraint = std::make_shared<OnlyToken>(session.generated.back());
    request.eos_ids.clear();
    request.min_tokens = 0;
    request.max_tokens = 2;
    request.prompt_logprobs = -1;
    const auto id = fresh_->Submit(request);
    EXPECT_TRUE(id) << id.error().message;
    fresh_->Step();
    engine::Session again;
    std::vector<uint8_t> state = SavedBytes(*fresh_, *id, &again);
    EXPECT_EQ(again.generated, std::vector<int32_t>{session.generated.back()});
    fresh_->Cancel(*id);
    fresh_->Step();
    return state;
  }

  void CheckAnswers() {
    for (size_t i = 0; i < answers_.size(); ++i) {
      ++counts_.requests;
      Answer expected = expected_[i];
      const Answer& answer = answers_[i];
      if (answer.finish == FinishReason::kCancelled) {
        ++counts_.cancelled;
        ASSERT_NE(property_.requests[i].cancelled, 0);
        ASSERT_LE(answer.tokens.size(), expected.tokens.size());
        expected.tokens.resize(answer.tokens.size());
        if (answer.tokens.empty()) expected.prompt.clear();
        expected.finish = FinishReason::kCancelled;
      }
      ExpectSameBits(expected, answer, "request " + std::to_string(i));
      CheckCounters(answer, property_.requests[i].request.speculation);
    }
  }

  // The counters at the end are the sums over the rounds, in all engines that the request was in.
  void CheckCounters(const Answer& answer, const SpeculationParams& speculation) {
    SpeculationStats sum;
    for (const Event& event : answer.events) {
      if (event.drafts.empty()) continue;
      ++sum.rounds;
      sum.drafted += static_cast<int64_t>(event.drafts.size());
      sum.accepted += event.num_accepted;
      sum.emitted += static_cast<int64_t>(event.tokens.size());
    }
    EXPECT_EQ(sum.rounds, answer.speculation.rounds);
    EXPECT_EQ(sum.drafted, answer.speculation.drafted);
    EXPECT_EQ(sum.accepted, answer.speculation.accepted);
    EXPECT_EQ(sum.emitted, answer.speculation.emitted);
    counts_.accepted[static_cast<size_t>(speculation.algorithm)] += sum.accepted;
    if (speculation.automatic) counts_.automatic_rounds += sum.rounds;
    if (speculation.sampling == SpeculativeSampling::kRejection) counts_.rejection_rounds += sum.rounds;
  }

  const PropertyCase& property_;
  PropertyCounts& counts_;
  TempDir dir_;
  EngineOptions options_;
  std::vector<Answer> expected_;
  std::vector<Answer> answers_;
  std::vector<RequestId> ids_;  // in the present engine; 0: not submitted yet
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Engine> fresh_;
};

}  // namespace

void RunPropertyCase(const PropertyCase& property, PropertyCounts* counts) { PropertyRun(property, counts).Run(); }

}  // namespace haast::testing
