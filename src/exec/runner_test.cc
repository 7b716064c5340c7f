// Fixed-shape launches against launches of their own shape: the same bits on the real rows, and nothing written outside the
// reserved page. One thread: padding rows may write one reserved slot. And launches with rows that nobody wants the output of.
#include "exec/runner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "model/eagle1.h"
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
    std::vector<int32_t> owners, ids, logit_rows;
    std::vector<SequenceRows> sequences;
    const auto begin = [&] { owners.clear(), ids.clear(), logit_rows.clear(), sequences.clear(); };
    const auto add = [&](size_t b, int64_t before, int64_t rows, std::span<const int32_t> parents = {}) {
      owners.push_back(kOwners[b]);
      sequences.push_back({.pages = pages[b], .kv_before = before, .num_rows = rows, .tree_parents = parents});
      for (int64_t j = 0; j < rows; ++j) {
        logit_rows.push_back(static_cast<int32_t>(ids.size()));
        ids.push_back(static_cast<int32_t>((before + j) * 31 + static_cast<int64_t>(b) * 57) % 160);
      }
    };
    const auto batch = [&](ForwardMode mode) { return Batch{mode, sequences, owners, ids, nullptr, false, logit_rows, true}; };

    begin();
    for (size_t b = 0; b < 3; ++b) add(b, 0, prompts[b]);
    ExpectSame(*target_plain_, *target_padded_, batch(ForwardMode::kExtend), 5);
    // Draft extend over the same rows, from the taps that both targets agree on.
    std::vector<float> taps(target_plain_->taps(0), target_plain_->taps(0) + static_cast<int64_t>(ids.size()) * target_->tap_width());
    Batch extend{ForwardMode::kDraftExtend, sequences, owners, ids, taps.data(), true, logit_rows, false};
    ExpectSame(*head_plain_, *head_padded_, extend, 5);

    begin();
    for (size_t b = 0; b < 3; ++b) add(b, prompts[b], 1);
    std::vector<float> carried(head_plain_->carried(0), head_plain_->carried(0) + 3 * head_->config().hidden_size);
    Batch decode{ForwardMode::kDraftDecode, sequences, owners, ids, carried.data(), false, logit_rows, false};
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

// Launches of two sequences, 9 and 5 rows.
class UnwantedRows : public PaddedRunner {
 protected:
  static constexpr int32_t kOwners[] = {7, 8};
  static constexpr int64_t kRows[] = {9, 5};

  void SetUp() override {
    for (size_t b = 0; b < 2; ++b) {
      ASSERT_TRUE(pages_.Allocate(3, kOwners[b], &held_[b]));
      sequences_.push_back({.pages = held_[b], .kv_before = 0, .num_rows = kRows[b]});
    }
    for (int32_t row = 0; row < 14; ++row) ids_.push_back(row * 31 % 160);
    for (int i = 0; i < 14 * 3 * 64; ++i) features_.push_back(std::sin(0.7f * static_cast<float>(i)));
  }

  // Of wanted rows, and of K, V and taps of all rows, the bits are those of a launch whose rows are all wanted.
  void ExpectUnchanged(model::Model& model, bool want_taps) {
    const RunnerOptions options{.max_rows = 14, .max_logit_rows = 14, .max_context = 64, .buckets = {}};
    const std::unique_ptr<Runner> all = Make(model, options);
    ASSERT_NO_FATAL_FAILURE(Run(*all, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, want_taps));
    const auto same = [](const float* a, const float* b, int64_t n) {
      return std::memcmp(a, b, static_cast<size_t>(n) * sizeof(float)) == 0;
    };
    for (const auto& wanted : {std::vector<int32_t>{}, {8, 13}, {13}, {0, 3, 4, 9}}) {
      const std::unique_ptr<Runner> some = Make(model, options);
      ASSERT_NO_FATAL_FAILURE(Run(*some, wanted, want_taps));
      const std::string what = std::string(ops_->name) + ", " + std::to_string(wanted.size()) + " wanted";
      for (size_t i = 0; i < wanted.size(); ++i) {
        const auto n = static_cast<int64_t>(i);
        EXPECT_TRUE(same(some->logits(n).data(), all->logits(wanted[i]).data(), model.logits_width())) << what << ", row " << wanted[i];
        if (!model.carries()) continue;
        EXPECT_TRUE(same(some->carried(n), all->carried(wanted[i]), model.config().hidden_size)) << what << ", row " << wanted[i];
      }
      EXPECT_TRUE(!want_taps || same(some->taps(0), all->taps(0), 14 * model.tap_width())) << what;
      ExpectSameCache(*all, *some, what);
    }
  }

  void Run(Runner& runner, const std::vector<int32_t>& wanted, bool want_taps) {
    Batch batch{ForwardMode::kExtend, sequences_, kOwners, ids_, nullptr, false, wanted, want_taps};
    if (runner.model().carries()) {
      batch.features = features_.data();
      batch.features_are_taps = true;
    }
    const Status ran = runner.Run(batch);
    ASSERT_TRUE(ran) << ran.error().message;
  }

  std::vector<int32_t> held_[2];
  std::vector<SequenceRows> sequences_;
  std::vector<int32_t> ids_;
  std::vector<float> features_;
};

TEST_F(UnwantedRows, OfTheTargetChangeNothing) {
  for (const kernels::Ops* ops : Backends()) {
    ASSERT_NO_FATAL_FAILURE(Load(*ops));
    ExpectUnchanged(*target_, true);  // it taps its last layer's output too
    ExpectUnchanged(*target_, false);
  }
}

TEST_F(UnwantedRows, OfHeadsChangeNothing) {
  const TempDir dir;
  for (const kernels::Ops* ops : Backends()) {
    ASSERT_NO_FATAL_FAILURE(Load(*ops));
    ExpectUnchanged(*head_, false);
    const model::LoadContext load{*ops, pool_, std::nullopt};
    TinyEagle3 eagle31;
    eagle31.fc_norm = eagle31.norm_output = eagle31.norm_before_residual = true;
    const auto file = io::ModelFile::Open(WriteTinyEagle3(eagle31, dir.Join("eagle31")));
    const auto file1 = io::ModelFile::Open(WriteTinyEagle1(TinyLlama(), 2, /*echo=*/false, dir.Join("eagle1")));
    ASSERT_TRUE(file && file1);
    ExpectUnchanged(**model::Eagle3Head::Load(*file, *target_, 256, load, load), false);
    ExpectUnchanged(**model::Eagle1Head::Load(*file1, *target_, 256, load), false);
  }
}

TEST_F(UnwantedRows, WantedRowsMustAscend) {
  ASSERT_NO_FATAL_FAILURE(Load(kernels::RefOps()));
  const auto refusal = [&](const std::vector<int32_t>& wanted) {
    const Status ran = target_plain_->Run({ForwardMode::kExtend, sequences_, kOwners, ids_, nullptr, false, wanted, false});
    return ran ? "" : ran.error().message;
  };
  EXPECT_EQ(refusal({4, 4}), "extend: logits of row 4, expected one above 4");
  EXPECT_EQ(refusal({8, 2}), "extend: logits of row 2, expected one above 8");
  EXPECT_EQ(refusal({-1}), "extend: logits of row -1, expected one above -1");
  EXPECT_EQ(refusal({0, 14}), "extend: logits of row 14 of 14");
  EXPECT_EQ(refusal({0, 13}), "");
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
