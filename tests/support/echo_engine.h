// A fixture to derive from: files and options of an engine whose model repeats itself and whose head drafts repetitions.
#pragma once

#include <gtest/gtest.h>

#include "haast/engine.h"
#include "support/engine_harness.h"
#include "support/tiny_models.h"

namespace haast::testing {

class EchoEngine : public ::testing::Test {
 protected:
  // With 0.4 the model repeats itself now and then, so that drafts are accepted and rejected; the smaller, the more are accepted.
  explicit EchoEngine(float layer_scale = 0.4f) {
    llama_.tied = true;
    llama_.layer_scale = layer_scale;
    head_.target = llama_;
    head_.echo = true;
    options_.model = WriteTinyGguf(llama_, dir_.Join("model.gguf"));
    options_.draft = WriteTinyEagle3(head_, dir_.Join("head"));
    options_.threads = 1;
  }

  // Of `prompt` random ids; greedy where `seed` is even. 0 drafts: plainly decoded.
  static Request MakeRequest(int prompt, int max_tokens, uint64_t seed, int drafts = 0) {
    Request request;
    request.prompt = RandomIds(prompt, TinyLlama().vocab, seed);
    request.max_tokens = max_tokens;
    request.logprobs = 0;
    request.sampling = {.temperature = seed % 2 == 0 ? 0.0f : 1.0f, .seed = seed};
    if (drafts > 0) request.speculation = {SpeculativeAlgorithm::kEagle3, drafts};
    return request;
  }

  static Request Plain(Request request) {
    request.speculation = {};
    return request;
  }

  // The answer that every other way must give: plainly, in a large pool without a cache.
  Answer Alone(const Request& request) {
    EngineOptions options = options_;
    options.kv_tokens = 4096;
    options.prefix_cache = false;
    options.trace_metadata.clear();
    return RunRequests(*MustCreate(options), {Plain(request)})[0];
  }

  TempDir dir_;
  TinyLlama llama_;
  TinyEagle3 head_;
  EngineOptions options_;
};

}  // namespace haast::testing
