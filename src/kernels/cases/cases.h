// One table of cases for every op: the tests run all of them on every backend, the benchmark the timed ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace haast::kernels::cases {

// `rows` query rows after `before` committed tokens.
struct SequenceCase {
  int before;
  int rows;
  bool tree = false;
  int cached = 0;  // rows of the tree that earlier launches wrote
};

struct AttentionCase {
  const char* name;
  int heads;
  int kv_heads;
  int head_dim;
  DType kv_dtype;
  std::vector<SequenceCase> sequences;
  bool timed = false;
};

struct RopeCase {
  const char* name;
  int heads;
  int kv_heads;
  int head_dim;
  bool interleaved;
  DType kv_dtype;
  int rows;
  bool timed = false;
};

struct NormCase {
  int64_t k;
  int64_t rows;
  bool timed = false;
};

// Rows of n logits: row_stats, argmax, exp_row.
struct LogitsCase {
  int64_t n;
  bool timed = false;
};

struct LinearCase {
  const char* name;
  int64_t n;
  int64_t k;
  DType dtype;
  int64_t rows;
  Prologue prologue = Prologue::kNone;
  bool bias = false;
  bool accumulate = false;
  bool timed = false;
};

std::span<const AttentionCase> AttentionCases();
std::span<const RopeCase> RopeCases();
std::span<const NormCase> NormCases();
std::span<const LogitsCase> LogitsCases();
std::span<const LinearCase> LinearCases();

}  // namespace haast::kernels::cases
