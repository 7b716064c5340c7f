// Random cases of the property test: models, an engine's options and requests with their arrivals, all from one 64-bit seed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "haast/engine.h"
#include "support/tiny_models.h"

namespace haast::testing {

struct PlannedRequest {
  Request request;    // without its constraint, which has a state: each run makes its own
  bool constrained;   // it gets a PairStop
  int arrives = 0;    // before which step it is submitted
  int cancelled = 0;  // before which step it is cancelled; 0: never
};

enum class Head { kNone, kEagle1, kEagle3 };

struct PropertyCase {
  uint64_t seed = 0;
  TinyLlama llama;
  Head head = Head::kNone;
  TinyEagle3 eagle3;
  int eagle1_layers = 1;
  bool eagle1_echo = false;
  bool has_draft_model = false;
  TinyLlama draft_model;
  EngineOptions options;  // paths are left to the run
  bool swap_to_file = false;
  bool traced = false;           // the metadata of every launch is written to a file and checked there
  std::vector<int> restarts;     // before these steps everything is saved and goes on in a new engine
  std::vector<int> page_sizes;   // [restarts] of the new engines
  std::vector<int> inspections;  // after these steps a request's state is compared with one computed afresh
  std::vector<PlannedRequest> requests;
};

PropertyCase MakePropertyCase(uint64_t seed);

// What a pool of such pages must have for the largest of the requests alone.
int64_t SmallestPool(const PropertyCase& property, int page_size);

// In a few lines: what a failure's report begins with.
std::string Describe(const PropertyCase& property);

// Ends the answer after two tokens in a row whose sum is a multiple of 11, and forbids half of the vocabulary after every odd token.
class PairStop final : public TokenConstraint {
 public:
  bool NeedsMask() const override { return !tokens_.empty() && tokens_.back() % 2 == 1; }
  void Mask(std::span<float> logits) override;
  void Advance(int32_t token) override { tokens_.push_back(token); }
  void Rollback(int count) override { tokens_.resize(tokens_.size() - static_cast<size_t>(count)); }
  bool finished() const override;

 private:
  std::vector<int32_t> tokens_;
};

}  // namespace haast::testing
