#include "kernels/cases/cases.h"

namespace haast::kernels::cases {
namespace {

constexpr DType kF16 = DType::kF16;
constexpr DType kF32 = DType::kF32;

}  // namespace

std::span<const AttentionCase> AttentionCases() {
  // Splits start every 128 keys and row blocks hold 96 pairs: lengths stand on, before and after those edges.
  static const std::vector<AttentionCase> cases{
      {"first token", 9, 3, 64, kF16, {{0, 1}}},
      {"split edges", 9, 3, 64, kF16, {{126, 1}, {127, 1}, {128, 1}, {255, 2}, {120, 17}}},
      {"mixed batch", 9, 3, 64, kF16, {{0, 5}, {130, 20}, {700, 3}, {40, 1}}},
      {"prefill chunks", 9, 3, 64, kF16, {{0, 70}, {64, 64}, {300, 100}}},
      {"more rows than are spread", 6, 3, 64, kF16, {{200, 40}, {150, 40}, {400, 5}}},
      {"tree", 9, 3, 64, kF16, {{0, 5, true}, {130, 20, true}, {300, 4, true}}},
      {"tree over a split edge", 9, 3, 64, kF16, {{120, 24, true}, {128, 8, true}, {127, 64, true}}},
      {"tree beside prefill", 4, 2, 64, kF16, {{90, 12, true}, {10, 120}, {257, 1}}},
      {"levels of a tree", 9, 3, 64, kF16, {{130, 4, true, 8}, {121, 8, true, 24}, {0, 1, true, 63}, {50, 1}}},
      {"group 1", 4, 4, 128, kF16, {{200, 4}, {30, 6, true}}},
      {"group 16", 16, 1, 256, kF16, {{140, 4}, {5, 9}}},
      {"group 5, head_dim 80", 10, 2, 80, kF16, {{200, 5}, {131, 6, true}}},
      {"head_dim 32", 8, 2, 32, kF16, {{300, 3}}},
      {"head_dim 36", 7, 1, 36, kF16, {{140, 3}, {3, 5, true}}},
      {"head_dim 72, f32", 6, 3, 72, kF32, {{140, 3}, {120, 16, true}}},
      {"head_dim 64, f32", 9, 3, 64, kF32, {{0, 5}, {300, 4}}},
      {"head_dim 100, f32", 3, 3, 100, kF32, {{129, 2}}},
      {"head_dim 2", 2, 1, 2, kF16, {{130, 2}}},
      {"SmolLM2-135M, 128 keys, 1 row", 9, 3, 64, kF16, {{127, 1}}, true},
      {"SmolLM2-135M, 2048 keys, 1 row", 9, 3, 64, kF16, {{2047, 1}}, true},
      {"SmolLM2-135M, 2048 keys, 4 rows", 9, 3, 64, kF16, {{2044, 4}}, true},
      {"SmolLM2-135M, 2048 keys, 8 rows", 9, 3, 64, kF16, {{2040, 8}}, true},
      {"SmolLM2-135M, 2048 keys, tree of 16", 9, 3, 64, kF16, {{2032, 16, true}}, true},
      {"SmolLM2-135M, 4 sequences of 4 rows", 9, 3, 64, kF16, {{500, 4}, {600, 4}, {700, 4}, {800, 4}}, true},
      {"SmolLM2-135M, prefill of 256", 9, 3, 64, kF16, {{0, 256}}, true},
      {"32 heads of 128, 1024 keys, 1 row", 32, 8, 128, kF16, {{1023, 1}}, true},
      {"32 heads of 128, 1024 keys, 4 rows", 32, 8, 128, kF16, {{1020, 4}}, true},
  };
  return cases;
}

std::span<const RopeCase> RopeCases() {
  static const std::vector<RopeCase> cases{
      {"halves", 9, 3, 64, false, kF16, 5},
      {"halves, f32", 4, 4, 80, false, kF32, 3},
      {"interleaved", 4, 2, 36, true, kF16, 4},
      {"interleaved, f32", 2, 1, 2, true, kF32, 7},
      {"one pair", 1, 1, 2, false, kF16, 1},
      {"wide head", 1, 1, 1100, false, kF16, 2},
      {"no rows", 9, 3, 64, false, kF16, 0},
      {"SmolLM2-135M, 1 row", 9, 3, 64, false, kF16, 1, true},
      {"SmolLM2-135M, 64 rows", 9, 3, 64, false, kF16, 64, true},
  };
  return cases;
}

std::span<const NormCase> NormCases() {
  static const std::vector<NormCase> cases{{1, 3}, {15, 2}, {16, 1}, {33, 5}, {576, 0}, {576, 1, true}, {576, 64, true}, {2048, 4, true}};
  return cases;
}

std::span<const LogitsCase> LogitsCases() {
  static const std::vector<LogitsCase> cases{{1},  {2},   {7},    {8},    {15},    {16},          {17},
                                             {31}, {100}, {4095}, {4097}, {10007}, {49152, true}, {128256, true}};
  return cases;
}

std::span<const LinearCase> LinearCases() {
  constexpr Prologue kNone = Prologue::kNone;
  static const std::vector<LinearCase> cases{
      {"f32", 70, 96, kF32, 5},
      {"f32, bias", 33, 64, kF32, 3, kNone, true},
      {"f16, norm", 48, 160, kF16, 2, Prologue::kRmsNorm},
      {"bf16, silu, residual", 40, 128, DType::kBF16, 4, Prologue::kSiluMul, false, true},
      {"q8_0, norm", 96, 576, DType::kQ8_0, 7, Prologue::kRmsNorm},
      {"q4_0", 65, 576, DType::kQ4_0, 4},
      {"q4_1, silu, residual", 80, 1536, DType::kQ4_1, 3, Prologue::kSiluMul, false, true},
      {"q4_1, bias", 31, 64, DType::kQ4_1, 1, kNone, true},
      {"q4_K", 40, 512, DType::kQ4_K, 4},
      {"q5_K", 40, 512, DType::kQ5_K, 4},
      {"q6_K", 40, 512, DType::kQ6_K, 4},
      {"q4_1 576 x 1536, 1 row", 1536, 576, DType::kQ4_1, 1, kNone, false, false, true},
      {"q4_1 576 x 1536, 4 rows", 1536, 576, DType::kQ4_1, 4, kNone, false, false, true},
      {"q8_0 576 x 49152, 1 row", 49152, 576, DType::kQ8_0, 1, kNone, false, false, true},
      {"q8_0 576 x 49152, 4 rows", 49152, 576, DType::kQ8_0, 4, kNone, false, false, true},
  };
  return cases;
}

}  // namespace haast::kernels::cases
