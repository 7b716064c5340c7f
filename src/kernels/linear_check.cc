#include "kernels/linear_check.h"

#include <cstdint>

#include "base/check.h"

namespace haast::kernels {
namespace {

// From the first element of the first row to behind the last element of the last one.
struct Extent {
  uintptr_t begin, end;
};

Extent ExtentOf(const float* first, int64_t ld, int64_t rows, int64_t columns) {
  const uintptr_t begin = reinterpret_cast<uintptr_t>(first);
  return {begin, begin + static_cast<uintptr_t>((rows - 1) * ld + columns) * sizeof(float)};
}

bool Overlap(const Extent& a, const Extent& b) { return a.begin < b.end && b.begin < a.end; }

}  // namespace

void CheckLinear(const LinearInput& input, std::span<const LinearTask> tasks) {
  const int64_t k = tasks[0].weight->k;
  HAAST_CHECK(input.ld_x >= k) << "ld_x " << input.ld_x << " for " << k << " columns";
  const Extent x = ExtentOf(input.x, input.ld_x, input.rows, k);
  const Extent up = input.prologue == Prologue::kSiluMul ? ExtentOf(input.up, input.ld_x, input.rows, k) : x;
  for (const LinearTask& task : tasks) {
    const PackedWeight& weight = *task.weight;
    HAAST_CHECK(weight.k == k) << "products of one launch have " << k << " and " << weight.k << " columns";
    HAAST_CHECK(task.ld_out >= weight.n) << "ld_out " << task.ld_out << " for " << weight.n << " features";
    const Extent out = ExtentOf(task.out, task.ld_out, input.rows, weight.n);
    HAAST_CHECK(!Overlap(out, x) && !Overlap(out, up))
        << "the output of " << input.rows << " rows of " << weight.n << " overlaps the input";
  }
}

}  // namespace haast::kernels
