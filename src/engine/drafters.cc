#include "engine/drafters.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"
#include "engine/check_range.h"
#include "spec/depth_policy.h"
#include "spec/eagle_drafter.h"
#include "spec/model_drafter.h"
#include "spec/ngram_drafter.h"
#include "spec/suffix_drafter.h"

namespace haast {

const char* SpeculativeAlgorithmName(SpeculativeAlgorithm algorithm) {
  switch (algorithm) {
    case SpeculativeAlgorithm::kNone: return "none";
    case SpeculativeAlgorithm::kEagle3: return "eagle3";
    case SpeculativeAlgorithm::kEagle: return "eagle";
    case SpeculativeAlgorithm::kDraftModel: return "draft_model";
    case SpeculativeAlgorithm::kNgram: return "ngram";
    case SpeculativeAlgorithm::kSuffix: return "suffix";
  }
  return "unknown";
}

const char* SpeculativeSamplingName(SpeculativeSampling sampling) {
  switch (sampling) {
    case SpeculativeSampling::kCoupled: return "coupled";
    case SpeculativeSampling::kRejection: return "rejection";
  }
  return "unknown";
}

namespace engine {
namespace {

constexpr int kTreeDepth = 5;  // of a tree whose depth is left open

}  // namespace

Drafters MakeDrafters(const LoadedModels& models, bool share) {
  Drafters drafters;
  const auto at = [&](SpeculativeAlgorithm algorithm) -> std::unique_ptr<spec::Drafter>& {
    return drafters[static_cast<size_t>(algorithm)];
  };
  if (models.draft) {
    HAAST_CHECK(models.draft->feature_width() == models.target->tap_width())
        << models.draft->feature_width() << " floats a token, the target taps " << models.target->tap_width();
    const auto algorithm = models.draft->config().eagle3 ? SpeculativeAlgorithm::kEagle3 : SpeculativeAlgorithm::kEagle;
    at(algorithm) =
        std::make_unique<spec::EagleDrafter>(SpeculativeAlgorithmName(algorithm), *models.draft, *models.draft_runner, *models.ops, share);
  }
  if (models.draft_model) {
    at(SpeculativeAlgorithm::kDraftModel) = std::make_unique<spec::ModelDrafter>(*models.draft_model_runner, *models.ops);
  }
  at(SpeculativeAlgorithm::kNgram) = std::make_unique<spec::NgramDrafter>();
  at(SpeculativeAlgorithm::kSuffix) = std::make_unique<spec::SuffixDrafter>();
  return drafters;
}

const char* MissingFor(SpeculativeAlgorithm algorithm) {
  switch (algorithm) {
    case SpeculativeAlgorithm::kEagle3: return "an EAGLE-3 head (options.draft)";
    case SpeculativeAlgorithm::kEagle: return "an EAGLE-1 or EAGLE-2 head (options.draft)";
    case SpeculativeAlgorithm::kDraftModel: return "a draft model (options.draft_model)";
    default: return "nothing";
  }
}

spec::TreeShape ShapeOf(const SpeculationParams& params) {
  spec::TreeShape shape{params.num_draft_tokens, params.depth, params.top_k};
  if (shape.depth == 0) shape.depth = shape.top_k == 1 ? shape.num_tokens : std::min(kTreeDepth, shape.num_tokens);
  if (shape.top_k == 1) shape.num_tokens = shape.depth = std::min(shape.depth, shape.num_tokens);
  return shape;
}

Status CheckSpeculation(const SpeculationParams& params) {
  HAAST_RETURN_IF_ERROR(CheckRange("num_draft_tokens (drafts, the root excluded)", params.num_draft_tokens, 1, kMaxDraftTokens));
  HAAST_RETURN_IF_ERROR(CheckRange("speculation.top_k", params.top_k, 1, kMaxDraftTopK));
  HAAST_RETURN_IF_ERROR(CheckRange("speculation.depth", params.depth, 0, params.top_k == 1 ? kMaxDraftTokens : kMaxTreeDepth));
  if (params.automatic && (params.top_k != 1 || params.num_draft_tokens > spec::kMaxPlannedDepth)) {
    return Err(ErrorCode::kInvalidArgument,
               "automatic speculation drafts chains of at most {}: speculation.top_k = {}, num_draft_tokens = {}", spec::kMaxPlannedDepth,
               params.top_k, params.num_draft_tokens);
  }
  HAAST_RETURN_IF_ERROR(CheckRange("sampling", static_cast<int>(params.sampling), 0, kNumSpeculativeSamplings - 1));
  if (params.sampling == SpeculativeSampling::kRejection && (params.automatic || params.top_k != 1)) {
    return Err(
        ErrorCode::kInvalidArgument,
        "rejection sampling drafts chains of a fixed length, but {}: give num_draft_tokens with speculation.top_k = 1, or sample coupled",
        params.automatic ? "the length was left to the engine" : fmt::format("speculation.top_k = {} makes a tree", params.top_k));
  }
  const spec::TreeShape shape = ShapeOf(params);
  // A drafter runs the expanded nodes as one tree.
  if (shape.top_k > 1 && shape.top_k * (shape.depth - 1) > spec::kMaxTreeRows) {
    return Err(ErrorCode::kInvalidArgument,
               "speculation.top_k = {} and speculation.depth = {}: {} expanded nodes, at most {}; lower one of them", shape.top_k,
               shape.depth, shape.top_k * (shape.depth - 1), spec::kMaxTreeRows);
  }
  return {};
}

}  // namespace engine
}  // namespace haast
