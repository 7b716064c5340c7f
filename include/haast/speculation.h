// How a request speculates: what drafts, how much, how drafts are judged.
#pragma once

#include <optional>
#include <string_view>

namespace haast {

// What a drafter reads beside the tokens of requests.
enum class DraftSource {
  kTokens,      // nothing
  kEagle3Head,  // an EAGLE-3 or EAGLE-3.1 head (EngineOptions::draft)
  kEagleHead,   // an EAGLE-1 or EAGLE-2 head (EngineOptions::draft)
  kDraftModel   // a second model of the same vocabulary (EngineOptions::draft_model)
};
constexpr bool IsHead(DraftSource source) { return source == DraftSource::kEagle3Head || source == DraftSource::kEagleHead; }

// Every drafter, a line each: X(enumerator, name in flags and reports, DraftSource, whether it drafts trees and not chains only). The
// engine makes it with spec::Make<enumerator>Drafter (spec/drafter.h).
#define HAAST_SPECULATIVE_ALGORITHMS(X)                                              \
  X(Eagle3, "eagle3", kEagle3Head, true)                                             \
  X(Eagle, "eagle", kEagleHead, true)                                                \
  X(DraftModel, "draft_model", kDraftModel, false)                                   \
  X(Ngram, "ngram", kTokens, false)  /* prompt lookup in the request's own tokens */ \
  X(Suffix, "suffix", kTokens, true) /* the likeliest continuations in the request's own tokens and those of finished requests */

#define HAAST_ENUMERATOR(algorithm, name, source, trees) k##algorithm,
enum class SpeculativeAlgorithm { kNone, HAAST_SPECULATIVE_ALGORITHMS(HAAST_ENUMERATOR) kEnd };
#undef HAAST_ENUMERATOR

inline constexpr int kNumSpeculativeAlgorithms = static_cast<int>(SpeculativeAlgorithm::kEnd);
const char* SpeculativeAlgorithmName(SpeculativeAlgorithm algorithm);  // "none", "eagle3", ...
std::optional<SpeculativeAlgorithm> SpeculativeAlgorithmOf(std::string_view name);
DraftSource DraftSourceOf(SpeculativeAlgorithm algorithm);  // of kNone: kTokens
// Where it does not, SpeculationParams::top_k and depth change nothing but the length of its chains.
bool DraftsTrees(SpeculativeAlgorithm algorithm);

// How drafts are made and judged above temperature 0; at 0 both are greedy.
enum class SpeculativeSampling {
  // The target draws its own token at each position and a draft is accepted if it equals it: the answer is, bit for bit, that of plain
  // decoding.
  kCoupled,
  // Drafts are drawn from the drafter's distribution q, accepted with probability min(1, p / q), else replaced by a draw from the
  // normalised max(p - q, 0) (Leviathan et al. 2023, Chen et al. 2023). Each token has the distribution of plain decoding, p, but the
  // answer of a seed is another one: it depends on the drafter, num_draft_tokens and max_tokens too, and on nothing else. Where a
  // drafter is certain (n-gram, suffix) kCoupled is such a rule, and used. Chains of a fixed length only.
  kRejection
};
inline constexpr int kNumSpeculativeSamplings = 2;
const char* SpeculativeSamplingName(SpeculativeSampling sampling);  // "coupled", "rejection"

// A round drafts a chain, or with top_k > 1 a tree: `depth` levels are expanded, `top_k` nodes of each, and the best
// `num_draft_tokens` nodes are verified (EAGLE-2, Li et al. 2024). What is generated never depends on any of it, unless `sampling` is
// kRejection.
struct SpeculationParams {
  SpeculativeAlgorithm algorithm = SpeculativeAlgorithm::kNone;
  int num_draft_tokens = 3;  // drafts of a round, the root excluded: 1..63. Verification then has one row more
  int top_k = 1;             // children of a node: 1..16; 1: a chain
  int depth = 0;             // levels of a tree: 1..16; 0: num_draft_tokens for a chain, at most 5 for a tree
  // The engine chooses the length of each round's chain, from 0 to num_draft_tokens (at most 16), by what steps cost on this
  // machine at the present load and by what was accepted lately. top_k must be 1.
  bool automatic = false;
  SpeculativeSampling sampling = SpeculativeSampling::kCoupled;  // kRejection needs top_k 1, and automatic off
};

}  // namespace haast
