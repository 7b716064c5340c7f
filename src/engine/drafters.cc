#include "engine/drafters.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "base/format.h"
#include "engine/check_range.h"
#include "spec/depth_policy.h"

namespace haast {

namespace {

struct Algorithm {
  const char* name;
  DraftSource source;
  bool trees;
  std::unique_ptr<spec::Drafter> (*make)(const spec::DraftParts&);
};

#define HAAST_ROW(algorithm, name, source, trees) {name, DraftSource::source, trees, &spec::Make##algorithm##Drafter},
constexpr Algorithm kAlgorithms[] = {{"none", DraftSource::kTokens, false, nullptr}, HAAST_SPECULATIVE_ALGORITHMS(HAAST_ROW)};
#undef HAAST_ROW

// Null for a value that is none of them, which a caller may have cast from anything.
const Algorithm* Find(SpeculativeAlgorithm algorithm) {
  const auto index = static_cast<size_t>(algorithm);
  return index < std::size(kAlgorithms) ? &kAlgorithms[index] : nullptr;
}

}  // namespace

const char* SpeculativeAlgorithmName(SpeculativeAlgorithm algorithm) {
  const Algorithm* found = Find(algorithm);
  return found != nullptr ? found->name : "unknown";
}

std::optional<SpeculativeAlgorithm> SpeculativeAlgorithmOf(std::string_view name) {
  const auto* const found = std::ranges::find(kAlgorithms, name, &Algorithm::name);
  if (found == std::end(kAlgorithms)) return std::nullopt;
  return static_cast<SpeculativeAlgorithm>(found - std::begin(kAlgorithms));
}

DraftSource DraftSourceOf(SpeculativeAlgorithm algorithm) {
  const Algorithm* found = Find(algorithm);
  return found != nullptr ? found->source : DraftSource::kTokens;
}

bool DraftsTrees(SpeculativeAlgorithm algorithm) {
  const Algorithm* found = Find(algorithm);
  return found != nullptr && found->trees;
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

bool IsLoaded(const LoadedModels& models, DraftSource source) {
  switch (source) {
    case DraftSource::kEagle3Head: return models.draft && models.draft->config().eagle3;
    case DraftSource::kEagleHead: return models.draft && !models.draft->config().eagle3;
    case DraftSource::kDraftModel: return models.draft_model != nullptr;
    case DraftSource::kTokens: return true;
  }
  return false;
}

}  // namespace

Drafters MakeDrafters(const LoadedModels& models, bool share) {
  if (models.draft) {
    HAAST_CHECK(models.draft->feature_width() == models.target->tap_width())
        << models.draft->feature_width() << " floats a token, the target taps " << models.target->tap_width();
  }
  const spec::DraftParts parts{models.draft.get(), models.draft_runner.get(), models.draft_model_runner.get(), models.ops, share};
  Drafters drafters;
  for (size_t i = 1; i < drafters.size(); ++i) {
    if (IsLoaded(models, kAlgorithms[i].source)) drafters[i] = kAlgorithms[i].make(parts);
  }
  return drafters;
}

const char* MissingFor(SpeculativeAlgorithm algorithm) {
  switch (DraftSourceOf(algorithm)) {
    case DraftSource::kEagle3Head: return "an EAGLE-3 head (options.draft)";
    case DraftSource::kEagleHead: return "an EAGLE-1 or EAGLE-2 head (options.draft)";
    case DraftSource::kDraftModel: return "a draft model (options.draft_model)";
    case DraftSource::kTokens: return "nothing";
  }
  return "nothing";
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
