// How attention is cut. The key list of a row is cut into splits at fixed places; each split gives a partial result (max, sum,
// weighted V), and the partial results are joined in ascending order. So a row's bits follow from its key list alone, and who computes
// which split, and together with which other rows, is free:
//
// - A sequence of few rows and several splits is spread: an item of work is (split, row block, KV head), partial results go to
//   scratch and are joined after a barrier.
// - Any other sequence is walked: an item is (row block, KV head), which joins the splits as it goes.
//
// Row blocks share each K and V tile; the tail of a tree, where every row has keys of its own, is computed row by row.
#include "kernels/cpu/attention.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace haast::kernels {
namespace {

constexpr int kBlockPairs = 96;      // pairs of a row block: their scores stay in the L2 cache
constexpr int64_t kSpreadRows = 64;  // rows of a launch whose partial results scratch has room for

int64_t SplitsOf(int64_t keys) { return (keys + kSplitKeys - 1) / kSplitKeys; }
int64_t RoundUp(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// Partial results of some pairs, in one piece of memory: max [pairs], sum [pairs], out [pairs, D].
struct Partial {
  float* max;
  float* sum;
  float* out;

  Partial(float* memory, int64_t pairs) : max(memory), sum(memory + pairs), out(memory + 2 * pairs) {}
  static int64_t Size(int64_t pairs, int head_dim) { return pairs * (head_dim + 2); }
};

// Scratch of one thread.
struct ThreadScratch {
  float* q;
  float* scores;
  float* k_tile;
  float* state;
  float* fresh;

  ThreadScratch(float* memory, int max_pairs, int head_dim) {
    q = memory;
    scores = q + PackedQuerySize(max_pairs, head_dim);
    k_tile = scores + RoundUp(max_pairs, kPairBlock) * kSplitKeys;
    state = k_tile + static_cast<int64_t>(head_dim) * kKeyBlock;
    fresh = state + Partial::Size(max_pairs, head_dim);
  }
  static int64_t Size(int max_pairs, int head_dim) {
    const int64_t size = PackedQuerySize(max_pairs, head_dim) + RoundUp(max_pairs, kPairBlock) * kSplitKeys +
                         static_cast<int64_t>(head_dim) * kKeyBlock + 2 * Partial::Size(max_pairs, head_dim);
    return RoundUp(size, 16);
  }
};

// One split of one KV head.
struct Piece {
  int64_t split;
  int g;
};

// One sequence of the launch and how its work is cut.
struct Sequence {
  int64_t first_row;
  int64_t rows;
  int64_t keys;
  int64_t before;             // entries that every row sees, whichever tree rows follow
  const int32_t* entries;     // [keys]
  const uint64_t* tree_mask;  // [rows], null: causal
  int64_t splits;
  int64_t blocks;
  bool spread;
  int64_t items;
  float* partials;  // spread: [splits, G] pieces of rows * group pairs

  // Keys of row j.
  int64_t Length(int64_t j) const {
    if (tree_mask == nullptr) return before + j + 1;
    const int64_t tree_rows = keys - before;
    const uint64_t known = tree_rows >= 64 ? ~uint64_t{0} : (uint64_t{1} << tree_rows) - 1;
    return before + std::popcount(tree_mask[j] & known);
  }
  // Entries that stand at the same place in the list of every row that sees them.
  int64_t Shared() const { return tree_mask == nullptr ? keys : before; }
};

class Launch {
 public:
  Launch(const RowKernels& kernels, const AttentionArgs& args, int threads)
      : kernels_(kernels),
        args_(args),
        group_(args.num_heads / args.num_kv_heads),
        block_rows_(std::max(1, kBlockPairs / group_)),
        element_bytes_(args.kv_dtype == DType::kF16 ? 2 : 4),
        thread_scratch_(ThreadScratch::Size(std::max(kBlockPairs, args.num_heads), args.head_dim)),
        partials_(args.scratch + threads * thread_scratch_) {
    HAAST_CHECK(args.num_heads % args.num_kv_heads == 0) << args.num_heads << " heads, " << args.num_kv_heads << " KV heads";
    HAAST_CHECK(args.kv_dtype == DType::kF16 || args.kv_dtype == DType::kF32) << Info(args.kv_dtype).name;
  }

  // Walks the sequences in order; every thread has its own and they all see the same cuts.
  class Cursor {
   public:
    explicit Cursor(const Launch& launch) : launch_(launch), free_partials_(launch.partials_) {}
    bool Next(Sequence* out);

   private:
    const Launch& launch_;
    int next_ = 0;
    int64_t spread_rows_ = kSpreadRows;
    float* free_partials_;
  };

  ThreadScratch ScratchOf(int thread) const {
    return {args_.scratch + thread * thread_scratch_, std::max(kBlockPairs, args_.num_heads), args_.head_dim};
  }
  void RunItem(const Sequence& s, int64_t item, int threads, const ThreadScratch& scratch) const;
  // The head of a row of a spread sequence, from its partial results.
  void Join(const Sequence& s, int64_t row, int head) const;
  bool AnySpread() const;

 private:
  float* PartialsOf(const Sequence& s, int64_t split, int g) const {
    return s.partials + (split * args_.num_kv_heads + g) * Partial::Size(s.rows * group_, args_.head_dim);
  }
  float* OutOf(const Sequence& s, int64_t row, int head) const {
    return args_.out + (s.first_row + row) * args_.ld_out + static_cast<int64_t>(head) * args_.head_dim;
  }
  void PackQuery(const Sequence& s, int64_t row_begin, int64_t rows, int g, float* out) const;
  // Runs one split for the rows [row_begin, row_begin + rows) that reach it and returns the first of them. `into` has its first pair
  // at row `into_row`. `next` is what this thread will probably run afterwards: its K is fetched early.
  int64_t RunSplit(const Sequence& s, Piece piece, int64_t row_begin, int64_t rows, const ThreadScratch& scratch, const Partial& into,
                   int64_t into_row, Piece next) const;
  void RunTreeRow(const Sequence& s, int64_t split, int g, int64_t row, const ThreadScratch& scratch, const Partial& into,
                  int64_t into_row) const;
  void MergeRow(const Partial& state, const Partial& fresh, int64_t first_pair) const;
  SplitTask Task(int g, const ThreadScratch& scratch, const Partial& into, int64_t pair) const;

  const RowKernels& kernels_;
  const AttentionArgs& args_;
  const int group_;
  const int block_rows_;
  const int64_t element_bytes_;
  const int64_t thread_scratch_;
  float* const partials_;
};

bool Launch::Cursor::Next(Sequence* out) {
  const AttentionArgs& args = launch_.args_;
  if (next_ == args.batch) return false;
  const int b = next_++;
  Sequence& s = *out;
  s.first_row = args.qo_indptr[b];
  s.rows = args.qo_indptr[b + 1] - s.first_row;
  s.keys = args.kv_indptr[b + 1] - args.kv_indptr[b];
  const bool tree = args.tree_flags != nullptr && args.tree_flags[b] != 0;
  s.before = s.keys - s.rows - (tree ? args.tree_cached[b] : 0);
  s.entries = args.kv_indices + args.kv_indptr[b];
  s.tree_mask = tree ? args.tree_mask + s.first_row : nullptr;
  HAAST_CHECK(s.rows >= 0 && s.before >= 0) << "sequence " << b << ": " << s.rows << " rows, " << s.keys << " keys";
  HAAST_CHECK(s.tree_mask == nullptr || s.keys - s.before <= 64) << "a tree of " << s.keys - s.before << " rows";
  s.splits = SplitsOf(s.keys);
  s.blocks = (s.rows + launch_.block_rows_ - 1) / launch_.block_rows_;
  s.spread = s.splits > 1 && s.rows <= spread_rows_;
  s.items = s.blocks * args.num_kv_heads * (s.spread ? s.splits : 1);
  s.partials = free_partials_;
  if (s.spread) {
    spread_rows_ -= s.rows;
    free_partials_ += s.splits * Partial::Size(s.rows * args.num_heads, args.head_dim);
  }
  return true;
}

bool Launch::AnySpread() const {
  Cursor cursor(*this);
  for (Sequence s; cursor.Next(&s);) {
    if (s.spread && s.rows > 0) return true;
  }
  return false;
}

// The group's heads of the rows, scaled, in blocks of kPairBlock pairs: [blocks, D, kPairBlock].
void Launch::PackQuery(const Sequence& s, int64_t row_begin, int64_t rows, int g, float* out) const {
  const int dim = args_.head_dim;
  const int64_t pairs = rows * group_;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    const int64_t row = s.first_row + row_begin + pair / group_;
    const float* q = args_.q + row * args_.ld_q + (g * group_ + pair % group_) * dim;
    float* packed = out + pair / kPairBlock * kPairBlock * dim + pair % kPairBlock;
    for (int d = 0; d < dim; ++d) packed[d * kPairBlock] = q[d] * args_.scale;
  }
}

SplitTask Launch::Task(int g, const ThreadScratch& scratch, const Partial& into, int64_t pair) const {
  const int64_t head_bytes = args_.head_dim * element_bytes_;
  SplitTask task{};
  task.k = static_cast<const uint8_t*>(args_.k_cache) + g * head_bytes;
  task.v = static_cast<const uint8_t*>(args_.v_cache) + g * head_bytes;
  task.half = args_.kv_dtype == DType::kF16;
  task.slot_bytes = args_.num_kv_heads * head_bytes;
  task.head_dim = args_.head_dim;
  task.q = scratch.q;
  task.group = group_;
  task.max = into.max + pair;
  task.sum = into.sum + pair;
  task.out = into.out + pair * args_.head_dim;
  task.scores = scratch.scores;
  task.k_tile = scratch.k_tile;
  return task;
}

void Launch::RunTreeRow(const Sequence& s, int64_t split, int g, int64_t row, const ThreadScratch& scratch, const Partial& into,
                        int64_t into_row) const {
  const int64_t begin = split * kSplitKeys;
  const int64_t end = std::min(begin + kSplitKeys, s.Length(row));
  int32_t slots[kSplitKeys];
  int count = 0;
  for (int64_t t = begin; t < std::min(end, s.before); ++t) slots[count++] = s.entries[t];
  int64_t place = s.before;  // in the row's list, of the next ancestor
  for (uint64_t left = s.tree_mask[row]; left != 0 && place < end; left &= left - 1, ++place) {
    if (place >= begin) slots[count++] = s.entries[s.before + std::countr_zero(left)];
  }
  PackQuery(s, row, 1, g, scratch.q);
  SplitTask task = Task(g, scratch, into, (row - into_row) * group_);
  task.slots = slots;
  task.keys = count;
  task.counts = &count;
  task.rows = 1;
  kernels_.attend_split(task);
}

int64_t Launch::RunSplit(const Sequence& s, Piece piece, int64_t row_begin, int64_t rows, const ThreadScratch& scratch, const Partial& into,
                         int64_t into_row, Piece next) const {
  const auto [split, g] = piece;
  const int64_t begin = split * kSplitKeys;
  const int64_t end = std::min(begin + kSplitKeys, s.keys);
  if (end > s.Shared()) {
    for (int64_t row = row_begin; row < row_begin + rows; ++row) {
      if (s.Length(row) > begin) RunTreeRow(s, split, g, row, scratch, into, into_row);
    }
    return row_begin;
  }
  int32_t counts[kBlockPairs];
  const int64_t first = s.tree_mask == nullptr ? std::max(row_begin, begin - s.before) : row_begin;
  int keys = 0;
  for (int64_t row = first; row < row_begin + rows; ++row) {
    counts[row - first] = static_cast<int32_t>(std::min<int64_t>(s.Length(row) - begin, kSplitKeys));
    keys = std::max(keys, counts[row - first]);
  }
  PackQuery(s, first, row_begin + rows - first, g, scratch.q);
  SplitTask task = Task(g, scratch, into, (first - into_row) * group_);
  task.slots = s.entries + begin;
  task.keys = keys;
  task.counts = counts;
  task.rows = static_cast<int>(row_begin + rows - first);
  if (next.split * kSplitKeys + keys <= s.keys) {
    task.next_k = static_cast<const uint8_t*>(args_.k_cache) + next.g * args_.head_dim * element_bytes_;
    task.next_slots = s.entries + next.split * kSplitKeys;
  }
  kernels_.attend_split(task);
  return first;
}

void Launch::RunItem(const Sequence& s, int64_t item, int threads, const ThreadScratch& scratch) const {
  const auto piece_of = [&](int64_t i) {
    return Piece{s.spread ? i / (args_.num_kv_heads * s.blocks) : 0, static_cast<int>(i % args_.num_kv_heads)};
  };
  const Piece piece = piece_of(item);
  // Late blocks have the most keys: first.
  const int64_t block = s.blocks - 1 - item / args_.num_kv_heads % s.blocks;
  const int64_t row_begin = block * block_rows_;
  const int64_t rows = std::min<int64_t>(block_rows_, s.rows - row_begin);
  int64_t longest = 0;
  for (int64_t row = row_begin; row < row_begin + rows; ++row) {
    HAAST_CHECK(s.Length(row) > 0) << "row " << row << " sees no key";
    longest = std::max(longest, s.Length(row));
  }
  if (s.spread) {
    const Partial into(PartialsOf(s, piece.split, piece.g), s.rows * group_);
    if (piece.split * kSplitKeys < longest) RunSplit(s, piece, row_begin, rows, scratch, into, 0, piece_of(item + threads));
    return;
  }
  const int dim = args_.head_dim;
  const Partial state(scratch.state, rows * group_);
  const Partial fresh(scratch.fresh, rows * group_);
  for (int64_t split = 0; split * kSplitKeys < longest; ++split) {
    const int64_t first =
        RunSplit(s, {split, piece.g}, row_begin, rows, scratch, split == 0 ? state : fresh, row_begin, {split + 1, piece.g});
    if (split == 0) continue;
    for (int64_t row = first; row < row_begin + rows; ++row) {
      if (s.Length(row) > split * kSplitKeys) MergeRow(state, fresh, (row - row_begin) * group_);
    }
  }
  for (int64_t pair = 0; pair < rows * group_; ++pair) {
    kernels_.normalise(state.out + pair * dim, state.sum[pair], dim,
                       OutOf(s, row_begin + pair / group_, static_cast<int>(piece.g * group_ + pair % group_)));
  }
}

// The group's pairs from `first_pair` on.
void Launch::MergeRow(const Partial& state, const Partial& fresh, int64_t first_pair) const {
  const int dim = args_.head_dim;
  for (int64_t pair = first_pair; pair < first_pair + group_; ++pair) {
    kernels_.merge_split(state.max + pair, state.sum + pair, state.out + pair * dim, fresh.max[pair], fresh.sum[pair],
                         fresh.out + pair * dim, dim);
  }
}

void Launch::Join(const Sequence& s, int64_t row, int head) const {
  const int dim = args_.head_dim;
  const int g = head / group_;
  const int64_t pair = row * group_ + head % group_;
  const Partial state(PartialsOf(s, 0, g), s.rows * group_);
  for (int64_t split = 1; split < SplitsOf(s.Length(row)); ++split) {
    const Partial next(PartialsOf(s, split, g), s.rows * group_);
    kernels_.merge_split(state.max + pair, state.sum + pair, state.out + pair * dim, next.max[pair], next.sum[pair], next.out + pair * dim,
                         dim);
  }
  kernels_.normalise(state.out + pair * dim, state.sum[pair], dim, OutOf(s, row, head));
}

}  // namespace

void Attend(const RowKernels& kernels, const AttentionArgs& args, base::ThreadPool& pool) {
  const Launch launch(kernels, args, pool.size());
  const bool any_spread = launch.AnySpread();
  pool.Run([&](int thread, int threads) {
    const ThreadScratch scratch = launch.ScratchOf(thread);
    int64_t item = pool.NextItem(0);
    int64_t base = 0;
    Launch::Cursor cursor(launch);
    for (Sequence s; cursor.Next(&s); base += s.items) {
      for (; item < base + s.items; item = pool.NextItem(0)) {
        launch.RunItem(s, item - base, threads, scratch);
      }
    }
    if (!any_spread) return;
    pool.Barrier();
    int64_t turn = 0;
    Launch::Cursor again(launch);
    for (Sequence s; again.Next(&s);) {
      if (!s.spread) continue;
      for (int64_t i = 0; i < s.rows * args.num_heads; ++i) {
        if (turn++ % threads == thread) launch.Join(s, i / args.num_heads, static_cast<int>(i % args.num_heads));
      }
    }
  });
}

int64_t AttentionScratchFloats(int64_t rows, int heads, int head_dim, int64_t max_kv_len, int threads) {
  const int64_t spread = std::min(rows, kSpreadRows) * heads * SplitsOf(max_kv_len) * (head_dim + 2);
  return threads * ThreadScratch::Size(std::max(kBlockPairs, heads), head_dim) + spread;
}

}  // namespace haast::kernels
