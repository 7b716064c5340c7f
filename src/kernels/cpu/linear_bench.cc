// bench_linear [THREADS] [ISA] [REPEATS]: the products of a 135M-parameter Llama (Q4_1 body, Q8_0 vocabulary head) on their own.
// Per number of rows: ms for all of them and GB/s of weights, minimum / median / maximum; then each kind of matrix.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "kernels/cpu/linear.h"

namespace haast::kernels {
namespace {

constexpr int kLayers = 30;
constexpr int kMaxRows = 512;

struct Matrix {
  const char* name;
  int64_t n, k;
  DType dtype;
  Prologue prologue;
  bool accumulate;
};
constexpr Matrix kLayer[] = {{"qkv", 960, 576, DType::kQ4_1, Prologue::kRmsNorm, false},
                             {"o", 576, 576, DType::kQ4_1, Prologue::kNone, true},
                             {"gate+up", 3072, 576, DType::kQ4_1, Prologue::kRmsNorm, false},
                             {"down", 576, 1536, DType::kQ4_1, Prologue::kSiluMul, true}};
constexpr Matrix kHead = {"head", 49152, 576, DType::kQ8_0, Prologue::kRmsNorm, false};

class Bench {
 public:
  Bench(base::Isa isa, int threads) : kernels_(LinearFor(isa)), pool_(threads), x_(kMaxRows * 3072, 0.5f), up_(x_), norm_(3072, 1.0f) {
    auto workspace = Workspace::Create(kMaxRows, 1536);
    HAAST_CHECK(workspace) << workspace.error().message;
    workspace_ = std::move(*workspace);
    for (size_t i = 0; i < x_.size(); ++i) x_[i] = static_cast<float>(static_cast<int>(i * 2654435761u >> 20) - 2048) / 512;
    source_.reserve(static_cast<size_t>(BytesOf(kHead.dtype, kHead.n * kHead.k)));
    for (int layer = 0; layer < kLayers; ++layer) {
      for (const Matrix& matrix : kLayer) Add(matrix);
    }
    Add(kHead);
    out_.resize(static_cast<size_t>(kMaxRows) * 3072);
    logits_.resize(static_cast<size_t>(64) * kHead.n);
  }

  // Seconds of all products on `rows` rows; those of `only` where it is not null. Logits of at most 64 rows.
  double Pass(int64_t rows, const char* only) {
    const double start = base::NowSeconds();
    for (size_t i = 0; i < weights_.size(); ++i) {
      const Matrix& matrix = *matrices_[i];
      if (only != nullptr && std::string(only) != matrix.name) continue;
      const bool head = &matrix == &kHead;
      LinearInput input{.x = x_.data(), .ld_x = matrix.k, .rows = head ? std::min<int64_t>(rows, 64) : rows};
      input.prologue = matrix.prologue;
      input.norm_weight = norm_.data();
      input.eps = 1e-5f;
      input.up = up_.data();
      const LinearTask task{
          .weight = &weights_[i], .out = head ? logits_.data() : out_.data(), .ld_out = matrix.n, .accumulate = matrix.accumulate};
      kernels_.linear(input, {&task, 1}, workspace_, pool_);
    }
    return base::NowSeconds() - start;
  }

  double Bytes(const char* only) const {
    double bytes = 0;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (only == nullptr || std::string(only) == matrices_[i]->name) bytes += static_cast<double>(weights_[i].bytes_per_pass);
    }
    return bytes;
  }

 private:
  void Add(const Matrix& matrix) {
    // One source buffer for all: packed weights lie side by side, as they do when a mapped file is loaded.
    std::vector<uint8_t>& source = source_;
    source.resize(static_cast<size_t>(BytesOf(matrix.dtype, matrix.n * matrix.k)));
    uint32_t state = static_cast<uint32_t>(weights_.size()) + 1;
    for (size_t i = 0; i < source.size(); ++i) {
      state = state * 1664525u + 1013904223u;
      source[i] = static_cast<uint8_t>(state >> 24);
    }
    const size_t block = static_cast<size_t>(Info(matrix.dtype).block_bytes);
    for (size_t i = 0; i < source.size(); i += block) {
      source[i + 1] = 0x10;  // scales about 1e-3
      if (matrix.dtype == DType::kQ4_1) source[i + 3] = 0x90;
    }
    TensorView view{.data = source.data(), .dtype = matrix.dtype, .rank = 2, .shape = {matrix.n, matrix.k}};
    auto packed = kernels_.pack(view, nullptr, pool_);
    HAAST_CHECK(packed) << packed.error().message;
    weights_.push_back(std::move(*packed));
    matrices_.push_back(&matrix);
  }

  const LinearKernels& kernels_;
  base::ThreadPool pool_;
  Workspace workspace_;
  std::vector<uint8_t> source_;
  std::vector<PackedWeight> weights_;
  std::vector<const Matrix*> matrices_;
  std::vector<float> x_, up_, norm_, out_, logits_;
};

// Interleaved: every repetition runs each number of rows once, so that a slow moment of the machine hits all alike.
void Table(Bench& bench, const std::vector<int64_t>& rows, int repeats, const char* only) {
  std::vector<std::vector<double>> seconds(rows.size());
  for (int r = 0; r < repeats; ++r) {
    for (size_t i = 0; i < rows.size(); ++i) seconds[i].push_back(bench.Pass(rows[i], only));
  }
  double one = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<double>& s = seconds[i];
    std::sort(s.begin(), s.end());
    const double median = s[s.size() / 2];
    if (i == 0) one = median;
    std::printf("%-8s M=%-4ld %8.3f / %8.3f / %8.3f ms  %5.2f x M=1  %6.3f ms/row  %5.1f GB/s\n", only == nullptr ? "all" : only,
                static_cast<long>(rows[i]), s.front() * 1e3, median * 1e3, s.back() * 1e3, median / one,
                median * 1e3 / static_cast<double>(rows[i]), bench.Bytes(only) / median / 1e9);
  }
}

}  // namespace
}  // namespace haast::kernels

int main(int argc, char** argv) {
  using haast::base::Isa;
  const int threads = argc > 1 ? static_cast<int>(std::strtol(argv[1], nullptr, 10)) : haast::base::UsableCpus();
  Isa isa = haast::base::BestIsa();
  for (const Isa candidate : haast::base::SupportedIsas()) {
    if (argc > 2 && std::string(argv[2]) == haast::base::IsaName(candidate)) isa = candidate;
  }
  const int repeats = argc > 3 ? static_cast<int>(std::strtol(argv[3], nullptr, 10)) : 15;
  haast::kernels::Bench bench(isa, threads);
  std::printf("%s, %d threads, %.1f MB of weights; min / median / max of %d\n", haast::base::IsaName(isa), threads,
              bench.Bytes(nullptr) / 1e6, repeats);
  haast::kernels::Table(bench, {1, 2, 3, 4, 5, 6, 7, 8, 12, 16}, repeats, nullptr);
  for (const char* name : {"qkv", "o", "gate+up", "down", "head"})
    haast::kernels::Table(bench, {1, 4, 8, 64, 512}, (repeats + 1) / 2, name);
  haast::kernels::Table(bench, {1, 64, 512}, (repeats + 4) / 5, nullptr);
  return 0;
}
