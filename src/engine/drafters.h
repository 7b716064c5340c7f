// The drafters of an engine: one for each algorithm that its files allow.
#pragma once

#include <array>
#include <memory>

#include "engine/loaded_models.h"
#include "spec/drafter.h"

namespace haast::engine {

using Drafters = std::array<std::unique_ptr<spec::Drafter>, kNumSpeculativeAlgorithms>;

// `models` outlives the drafters. `share`: their entries in the pages may be shared with other requests. Null where an algorithm needs a
// head or a model that was not loaded.
Drafters MakeDrafters(const LoadedModels& models, bool share);

// What is missing for `algorithm`, and how to give it.
const char* MissingFor(SpeculativeAlgorithm algorithm);

// The shape of a round as the engine runs it: 0 filled in.
spec::TreeShape ShapeOf(const SpeculationParams& params);

// Refuses parameters out of range with their values.
Status CheckSpeculation(const SpeculationParams& params);

}  // namespace haast::engine
