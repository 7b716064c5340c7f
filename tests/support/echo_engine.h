// A fixture to derive from: files and options of an engine whose model repeats itself and whose head drafts repetitions.
#pragma once

#include <gtest/gtest.h>

#include "haast/engine.h"
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

  TempDir dir_;
  TinyLlama llama_;
  TinyEagle3 head_;
  EngineOptions options_;
};

}  // namespace haast::testing
