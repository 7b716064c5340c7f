// Kinds of bugs that other engines had (docs/known-bugs.md) and that belong to no one file.
#include <gtest/gtest.h>

#include "support/engine_harness.h"
#include "support/tiny_models.h"

namespace haast::testing {
namespace {

// A head's own position limit is that of its training, not of its use: beyond it the answer is exact and drafts go on.
TEST(KnownBugs, AHeadOfAShorterContextDraftsBeyondIt) {
  const TempDir dir;
  TinyLlama llama;
  llama.tied = true;
  llama.layer_scale = 0.05f;
  llama.max_context = 512;
  TinyEagle3 head;
  head.target = llama;
  head.target.max_context = 64;
  head.draft_vocab = 0;  // the whole vocabulary
  head.echo = true;
  EngineOptions options{.model = WriteTinyGguf(llama, dir.Join("model.gguf")), .draft = WriteTinyEagle3(head, dir.Join("head"))};
  options.threads = 1;
  auto engine = MustCreate(options);
  Request plain;
  plain.prompt = RandomIds(60, llama.vocab, 3);
  plain.max_tokens = 100;
  plain.logprobs = 0;
  Request drafted = plain;
  drafted.speculation = {SpeculativeAlgorithm::kEagle3, 3};
  const Answer expected = RunRequests(*engine, {plain})[0];
  const Answer actual = RunRequests(*engine, {drafted})[0];
  ASSERT_EQ(expected.tokens.size(), 100u) << expected.error;
  ExpectSameBits(expected, actual, "beyond the head's context");
  EXPECT_GT(actual.speculation.accepted, 40) << "the echo head is right nearly always, at any position";
}

}  // namespace
}  // namespace haast::testing
