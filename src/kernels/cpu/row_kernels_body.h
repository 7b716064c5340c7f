// The table of RowKernels for the instruction set that the including file chose.
#pragma once

#include "kernels/cpu/row_kernels.h"
#include "kernels/cpu/split_kernel.h"
#include "kernels/cpu/vec_math.h"

namespace haast::kernels {
namespace {

void MergeSplit(float* max, float* sum, float* out, float split_max, float split_sum, const float* split_out, int head_dim) {
  const float largest = split_max > *max ? split_max : *max;
  const float keep = ExpToZero(*max - largest);
  const float add = ExpToZero(split_max - largest);
  *max = largest;
  *sum = __builtin_fmaf(split_sum, add, *sum * keep);
  int d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) {
    Store(out + d, Fma(Load(split_out + d), Set1(add), Mul(Load(out + d), Set1(keep))));
  }
  for (; d < head_dim; ++d) out[d] = __builtin_fmaf(split_out[d], add, out[d] * keep);
}

void Normalise(const float* x, float sum, int head_dim, float* out) {
  const float inverse = 1.0f / sum;
  int d = 0;
  for (; d + kLanes <= head_dim; d += kLanes) Store(out + d, Mul(Load(x + d), Set1(inverse)));
  for (; d < head_dim; ++d) out[d] = x[d] * inverse;
}

void ToHalf(const float* x, int64_t n, uint16_t* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) StoreHalf(out + i, Load(x + i));
  for (; i < n; ++i) out[i] = FloatToHalf(x[i]);
}

float LargestOf(const float* x, int64_t n) {
  Wide max = SetWide(-kInfinity);
  int64_t i = 0;
  for (; i + kWideLanes <= n; i += kWideLanes) {
    for (int p = 0; p < kParts; ++p) max.part[p] = Max(Load(x + i + p * kLanes), max.part[p]);
  }
  for (; i < n; ++i) {
    const Wide value = SetWide(x[i]);
    for (int p = 0; p < kParts; ++p) max.part[p] = Max(value.part[p], max.part[p]);
  }
  return MaxWide(max);
}

// The largest value first, then where it stands: NaN compares with nothing, so it is never found.
int32_t Argmax(const float* x, int64_t n) {
  const F largest = Set1(LargestOf(x, n));
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const uint32_t equal = EqualMask(Load(x + i), largest);
    if (equal != 0) return static_cast<int32_t>(i + __builtin_ctz(equal));
  }
  alignas(64) float lanes[kLanes];
  Store(lanes, largest);
  for (; i < n; ++i) {
    if (x[i] == lanes[0]) return static_cast<int32_t>(i);
  }
  return 0;
}

// Sums of 4096 terms in 16 chains, then in double: long vocabularies lose nothing.
constexpr int64_t kSumRun = 4096;

template <typename Fn>
double SumOfRuns(int64_t n, Fn&& term) {
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kSumRun) {
    const int64_t end = n - begin < kSumRun ? n : begin + kSumRun;
    Wide sum = SetWide(0.0f);
    for (int64_t i = begin; i < end; i += kWideLanes) {
      const Wide x = term(i, end - i < kWideLanes ? end - i : kWideLanes);
      for (int p = 0; p < kParts; ++p) sum.part[p] = Add(sum.part[p], x.part[p]);
    }
    total += static_cast<double>(SumWide(sum));
  }
  return total;
}

RowStats Stats(const float* logits, int64_t n) {
  const int32_t argmax = Argmax(logits, n);
  const float max = logits[argmax];
  if (max == kInfinity || max == -kInfinity) return {argmax, max, max};  // one infinite logit has all the mass, or none has any
  const F offset = Set1(max);
  const double sum = SumOfRuns(n, [&](int64_t i, int64_t count) {
    Wide x = count == kWideLanes ? LoadWide(logits + i) : LoadWideTail(logits + i, count, -kInfinity);
    for (int p = 0; p < kParts; ++p) x.part[p] = ExpToZero(Sub(x.part[p], offset));
    return x;
  });
  return {argmax, max, static_cast<float>(static_cast<double>(max) + __builtin_log(sum))};
}

float ExpRow(const float* logits, int64_t n, float max, float scale, float* out) {
  const F offset = Set1(max);
  const F factor = Set1(scale);
  return static_cast<float>(SumOfRuns(n, [&](int64_t i, int64_t count) {
    Wide x = count == kWideLanes ? LoadWide(logits + i) : LoadWideTail(logits + i, count, -kInfinity);
    for (int p = 0; p < kParts; ++p) x.part[p] = ExpToZero(Mul(Sub(x.part[p], offset), factor));
    if (count == kWideLanes) {
      StoreWide(out + i, x);
    } else {
      StoreWideTail(out + i, x, count);
    }
    return x;
  }));
}

constexpr RowKernels kRowKernels{
    .attend_split = AttendSplit,
    .merge_split = MergeSplit,
    .normalise = Normalise,
    .to_half = ToHalf,
    .row_stats = Stats,
    .argmax = Argmax,
    .exp_row = ExpRow,
};

}  // namespace
}  // namespace haast::kernels
