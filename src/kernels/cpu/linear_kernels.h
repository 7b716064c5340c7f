// What one instruction set supplies to the driver of `linear`. Plain types only: this header is included by files that are
// compiled for different processors.
#pragma once

#include <cstdint>
#include <span>

#include "base/cpu.h"
#include "base/thread_pool.h"
#include "kernels/cpu/linear_layout.h"
#include "kernels/ops.h"

namespace haast::kernels {

// Rows of a register block at most; an instruction set may prefer fewer.
constexpr int kMaxGroup = 8;

// Columns [begin, end) of row `row` of the input, and where their prepared form goes: member `member` of a register block of
// `group` rows at `out`. `begin` is a multiple of 32; `end` too, or k.
struct PrepareArgs {
  const LinearInput* input;
  int64_t row;
  int64_t k;
  int64_t begin;
  int64_t end;
  int group;
  int member;
  uint8_t* out;
};

// `tiles` consecutive tiles times one register block. Pointers that depend on the output feature stand at the first tile's.
struct TileArgs {
  const uint8_t* w;
  int64_t tile_bytes;
  int64_t tiles;
  int64_t k;
  const uint8_t* act;
  float* out;  // first row of the register block
  int64_t ld_out;
  const float* bias;  // or null
  bool accumulate;
  int64_t features;  // valid ones from the first tile's first lane on
};

using TileFn = void (*)(const TileArgs& args);
using PrepareFn = void (*)(const PrepareArgs& args);

struct IsaKernels {
  const char* name;
  bool emulated = false;       // a test's build of it, slow
  int group;                   // rows of a register block that this set prefers, at most kMaxGroup
  PrepareFn prepare_quant[3];  // by Prologue
  PrepareFn prepare_float[3];
  TileFn tile[kNumLayouts][kMaxGroup + 1];  // by rows of the register block, 1 .. group
  void (*rms_norm_row)(const float* x, const float* weight, float eps, int64_t k, float* out);
  void (*silu_mul_row)(const float* x, const float* up, int64_t k, float* out);
  int64_t (*dot_loop)(int64_t rounds) = nullptr;  // Ops::dot_loop
};

const IsaKernels& PortableLinear();
#if defined(__x86_64__)
const IsaKernels& Avx2Linear();
const IsaKernels& Avx512Linear();
const IsaKernels& Avx512VnniLinear();
#elif defined(__aarch64__)
const IsaKernels& NeonDotLinear();
const IsaKernels& NeonI8mmLinear();
#endif

// The kernels of a set of this architecture, whether the processor supports it or not.
const IsaKernels& IsaKernelsFor(base::Isa isa);

// Ops::linear with the kernels of one instruction set.
void RunLinear(const IsaKernels& isa, const LinearInput& input, std::span<const LinearTask> tasks, Workspace& workspace,
               base::ThreadPool& pool);

Result<PackedWeight> PackWeight(const TensorView& weight, const DType* quantise_to, base::ThreadPool& pool);

}  // namespace haast::kernels
