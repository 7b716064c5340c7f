#include "kernels/op_trace.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"

namespace haast::kernels {
namespace {

// Ops are functions without a context, so the trace is found through the thread that calls them.
thread_local OpTrace* current = nullptr;

OpTrace& Current() {
  HAAST_CHECK(current != nullptr) << "recording ops called by a thread without a trace";
  return *current;
}

template <typename Fn>
void Record(OpTrace& trace, OpCall call, Fn&& run) {
  const double start = base::NowSeconds();
  run(trace.base());
  call.seconds = base::NowSeconds() - start;
  trace.Add(call);
}

void Linear(const LinearInput& input, std::span<const LinearTask> tasks, Workspace& workspace, base::ThreadPool& pool) {
  OpCall call{.kind = OpKind::kLinear, .rows = input.rows};
  HAAST_CHECK(tasks.size() <= call.weights.size()) << tasks.size() << " products of one input";
  for (size_t i = 0; i < tasks.size(); ++i) {
    const PackedWeight& weight = *tasks[i].weight;
    call.weights[i] = &weight;
    call.bytes += weight.bytes_per_pass;
    if (IsQuantised(weight.dtype)) call.operations += 2 * weight.n * weight.k * input.rows;
  }
  Record(Current(), call, [&](const Ops& ops) { ops.linear(input, tasks, workspace, pool); });
}

void RmsNorm(const float* x, int64_t ld_x, const float* weight, float eps, int64_t rows, int64_t k, float* out, int64_t ld_out,
             base::ThreadPool& pool) {
  const OpCall call{.kind = OpKind::kRmsNorm, .rows = rows, .bytes = (rows + 1) * k * static_cast<int64_t>(sizeof(float))};
  Record(Current(), call, [&](const Ops& ops) { ops.rms_norm(x, ld_x, weight, eps, rows, k, out, ld_out, pool); });
}

void RopeStore(const RopeStoreArgs& args, base::ThreadPool& pool) {
  const int64_t row = int64_t{args.num_heads + 2 * args.num_kv_heads} * args.head_dim;
  const OpCall call{.kind = OpKind::kRopeStore, .rows = args.rows, .bytes = args.rows * row * static_cast<int64_t>(sizeof(float))};
  Record(Current(), call, [&](const Ops& ops) { ops.rope_store(args, pool); });
}

void Attention(const AttentionArgs& args, base::ThreadPool& pool) {
  const int64_t entry = 2 * args.num_kv_heads * BytesOf(args.kv_dtype, args.head_dim);
  const OpCall call{.kind = OpKind::kAttention, .rows = args.qo_indptr[args.batch], .bytes = args.kv_indptr[args.batch] * entry};
  Record(Current(), call, [&](const Ops& ops) { ops.attention(args, pool); });
}

}  // namespace

std::string OpName(const OpCall& call) {
  switch (call.kind) {
    case OpKind::kLinear: break;
    case OpKind::kRmsNorm: return "rms_norm";
    case OpKind::kRopeStore: return "rope_store";
    case OpKind::kAttention: return "attention";
  }
  std::string names;
  int64_t n = 0;
  for (const PackedWeight* weight : call.weights) {
    if (weight == nullptr) break;
    names += (names.empty() ? "" : "+") + weight->name;
    n += weight->n;
  }
  return fmt::format("linear {} {}x{}", names, n, call.weights[0]->k);
}

OpTrace::OpTrace(const Ops& base) : base_(base), ops_(base) {
  HAAST_CHECK(current == nullptr) << "a second trace in one thread";
  ops_.linear = Linear;
  ops_.rms_norm = RmsNorm;
  ops_.rope_store = RopeStore;
  ops_.attention = Attention;
  current = this;
}

OpTrace::~OpTrace() { current = nullptr; }

}  // namespace haast::kernels
