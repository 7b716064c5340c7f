// The tables of the cpu backends, assembled from the products (linear.h) and the row kernels of each instruction set.
#include "kernels/ops.h"
#include "base/check.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/row_kernels.h"

namespace haast::kernels {
namespace {

// Ops are plain function pointers; the instruction set is a constant of each table's own functions.
template <base::Isa kIsa>
struct Table {
  static void RmsNorm(const float* x, int64_t ld_x, const float* weight, float eps, int64_t rows, int64_t k, float* out, int64_t ld_out,
                      base::ThreadPool& pool) {
    const auto norm_row = LinearFor(kIsa).rms_norm_row;
    pool.Run([&](int thread, int threads) {
      const auto [begin, end] = base::Share(rows, thread, threads);
      for (int64_t r = begin; r < end; ++r) norm_row(x + r * ld_x, weight, eps, k, out + r * ld_out);
    });
  }
  static void Rope(const RopeStoreArgs& args, base::ThreadPool& pool) { RotateAndStore(RowKernelsFor(kIsa), args, pool); }
  static void Attention(const AttentionArgs& args, base::ThreadPool& pool) { Attend(RowKernelsFor(kIsa), args, pool); }

  static const Ops& Get() {
    static const Ops ops{
        .name = base::IsaName(kIsa),
        .pack = LinearFor(kIsa).pack,
        .linear = LinearFor(kIsa).linear,
        .rms_norm = RmsNorm,
        .rope_store = Rope,
        .attention = Attention,
        .attention_scratch = AttentionScratchFloats,
        .row_stats = RowKernelsFor(kIsa).row_stats,
        .argmax = RowKernelsFor(kIsa).argmax,
        .exp_row = RowKernelsFor(kIsa).exp_row,
        .dot_loop = LinearFor(kIsa).dot_loop,
    };
    return ops;
  }
};

}  // namespace

const Ops& CpuOps(base::Isa isa) {
  HAAST_CHECK(base::IsaSupported(isa)) << base::IsaName(isa);
  switch (isa) {
    case base::Isa::kPortable: return Table<base::Isa::kPortable>::Get();
    case base::Isa::kAvx2: return Table<base::Isa::kAvx2>::Get();
    case base::Isa::kAvx512: return Table<base::Isa::kAvx512>::Get();
    case base::Isa::kAvx512Vnni: return Table<base::Isa::kAvx512Vnni>::Get();
    case base::Isa::kNeonDot: return Table<base::Isa::kNeonDot>::Get();
    case base::Isa::kNeonI8mm: return Table<base::Isa::kNeonI8mm>::Get();
  }
  return Table<base::Isa::kPortable>::Get();
}

}  // namespace haast::kernels
