// What all draft heads have in common: they read features of the target and the next token's id, and predict the token after.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/model.h"

namespace haast::model {

class DraftHead : public Model {
 public:
  int64_t tap_width() const override { return 0; }
  bool carries() const override { return true; }
  // Floats of one token's target features (ForwardArgs::features with features_are_taps).
  int64_t feature_width() const override = 0;
  // Target id of each draft id; empty: the same ids.
  virtual std::span<const int32_t> draft_to_target() const = 0;
};

}  // namespace haast::model
