// Speed of every timed case on the best instruction set, with one thread and with all processors: bench_kernels
// [--benchmark_filter=attention]. GB/s counts what must be read once: weights, keys and values.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <string>

#include "base/cpu.h"
#include "kernels/cases/cases.h"
#include "kernels/cases/inputs.h"

namespace haast::kernels {
namespace {

void SetRates(benchmark::State& state, double bytes, double operations) {
  const auto rate = benchmark::Counter::kIsIterationInvariantRate;
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, rate);
  if (operations > 0) state.counters["GFLOP/s"] = benchmark::Counter(operations * 1e-9, rate);
}

// Copies of the caches are walked in turn, as the layers of a model are, so that they come from memory and not from the L2 cache.
constexpr int kLayers = 16;

void Attention(benchmark::State& state, const cases::AttentionCase& shape, const Ops& ops, int threads) {
  base::ThreadPool pool(threads);
  std::vector<cases::AttentionInputs> layers;
  for (int i = 0; i < kLayers; ++i) layers.emplace_back(shape, 1);
  const cases::AttentionInputs& first = layers[0];
  std::vector<float> out(static_cast<size_t>(first.rows() * first.row_size()));
  std::vector<float> scratch(
      static_cast<size_t>(ops.attention_scratch(first.rows(), shape.heads, shape.head_dim, first.max_kv_len, threads)));
  int layer = 0;
  for (auto _ : state) {
    ops.attention(layers[static_cast<size_t>(layer)].Args(out.data(), scratch.data()), pool);
    layer = (layer + 1) % kLayers;
  }
  double pairs = 0;
  double keys = 0;
  for (const cases::SequenceCase& s : shape.sequences) {
    keys += s.before + s.rows;
    pairs += static_cast<double>(s.rows) * s.before + (s.tree ? 0.0 : 0.5 * s.rows * (s.rows + 1));
  }
  SetRates(state, keys * shape.kv_heads * 2.0 * static_cast<double>(BytesOf(shape.kv_dtype, shape.head_dim)),
           pairs * shape.heads * shape.head_dim * 4.0);
}

void Rope(benchmark::State& state, const cases::RopeCase& shape, const Ops& ops, int threads) {
  base::ThreadPool pool(threads);
  const int64_t q_size = static_cast<int64_t>(shape.heads) * shape.head_dim;
  const int64_t kv_size = static_cast<int64_t>(shape.kv_heads) * shape.head_dim;
  std::vector<float> q = cases::Numbers(shape.rows * q_size, 1);
  const std::vector<float> k = cases::Numbers(shape.rows * kv_size, 2);
  const std::vector<float> angle(static_cast<size_t>(shape.head_dim / 2 * shape.rows), 0.6f);
  std::vector<int32_t> positions(static_cast<size_t>(shape.rows));
  for (int i = 0; i < shape.rows; ++i) positions[static_cast<size_t>(i)] = i;
  std::vector<uint8_t> k_cache(static_cast<size_t>(shape.rows * BytesOf(shape.kv_dtype, kv_size)));
  std::vector<uint8_t> v_cache(k_cache.size());
  const RopeStoreArgs args{.q = q.data(),
                           .ld_q = q_size,
                           .k = k.data(),
                           .ld_k = kv_size,
                           .v = k.data(),
                           .ld_v = kv_size,
                           .rows = shape.rows,
                           .num_heads = shape.heads,
                           .num_kv_heads = shape.kv_heads,
                           .head_dim = shape.head_dim,
                           .interleaved = shape.interleaved,
                           .positions = positions.data(),
                           .cos = angle.data(),
                           .sin = angle.data(),
                           .out_slots = positions.data(),
                           .k_cache = k_cache.data(),
                           .v_cache = v_cache.data(),
                           .kv_dtype = shape.kv_dtype};
  for (auto _ : state) ops.rope_store(args, pool);
  SetRates(state, static_cast<double>(shape.rows) * 4.0 * static_cast<double>(q_size + 2 * kv_size), 0);
}

void Norm(benchmark::State& state, const cases::NormCase& shape, const Ops& ops, int threads) {
  base::ThreadPool pool(threads);
  const std::vector<float> x = cases::Numbers(shape.rows * shape.k, 1);
  std::vector<float> out(x.size());
  for (auto _ : state) ops.rms_norm(x.data(), shape.k, x.data(), 1e-5f, shape.rows, shape.k, out.data(), shape.k, pool);
  SetRates(state, 8.0 * static_cast<double>(x.size()), 0);
}

void Stats(benchmark::State& state, const cases::LogitsCase& shape, const Ops& ops) {
  const std::vector<float> logits = cases::Numbers(shape.n, 1);
  for (auto _ : state) benchmark::DoNotOptimize(ops.row_stats(logits.data(), shape.n));
  SetRates(state, 4.0 * static_cast<double>(shape.n), 0);
}

void ArgMax(benchmark::State& state, const cases::LogitsCase& shape, const Ops& ops) {
  const std::vector<float> logits = cases::Numbers(shape.n, 1);
  for (auto _ : state) benchmark::DoNotOptimize(ops.argmax(logits.data(), shape.n));
  SetRates(state, 4.0 * static_cast<double>(shape.n), 0);
}

void Linear(benchmark::State& state, const cases::LinearCase& shape, const Ops& ops, int threads) {
  base::ThreadPool pool(threads);
  const std::vector<uint8_t> bytes = cases::Weights(shape.n, shape.k, shape.dtype, 1);
  std::vector<PackedWeight> layers;
  for (int i = 0; i < kLayers; ++i) {
    layers.push_back(*ops.pack({.data = bytes.data(), .dtype = shape.dtype, .rank = 2, .shape = {shape.n, shape.k}}, nullptr, pool));
  }
  const std::vector<float> x = cases::Numbers(shape.rows * shape.k, 2);
  std::vector<float> out(static_cast<size_t>(shape.rows * shape.n));
  Workspace workspace = *Workspace::Create(64, shape.k);
  int layer = 0;
  for (auto _ : state) {
    const LinearTask task{.weight = &layers[static_cast<size_t>(layer)], .out = out.data(), .ld_out = shape.n};
    ops.linear({.x = x.data(), .ld_x = shape.k, .rows = shape.rows}, {&task, 1}, workspace, pool);
    layer = (layer + 1) % kLayers;
  }
  SetRates(state, static_cast<double>(layers[0].bytes_per_pass), 2.0 * static_cast<double>(shape.rows * shape.n * shape.k));
}

void Register(const std::string& name, auto&& run) { benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime(); }

void RegisterAll() {
  const Ops& ops = CpuOps(base::BestIsa());
  const std::string isa = ops.name;
  for (int threads : {1, base::UsableCpus()}) {
    const std::string suffix = "/" + isa + "/threads " + std::to_string(threads);
    for (const auto& c : cases::AttentionCases()) {
      if (c.timed)
        Register(std::string("attention/") + c.name + suffix, [&c, &ops, threads](auto& state) { Attention(state, c, ops, threads); });
    }
    for (const auto& c : cases::LinearCases()) {
      if (c.timed) Register(std::string("linear/") + c.name + suffix, [&c, &ops, threads](auto& state) { Linear(state, c, ops, threads); });
    }
    for (const auto& c : cases::RopeCases()) {
      if (c.timed)
        Register(std::string("rope_store/") + c.name + suffix, [&c, &ops, threads](auto& state) { Rope(state, c, ops, threads); });
    }
    for (const auto& c : cases::NormCases()) {
      const std::string name = "rms_norm/" + std::to_string(c.rows) + " x " + std::to_string(c.k);
      if (c.timed) Register(name + suffix, [&c, &ops, threads](auto& state) { Norm(state, c, ops, threads); });
    }
    if (threads == base::UsableCpus()) break;
  }
  for (const auto& c : cases::LogitsCases()) {
    if (!c.timed) continue;
    Register("row_stats/" + std::to_string(c.n) + "/" + isa, [&c, &ops](auto& state) { Stats(state, c, ops); });
    Register("argmax/" + std::to_string(c.n) + "/" + isa, [&c, &ops](auto& state) { ArgMax(state, c, ops); });
  }
}

}  // namespace
}  // namespace haast::kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  haast::kernels::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
