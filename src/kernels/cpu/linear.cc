#include "kernels/cpu/linear.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/linear_kernels.h"
#include "kernels/linear_check.h"

namespace haast::kernels {
namespace {

// Elements up to which every thread prepares all rows for itself: that costs less than waiting for the others. SiLU costs about
// three times the rounding.
constexpr int64_t kElementsPreparedByAll = 1600;
constexpr int64_t kSiluCost = 3;
// Weights asked for before the rows are prepared, so that memory is not idle meanwhile.
constexpr int64_t kFirstBytes = 8 << 10;
// What a thread takes at a time of its share of the weights: this much, but at least kChunks pieces.
constexpr int64_t kChunkBytes = 32 << 10;
constexpr int64_t kChunks = 8;
// Rows of one pass over the weights. They should stay in the second-level cache, and so should the lines of `out` that a tile
// writes, one a row and all in the same few sets where ld_out is a multiple of a page: 64 rows ran faster than 128 and 512.
constexpr int64_t kPassRows = 64;

// Rows [first, first + rows) of this part form one register block.
struct Group {
  int64_t first;
  int rows;
};

// One `linear` call as all threads see it.
class Launch {
 public:
  Launch(const IsaKernels& isa, const LinearInput& input, std::span<const LinearTask> tasks, Workspace& workspace, int threads)
      : isa_(isa), input_(input), tasks_(tasks), k_(tasks[0].weight->k) {
    for (const LinearTask& task : tasks) {
      const PackedWeight& weight = *task.weight;
      HAAST_CHECK(weight.layout > kNoLayout && weight.layout < kNumLayouts) << "layout " << weight.layout;
      (IsFloatTask(task) ? any_float_ : any_quant_) = true;
      total_bytes_ += Tiles(weight) * TileBytesOf(weight);
    }
    HAAST_CHECK(k_ <= workspace.max_k()) << k_ << " columns in a workspace for " << workspace.max_k();
    part_rows_ = std::min(input.rows, workspace.max_rows());
    const int64_t cost = input.rows * k_ * (input.prologue == Prologue::kSiluMul ? kSiluCost : 1);
    all_prepare_ = cost <= kElementsPreparedByAll && input.rows * threads <= workspace.max_rows() + kSpareRows;
    const int64_t copies = all_prepare_ ? threads : 1;
    quant_ = workspace.data();
    float_ = quant_ + (any_quant_ ? (copies * part_rows_ * QuantRowBytes(k_) + 63) / 64 * 64 : 0);
  }

  void RunThread(int thread, int threads, base::ThreadPool& pool) const {
    const TileShare share = ShareOf(thread, threads);
    ForEachTask(share.begin, share.end, [](const LinearTask& task, int64_t begin, int64_t end) {
      const uint8_t* first = task.weight->data.data() + begin * TileBytesOf(*task.weight);
      const int64_t bytes = std::min((end - begin) * TileBytesOf(*task.weight), kFirstBytes);
      for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(first + i, 0, 3);
    });
    for (int64_t part = 0; part < input_.rows; part += part_rows_) {
      const int64_t rows = std::min(part_rows_, input_.rows - part);
      if (part > 0) {
        pool.Barrier();  // the previous part's rows are no longer read, nor its tiles taken
        pool.ResetItems(thread);
        if (all_prepare_) pool.Barrier();
      }
      if (all_prepare_) {
        const int64_t mine = thread * part_rows_;
        Prepare(part, rows, mine, 0, Blocks());
        Multiply({part, rows, mine}, thread, threads, pool);
        continue;
      }
      const auto [begin, end] = base::Share(Groups(rows) * Blocks(), thread, threads);
      Prepare(part, rows, 0, begin, end);
      pool.Barrier();
      Multiply({part, rows, 0}, thread, threads, pool);
    }
  }

 private:
  static bool IsFloatTask(const LinearTask& task) { return Format(static_cast<Layout>(task.weight->layout)).bits == 0; }
  static int64_t Tiles(const PackedWeight& weight) { return (weight.n + kTileRows - 1) / kTileRows; }
  static int64_t TileBytesOf(const PackedWeight& weight) { return TileBytes(static_cast<Layout>(weight.layout), weight.k); }

  int64_t Blocks() const { return (k_ + kBlock - 1) / kBlock; }
  int64_t Groups(int64_t rows) const { return (rows + isa_.group - 1) / isa_.group; }
  // Sizes differ by one at most, so that no register block is nearly empty.
  Group GroupAt(int64_t index, int64_t rows) const {
    const auto [begin, end] = base::Share(rows, static_cast<int>(index), static_cast<int>(Groups(rows)));
    return {begin, static_cast<int>(end - begin)};
  }

  // Prepares the blocks [begin, end) of the part, counted group by group, into the workspace rows from `base_row` on.
  void Prepare(int64_t part, int64_t rows, int64_t base_row, int64_t begin, int64_t end) const {
    const int64_t blocks = Blocks();
    if (all_prepare_) end = Groups(rows) * blocks;
    for (int64_t g = begin / blocks; g * blocks < end; ++g) {
      const Group group = GroupAt(g, rows);
      PrepareArgs args{.input = &input_, .row = 0, .k = k_, .begin = 0, .end = 0, .group = group.rows, .member = 0, .out = nullptr};
      args.begin = std::max(begin - g * blocks, int64_t{0}) * kBlock;
      args.end = std::min(std::min(end - g * blocks, blocks) * kBlock, k_);
      for (int m = 0; m < group.rows; ++m) {
        args.row = part + group.first + m;
        args.member = m;
        args.out = quant_ + (base_row + group.first) * QuantRowBytes(k_);
        if (any_quant_) isa_.prepare_quant[static_cast<int>(input_.prologue)](args);
        args.out = float_ + (base_row + group.first) * FloatRowBytes(k_);
        if (any_float_) isa_.prepare_float[static_cast<int>(input_.prologue)](args);
      }
    }
  }

  // Rows [row, row + rows) of the input, prepared in the workspace rows from `base_row` on.
  struct Part {
    int64_t row, rows, base_row;
  };

  // A thread's share of the weights: tiles, counted over all tasks.
  struct TileShare {
    int64_t begin, end;
    int64_t step;  // tiles of a chunk
    int64_t Chunks() const { return (end - begin + step - 1) / step; }
  };

  // The first tile of thread `t`: bytes are shared out evenly over all tasks together, in whole tiles.
  int64_t FirstTile(int t, int threads) const {
    int64_t first = 0;
    int64_t before = 0;  // bytes
    for (const LinearTask& task : tasks_) {
      const int64_t tiles = Tiles(*task.weight);
      const int64_t tile_bytes = TileBytesOf(*task.weight);
      first += std::clamp((total_bytes_ * t / threads - before + tile_bytes - 1) / tile_bytes, int64_t{0}, tiles);
      before += tiles * tile_bytes;
    }
    return first;
  }
  TileShare ShareOf(int thread, int threads) const {
    const int64_t begin = FirstTile(thread, threads);
    const int64_t end = FirstTile(thread + 1, threads);
    const int64_t most = std::max(kChunkBytes * threads * (end - begin) / std::max(total_bytes_, int64_t{1}), int64_t{1});
    return {begin, end, std::clamp((end - begin) / kChunks, int64_t{1}, most)};
  }

  // fn(task, begin, end) for the tiles [begin, end) of all tasks.
  template <typename Fn>
  void ForEachTask(int64_t begin, int64_t end, Fn&& fn) const {
    int64_t before = 0;
    for (const LinearTask& task : tasks_) {
      const int64_t tiles = Tiles(*task.weight);
      const int64_t from = std::max(begin - before, int64_t{0});
      const int64_t to = std::min(end - before, tiles);
      if (from < to) fn(task, from, to);
      before += tiles;
    }
  }

  // The thread's own chunks, pass by pass over the rows, then what others have left.
  void Multiply(const Part& part, int thread, int threads, base::ThreadPool& pool) const {
    const int64_t groups_per_pass = std::max(kPassRows / isa_.group, int64_t{1});
    const int64_t groups = Groups(part.rows);
    const int64_t passes = (groups + groups_per_pass - 1) / groups_per_pass;
    for (int i = 0; i < threads; ++i) {
      const int owner = (thread + i) % threads;
      const TileShare share = ShareOf(owner, threads);
      const int64_t chunks = share.Chunks();
      for (int64_t item = pool.NextItem(owner); item < passes * chunks; item = pool.NextItem(owner)) {
        const int64_t g = item / chunks * groups_per_pass;
        const Pass pass{part.row, part.rows, part.base_row, g, std::min(g + groups_per_pass, groups)};
        const int64_t tile = share.begin + item % chunks * share.step;
        ForEachTask(tile, std::min(tile + share.step, share.end),
                    [&](const LinearTask& task, int64_t begin, int64_t end) { MultiplyTask(task, begin, end, pass); });
      }
    }
  }

  struct Pass {
    int64_t part, rows, base_row, group_begin, group_end;
  };

  // Tiles [begin, end) of one task: each stays in the first-level cache while it meets all register blocks of the pass.
  void MultiplyTask(const LinearTask& task, int64_t begin, int64_t end, const Pass& pass) const {
    const PackedWeight& weight = *task.weight;
    TileArgs args{};
    args.tile_bytes = TileBytesOf(weight);
    args.k = k_;
    args.ld_out = task.ld_out;
    args.accumulate = task.accumulate;
    const bool one_group = pass.group_end - pass.group_begin == 1;
    const int64_t step = one_group ? end - begin : 1;
    args.tiles = step;
    for (int64_t tile = begin; tile < end; tile += step) {
      args.w = weight.data.data() + tile * args.tile_bytes;
      args.bias = task.bias == nullptr ? nullptr : task.bias + tile * kTileRows;
      args.features = weight.n - tile * kTileRows;
      for (int64_t g = pass.group_begin; g < pass.group_end; ++g) {
        const Group group = GroupAt(g, pass.rows);
        const int64_t row = pass.base_row + group.first;
        args.act = IsFloatTask(task) ? float_ + row * FloatRowBytes(k_) : quant_ + row * QuantRowBytes(k_);
        args.out = task.out + (pass.part + group.first) * task.ld_out + tile * kTileRows;
        isa_.tile[weight.layout][group.rows](args);
      }
    }
  }

  const IsaKernels& isa_;
  const LinearInput& input_;
  const std::span<const LinearTask> tasks_;
  const int64_t k_;
  bool any_quant_ = false;
  bool any_float_ = false;
  bool all_prepare_ = false;
  int64_t total_bytes_ = 0;
  int64_t part_rows_ = 0;
  uint8_t* quant_ = nullptr;  // prepared rows in the workspace
  uint8_t* float_ = nullptr;
};

template <base::Isa kIsa>
const LinearKernels& KernelsOf() {
  static const LinearKernels kernels = {
      .pack = PackWeight,
      .linear = [](const LinearInput& input, std::span<const LinearTask> tasks, Workspace& workspace,
                   base::ThreadPool& pool) { RunLinear(IsaKernelsFor(kIsa), input, tasks, workspace, pool); },
      .rms_norm_row = IsaKernelsFor(kIsa).rms_norm_row,
      .silu_mul_row = IsaKernelsFor(kIsa).silu_mul_row,
      .dot_loop = IsaKernelsFor(kIsa).dot_loop};
  return kernels;
}

}  // namespace

void RunLinear(const IsaKernels& isa, const LinearInput& input, std::span<const LinearTask> tasks, Workspace& workspace,
               base::ThreadPool& pool) {
  if (input.rows == 0 || tasks.empty()) return;
  CheckLinear(input, tasks);
  const Launch launch(isa, input, tasks, workspace, pool.size());
  pool.Run([&](int thread, int threads) { launch.RunThread(thread, threads, pool); });
}

const IsaKernels& IsaKernelsFor(base::Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case base::Isa::kAvx2: return Avx2Linear();
    case base::Isa::kAvx512: return Avx512Linear();
    case base::Isa::kAvx512Vnni: return Avx512VnniLinear();
#elif defined(__aarch64__)
    case base::Isa::kNeonDot: return NeonDotLinear();
    case base::Isa::kNeonI8mm: return NeonI8mmLinear();
#endif
    default: return PortableLinear();
  }
}

const LinearKernels& LinearFor(base::Isa isa) {
  HAAST_CHECK(base::IsaSupported(isa)) << "this processor has no " << base::IsaName(isa);
  switch (isa) {
    case base::Isa::kAvx2: return KernelsOf<base::Isa::kAvx2>();
    case base::Isa::kAvx512: return KernelsOf<base::Isa::kAvx512>();
    case base::Isa::kAvx512Vnni: return KernelsOf<base::Isa::kAvx512Vnni>();
    case base::Isa::kNeonDot: return KernelsOf<base::Isa::kNeonDot>();
    case base::Isa::kNeonI8mm: return KernelsOf<base::Isa::kNeonI8mm>();
    case base::Isa::kPortable: break;
  }
  return KernelsOf<base::Isa::kPortable>();
}

}  // namespace haast::kernels
