// Fixed-shape launches against launches of their own shape: the same bits on the real rows, and nothing written outside the
// reserved page. One thread: padding rows may write one reserved slot.
#include "exec/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "model/eagle3.h"
#include "support/tiny_models.h"

namespace haast::exec {
namespace {

using attention::Bucket;
using attention::ForwardMode;
using attention::SequenceRows;
using ::haast::testing::TempDir;
using ::haast::testing::TinyEagle3;
using ::haast::testing::TinyLlama;
using ::testing::HasSubstr;

constexpr int kPages = 40;
constexpr int kPageSize = 4;

std::vector<const kernels::Ops*> Backends() {
  std::vector<const kernels::Ops*> backends = {&kernels::RefOps()};
  for (const base::Isa isa : base::SupportedIsas()) backends.push_back(&kernels::CpuOps(isa));
  return backends;
}

// Target and head, each with a runner of plain and one of padded launches; every launch goes to both.
class PaddedRunner : public ::testing::Test {
 protected:
  void Load(const kernels::Ops& ops) {
    ops_ = &ops;
    const TempDir dir;
    TinyEagle3 head;
    auto target_file = io::ModelFile::Open(WriteTinyGguf(TinyLlama(), dir.Join("model.gguf")));
    auto head_file = io::ModelFile::Open(WriteTinyEagle3(head, dir.Join("head")));
    ASSERT_TRUE(target_file && head_file);
    target_file_ = std::make_unique<io::ModelFile>(std::move(*target_file));
    head_file_ = std::make_unique<io::ModelFile>(std::move(*head_file));
    const model::LoadContext load{ops, pool_, std::nullopt};
    auto target = model::Llama::Load(*target_file_, {256, {0, 1, 2}}, load);
    ASSERT_TRUE(target) << target.error().message;
    target_ = std::move(*target);
    auto draft = model::Eagle3Head::Load(*head_file_, *target_, 256, load, load);
    ASSERT_TRUE(draft) << draft.error().message;
    head_ = std::move(*draft);
    RunnerOptions options{.max_rows = 64, .max_logit_rows = 64, .max_context = 64, .buckets = {}};
    RunnerOptions padded = options;
    padded.buckets = buckets_;
    target_plain_ = Make(*target_, options);
    target_padded_ = Make(*target_, padded);
    head_plain_ = Make(*head_, options);
    head_padded_ = Make(*head_, padded);
  }

  std::unique_ptr<Runner> Make(model::Model& model, const RunnerOptions& options) {
    auto runner = Runner::Create(model, *ops_, pool_, pages_, options);
    EXPECT_TRUE(runner) << runner.error().message;
    return std::move(*runner);
  }

  // Runs `batch` on both and compares; `padded_batch` is what the padded launch must have had.
  void ExpectSame(Runner& plain, Runner& padded, const Batch& batch, int padded_batch) {
    const std::string what = std::string(ops_->name) + " " + ForwardModeName(batch.mode);
    const Status ran_plain = plain.Run(batch);
    const Status ran_padded = padded.Run(batch);
    ASSERT_TRUE(ran_plain && ran_padded) << what << ": " << (ran_padded ? ran_plain : ran_padded).error().message;
    EXPECT_EQ(padded.metadata().batch(), padded_batch) << what;
    EXPECT_EQ(padded.metadata().mode, batch.mode);
    for (size_t i = 0; i < batch.logit_rows.size(); ++i) {
      const std::span<const float> a = plain.logits(static_cast<int64_t>(i)), b = padded.logits(static_cast<int64_t>(i));
      EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size_bytes()), 0) << what << ", logits " << i;
    }
    const int64_t rows = static_cast<int64_t>(batch.ids.size());
    const auto same_floats = [](const float* a, const float* b, int64_t n) {
      return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
    };
    for (int64_t row = 0; row < rows; ++row) {
      const bool same = batch.features == nullptr
                            ? same_floats(plain.taps(row), padded.taps(row), plain.model().tap_width())
                            : same_floats(plain.carried(row), padded.carried(row), plain.model().config().hidden_size);
      EXPECT_TRUE(same) << what << ", row " << row;
    }
    ExpectSameCache(plain, padded, what);
  }

  // Byte by byte behind the reserved page, which padding may write.
  void ExpectSameCache(Runner& plain, Runner& padded, const std::string& what) {
    const int64_t slot_bytes = plain.cache().bytes_per_slot() / plain.cache().num_layers() / 2;
    const size_t skip = static_cast<size_t>(kPageSize * slot_bytes);
    const size_t bytes = static_cast<size_t>(plain.cache().slots() * slot_bytes) - skip;
    for (int layer = 0; layer < plain.cache().num_layers(); ++layer) {
      const auto behind = [&](void* cache) { return static_cast<const char*>(cache) + skip; };
      EXPECT_EQ(std::memcmp(behind(plain.cache().k(layer)), behind(padded.cache().k(layer)), bytes), 0) << what << ", K of layer " << layer;
      EXPECT_EQ(std::memcmp(behind(plain.cache().v(layer)), behind(padded.cache().v(layer)), bytes), 0) << what << ", V of layer " << layer;
    }
  }

  base::ThreadPool pool_{1};
  kv::PagePool pages_{kPages, kPageSize};
  const kernels::Ops* ops_ = nullptr;
  std::vector<Bucket> buckets_ = {{.batch = 2, .rows = 2, .max_q_len = 1, .max_kv_len = 64},
                                  {.batch = 4, .rows = 4, .max_q_len = 1, .max_kv_len = 64},
                                  {.batch = 4, .rows = 20, .max_q_len = 20, .max_kv_len = 64},
                                  {.batch = 5, .rows = 60, .max_q_len = 40, .max_kv_len = 64}};
  std::unique_ptr<io::ModelFile> target_file_, head_file_;
  std::unique_ptr<model::Llama> target_;
  std::unique_ptr<model::Eagle3Head> head_;
  std::unique_ptr<Runner> target_plain_, target_padded_, head_plain_, head_padded_;
};

TEST_F(PaddedRunner, EveryModeHasTheBitsOfItsOwnShape) {
  constexpr int32_t kOwners[] = {7, 8, 9};
  const int64_t prompts[] = {9, 21, 3};
  for (const kernels::Ops* ops : Backends()) {
    ASSERT_NO_FATAL_FAILURE(Load(*ops));
    std::vector<std::vector<int32_t>> pages(3);
    for (size_t b = 0; b < 3; ++b) ASSERT_TRUE(pages_.Allocate(9, kOwners[b], &pages[b]));
    std::vector<int32_t> ids, logit_rows;
    std::vector<SequenceRows> sequences;
    const auto begin = [&] { ids.clear(), logit_rows.clear(), sequences.clear(); };
    const auto add = [&](size_t b, int64_t before, int64_t rows, std::span<const int32_t> parents = {}) {
      sequences.push_back({.pages = pages[b], .kv_before = before, .num_rows = rows, .tree_parents = parents});
      for (int64_t j = 0; j < rows; ++j) {
        logit_rows.push_back(static_cast<int32_t>(ids.size()));
        ids.push_back(static_cast<int32_t>((before + j) * 31 + static_cast<int64_t>(b) * 57) % 160);
      }
    };
    const auto batch = [&](ForwardMode mode) { return Batch{mode, sequences, kOwners, ids, nullptr, false, logit_rows, true}; };

    begin();
    for (size_t b = 0; b < 3; ++b) add(b, 0, prompts[b]);
    ExpectSame(*target_plain_, *target_padded_, batch(ForwardMode::kExtend), 5);
    // Draft extend over the same rows, from the taps that both targets agree on.
    std::vector<float> taps(target_plain_->taps(0), target_plain_->taps(0) + static_cast<int64_t>(ids.size()) * target_->tap_width());
    Batch extend{ForwardMode::kDraftExtend, sequences, kOwners, ids, taps.data(), true, logit_rows, false};
    ExpectSame(*head_plain_, *head_padded_, extend, 5);

    begin();
    for (size_t b = 0; b < 3; ++b) add(b, prompts[b], 1);
    std::vector<float> carried(head_plain_->carried(0), head_plain_->carried(0) + 3 * head_->config().hidden_size);
    Batch decode{ForwardMode::kDraftDecode, sequences, kOwners, ids, carried.data(), false, logit_rows, false};
    ExpectSame(*head_plain_, *head_padded_, decode, 4);
    ExpectSame(*target_plain_, *target_padded_, batch(ForwardMode::kDecode), 4);

    begin();
    const std::vector<int32_t> tree = {-1, 0, 0, 1, 2, 2};
    add(0, prompts[0], 6, tree);
    add(1, prompts[1], 4);
    add(2, prompts[2], 1);
    ExpectSame(*target_plain_, *target_padded_, batch(ForwardMode::kTargetVerify), 4);

    begin();
    add(1, prompts[1], 1);
    ExpectSame(*target_plain_, *target_padded_, batch(ForwardMode::kDecode), 2);  // the batch shrank
    begin();
    ExpectSame(*target_plain_, *target_padded_, batch(ForwardMode::kIdle), 0);
    begin();
    for (size_t b = 0; b < 3; ++b) add(b, 0, 21);
    ExpectSame(*target_plain_, *target_padded_, batch(ForwardMode::kExtend), 3);  // above the largest bucket
    for (size_t b = 0; b < 3; ++b) pages_.Free(pages[b], kOwners[b]);
  }
}

TEST_F(PaddedRunner, BucketsBeyondTheRunnerAreRefused) {
  ASSERT_NO_FATAL_FAILURE(Load(kernels::RefOps()));
  const RunnerOptions options{
      .max_rows = 8, .max_logit_rows = 8, .max_context = 64, .buckets = {{.batch = 4, .rows = 16, .max_q_len = 4, .max_kv_len = 64}}};
  const auto runner = Runner::Create(*target_, kernels::RefOps(), pool_, pages_, options);
  ASSERT_FALSE(runner);
  EXPECT_THAT(runner.error().message,
              HasSubstr("a bucket of 4 sequences, 16 rows and 64 KV entries; the runner has room for 8 rows and 64"));
}

}  // namespace
}  // namespace haast::exec
