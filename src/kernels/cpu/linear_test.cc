// Products of every instruction set against each other (bit for bit), against themselves at other row counts, row offsets,
// thread counts and workspace sizes (bit for bit), and against double arithmetic (derived tolerance).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear_kernels.h"
#include "kernels/cpu/linear_test_util.h"

namespace haast::kernels {
namespace {

using testing_util::Bits;
using testing_util::Isas;
using testing_util::MakeWeight;
using testing_util::Product;
using testing_util::RandomFloats;
using testing_util::RunProduct;
using testing_util::SourceWeight;

constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ4_K, DType::kQ5_K,
                            DType::kQ6_K, DType::kF32,  DType::kF16,  DType::kBF16};

struct Shape {
  int64_t n, k;
};

std::vector<Shape> ShapesOf(DType dtype) {
  if (Info(dtype).block_elements == 256) return {{48, 512}, {37, 256}};
  if (IsQuantised(dtype)) return {{48, 96}, {37, 576}, {1, 32}};
  return {{80, 96}, {37, 33}, {5, 1}, {70, 130}};
}

class EveryType : public testing::TestWithParam<DType> {};

TEST_P(EveryType, InstructionSetsAgreeBitForBit) {
  base::ThreadPool pool(2);
  for (const Shape& shape : ShapesOf(GetParam())) {
    const SourceWeight source = MakeWeight(GetParam(), shape.n, shape.k, 1);
    for (Prologue prologue : {Prologue::kNone, Prologue::kRmsNorm, Prologue::kSiluMul}) {
      Product product(source, 21, prologue, pool);
      product.bias = RandomFloats(shape.n, 5);
      product.accumulate = prologue == Prologue::kSiluMul;
      const std::vector<float> expected = RunProduct(PortableLinear(), product, pool);
      for (const IsaKernels* isa : Isas()) {
        EXPECT_EQ(Bits(RunProduct(*isa, product, pool)), Bits(expected)) << isa->name << " " << shape.n << " x " << shape.k;
      }
    }
  }
}

TEST_P(EveryType, RowBitsDoNotDependOnRowsOffsetThreadsOrParts) {
  const Shape shape = ShapesOf(GetParam())[1];
  const SourceWeight source = MakeWeight(GetParam(), shape.n, shape.k, 2);
  base::ThreadPool one(1), two(2), three(3);
  Product whole(source, 150, Prologue::kRmsNorm, one);
  const std::vector<float> expected = RunProduct(PortableLinear(), whole, one);
  const auto same = [&](int64_t first, int64_t rows) {
    return std::vector<float>(expected.begin() + first * shape.n, expected.begin() + (first + rows) * shape.n);
  };
  for (const IsaKernels* isa : Isas()) {
    // Every number of rows of the tuned range at offsets that are no multiples of a register block.
    for (int64_t rows = 1; rows <= 64; ++rows) {
      const int64_t step = isa->emulated ? 40 : rows <= 4 ? 3 : 17;
      for (int64_t first = rows % 3; first + rows <= 67; first += step) {
        ASSERT_EQ(Bits(RunProduct(*isa, whole, one, first, rows)), Bits(same(first, rows)))
            << isa->name << ": rows " << first << " + " << rows;
      }
    }
    for (base::ThreadPool* pool : {&two, &three}) {
      for (int64_t rows : {1, 2, 3, 8, 17, 150}) {
        ASSERT_EQ(Bits(RunProduct(*isa, whole, *pool, 0, rows)), Bits(same(0, rows)))
            << isa->name << ": " << pool->size() << " threads, rows " << rows;
      }
    }
    for (int64_t workspace_rows : {1, 5, 64, 149}) {
      ASSERT_EQ(Bits(RunProduct(*isa, whole, two, 0, 150, workspace_rows)), Bits(expected)) << isa->name << ": parts of " << workspace_rows;
    }
  }
}

struct ExactDot {
  double value = 0;
  double bound = 0;  // of a product's error: rounding of the activations (half a step of each block's scale) and of the sums
};

ExactDot DotOf(const std::vector<float>& weight, const float* x, bool quantised) {
  ExactDot dot;
  const int64_t k = static_cast<int64_t>(weight.size());
  for (int64_t b = 0; b < k; b += 32) {
    const int64_t end = std::min(b + 32, k);
    float largest = 0;
    for (int64_t j = b; j < end; ++j) largest = std::max(largest, std::fabs(x[j]));
    const double half_step = quantised ? largest / 127 * 0.5001 : 0;
    for (int64_t j = b; j < end; ++j) {
      dot.value += static_cast<double>(weight[j]) * x[j];
      // 64: the minimum and the numbers of a block cancel each other, each up to 2^6 times the difference.
      dot.bound += std::fabs(weight[j]) * (half_step + std::fabs(x[j]) * 1.2e-7 * static_cast<double>(k + 64));
    }
  }
  return dot;
}

TEST_P(EveryType, CloseToDoubleArithmetic) {
  base::ThreadPool pool(2);
  for (const Shape& shape : ShapesOf(GetParam())) {
    const SourceWeight source = MakeWeight(GetParam(), shape.n, shape.k, 3);
    Product product(source, 3, Prologue::kNone, pool);
    const std::vector<float> got = RunProduct(PortableLinear(), product, pool);
    std::vector<float> weight(shape.k);
    for (int64_t i = 0; i < shape.n; ++i) {
      DequantiseRow(source.view, i, weight.data());
      for (int64_t r = 0; r < product.rows; ++r) {
        const float* x = product.x.data() + r * product.ld_x;
        const ExactDot exact = DotOf(weight, x, IsQuantised(GetParam()));
        ASSERT_NEAR(got[r * shape.n + i], exact.value, exact.bound + 1e-30) << "row " << r << ", feature " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, EveryType, testing::ValuesIn(kTypes), [](const auto& info) { return Info(info.param).name; });

TEST(Linear, PrologueIsTheNamedOpThenAPlainProduct) {
  base::ThreadPool pool(2);
  for (DType dtype : {DType::kQ4_1, DType::kF16}) {
    const SourceWeight source = MakeWeight(dtype, 37, 96, 4);
    for (const IsaKernels* isa : Isas()) {
      for (Prologue prologue : {Prologue::kRmsNorm, Prologue::kSiluMul}) {
        Product fused(source, 9, prologue, pool);
        Product plain = fused;
        plain.prologue = Prologue::kNone;
        for (int64_t r = 0; r < fused.rows; ++r) {
          float* x = plain.x.data() + r * fused.ld_x;
          if (prologue == Prologue::kRmsNorm) {
            isa->rms_norm_row(x, fused.norm.data(), fused.eps, 96, x);
          } else {
            isa->silu_mul_row(x, fused.up.data() + r * fused.ld_x, 96, x);
          }
        }
        EXPECT_EQ(Bits(RunProduct(*isa, fused, pool)), Bits(RunProduct(*isa, plain, pool))) << isa->name;
      }
    }
  }
}

TEST(Linear, RowFunctionsAreAccurateForEveryLength) {
  for (int64_t k : {1, 15, 16, 17, 63, 64, 100, 576, 1537}) {
    const std::vector<float> x = RandomFloats(k, 6), w = RandomFloats(k, 7);
    double squares = 0;
    for (float v : x) squares += static_cast<double>(v) * v;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(k) + 1e-5);
    std::vector<float> norm(k), silu(k);
    PortableLinear().rms_norm_row(x.data(), w.data(), 1e-5f, k, norm.data());
    PortableLinear().silu_mul_row(x.data(), w.data(), k, silu.data());
    for (int64_t i = 0; i < k; ++i) {
      const double expected = x[i] * scale * w[i];
      EXPECT_NEAR(norm[i], expected, 1e-6 * std::fabs(expected));
      const double gated = x[i] / (1 + std::exp(-static_cast<double>(x[i]))) * w[i];
      EXPECT_NEAR(silu[i], gated, 1e-6 * std::fabs(gated));
    }
    for (const IsaKernels* isa : Isas()) {
      std::vector<float> other(k);
      isa->rms_norm_row(x.data(), w.data(), 1e-5f, k, other.data());
      EXPECT_EQ(Bits(other), Bits(norm)) << isa->name << " " << k;
      isa->silu_mul_row(x.data(), w.data(), k, other.data());
      EXPECT_EQ(Bits(other), Bits(silu)) << isa->name << " " << k;
    }
  }
}

TEST(Linear, SiluAtTheEndsOfTheRange) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x = {-inf,   -1e30f, -200.0f, -88.0f, -0.0f, 0.0f, 1e-30f, 88.0f,
                                200.0f, 1e30f,  NAN,     1.0f,   -1.0f, 3.0f, -3.0f,  40.0f};
  const std::vector<float> ones(16, 1.0f);
  std::vector<float> out(16);
  for (const IsaKernels* isa : Isas()) {
    isa->silu_mul_row(x.data(), ones.data(), 16, out.data());
    for (int i = 1; i < 16; ++i) {
      if (std::isnan(x[i])) {
        EXPECT_TRUE(std::isnan(out[i]));
      } else {
        const double expected = x[i] / (1 + std::exp(-static_cast<double>(x[i])));
        EXPECT_NEAR(out[i], expected, std::fabs(expected) * 1e-6 + 1e-8) << isa->name << " " << x[i];
      }
    }
  }
}

// All numbers and activations at their extremes: a sum of 16 bits that was too narrow would wrap or saturate.
TEST(Linear, ExtremeNumbersDoNotOverflow) {
  base::ThreadPool pool(1);
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    for (uint8_t fill : {0x00, 0xff, 0x80, 0x7f}) {
      SourceWeight source = MakeWeight(dtype, 16, 256, 8);
      testing_util::FillNumbers(source, fill);
      Product product(source, 6, Prologue::kNone, pool);
      for (size_t i = 0; i < product.x.size(); ++i) product.x[i] = i / static_cast<size_t>(product.ld_x) % 2 == 0 ? 1.0f : -1.0f;
      std::vector<float> weight(256);
      DequantiseRow(source.view, 3, weight.data());
      double exact = 0, size = 0;
      for (float w : weight) exact += w, size += std::fabs(w);
      for (const IsaKernels* isa : Isas()) {
        const std::vector<float> got = RunProduct(*isa, product, pool);
        EXPECT_NEAR(got[3], exact, size * 1e-4 + 1e-4) << isa->name << " " << Info(dtype).name << " filled with " << int{fill};
        EXPECT_NEAR(got[16 + 3], -exact, size * 1e-4 + 1e-4) << isa->name << " " << Info(dtype).name << " filled with " << int{fill};
      }
    }
  }
}

TEST(Linear, TasksOfSeveralTypesShareOneInput) {
  for (int threads : {1, 2, 3}) {
    base::ThreadPool pool(threads);
    const SourceWeight sources[] = {MakeWeight(DType::kQ4_1, 50, 96, 1), MakeWeight(DType::kF32, 7, 96, 2),
                                    MakeWeight(DType::kQ8_0, 100, 96, 3)};
    for (const IsaKernels* isa : Isas()) {
      for (int64_t rows : {1, 2, 7}) {
        Product shared(sources[0], rows, Prologue::kRmsNorm, pool);
        std::vector<Product> products;
        std::vector<std::vector<float>> outs;
        std::vector<LinearTask> tasks;
        for (const SourceWeight& source : sources) {
          products.emplace_back(source, rows, Prologue::kRmsNorm, pool);
          outs.emplace_back(rows * source.view.shape[0]);
        }
        for (size_t i = 0; i < 3; ++i) {
          tasks.push_back({.weight = &products[i].packed, .out = outs[i].data(), .ld_out = sources[i].view.shape[0]});
        }
        Workspace workspace = *Workspace::Create(rows, 96);
        RunLinear(*isa, shared.Input(0, rows), tasks, workspace, pool);
        for (size_t i = 0; i < 3; ++i) EXPECT_EQ(Bits(outs[i]), Bits(RunProduct(*isa, products[i], pool))) << isa->name << " task " << i;
      }
    }
  }
}

TEST(Linear, WritesNothingOutsideItsRowsAndFeatures) {
  base::ThreadPool pool(2);
  for (DType dtype : {DType::kQ4_1, DType::kF32}) {
    const SourceWeight source = MakeWeight(dtype, 21, 64, 1);
    for (const IsaKernels* isa : Isas()) {
      Product product(source, 5, Prologue::kNone, pool);
      std::vector<float> out(7 * 30, 7.0f);
      const LinearTask task{.weight = &product.packed, .out = out.data() + 30, .ld_out = 30};
      Workspace workspace = *Workspace::Create(5, 64);
      RunLinear(*isa, product.Input(0, 5), {&task, 1}, workspace, pool);
      for (int64_t i = 0; i < 7 * 30; ++i) {
        if (i < 30 || i >= 6 * 30 || i % 30 >= 21) {
          EXPECT_EQ(out[i], 7.0f) << i;
        }
      }
    }
  }
}

TEST(Linear, NotANumberAndInfinityReachTheOutput) {
  base::ThreadPool pool(1);
  const SourceWeight source = MakeWeight(DType::kQ4_1, 16, 64, 1);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const IsaKernels* isa : Isas()) {
      Product product(source, 2, Prologue::kNone, pool);
      product.x[5] = bad;
      const std::vector<float> out = RunProduct(*isa, product, pool);
      for (int i = 0; i < 16; ++i) {
        EXPECT_FALSE(std::isfinite(out[i])) << isa->name;
        EXPECT_TRUE(std::isfinite(out[16 + i])) << isa->name;
      }
    }
  }
}

TEST(Linear, RowsOfZerosAndTinyValuesGiveZeroOrTiny) {
  base::ThreadPool pool(1);
  const SourceWeight source = MakeWeight(DType::kQ8_0, 16, 64, 1);
  for (float value : {0.0f, -0.0f, 1e-42f, 1e-37f}) {
    for (const IsaKernels* isa : Isas()) {
      Product product(source, 1, Prologue::kNone, pool);
      std::fill(product.x.begin(), product.x.end(), value);
      for (float out : RunProduct(*isa, product, pool)) EXPECT_LT(std::fabs(out), 1e-34f) << isa->name;
    }
  }
}

TEST(Pack, QuantiseToIsRoundingFirst) {
  base::ThreadPool pool(2);
  const SourceWeight floats = MakeWeight(DType::kF32, 19, 96, 9);
  for (DType to : {DType::kQ8_0, DType::kQ4_1}) {
    SourceWeight rounded = MakeWeight(to, 19, 96, 0);
    for (int64_t i = 0; i < 19; ++i) {
      QuantiseRow(reinterpret_cast<const float*>(floats.bytes.data()) + i * 96, 96, to, rounded.bytes.data() + i * BytesOf(to, 96));
    }
    auto direct = PackWeight(floats.view, &to, pool);
    auto expected = PackWeight(rounded.view, nullptr, pool);
    ASSERT_TRUE(direct && expected);
    EXPECT_EQ(direct->dtype, to);
    EXPECT_EQ(direct->layout, expected->layout);
    ASSERT_EQ(direct->data.size(), expected->data.size());
    EXPECT_EQ(std::memcmp(direct->data.data(), expected->data.data(), expected->data.size()), 0);
  }
}

TEST(Pack, KeepsWeightsWhoseColumnsAreNoWholeBlocks) {
  base::ThreadPool pool(1);
  const DType to = DType::kQ8_0;
  auto packed = PackWeight(MakeWeight(DType::kF16, 5, 33, 1).view, &to, pool);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->dtype, DType::kF16);
}

TEST(Pack, RefusesElementTypesWithoutAProduct) {
  base::ThreadPool pool(1);
  const int32_t numbers[4] = {};
  auto packed = PackWeight({.data = numbers, .dtype = DType::kI32, .rank = 2, .shape = {2, 2}}, nullptr, pool);
  ASSERT_FALSE(packed);
  EXPECT_EQ(packed.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(packed.error().message, testing::HasSubstr("I32"));
}

TEST(Pack, SaysWhatOnePassReads) {
  base::ThreadPool pool(1);
  auto packed = PackWeight(MakeWeight(DType::kQ4_1, 32, 64, 1).view, nullptr, pool);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->bytes_per_pass, 32 * 64 / 32 * 20);  // 16 rows fill a tile: not a byte more than the source
}

TEST(LinearDeathTest, RefusesWhatDoesNotFit) {
  base::ThreadPool pool(1);
  const SourceWeight source = MakeWeight(DType::kQ8_0, 16, 64, 1);
  Product product(source, 2, Prologue::kNone, pool);
  std::vector<float> out(64);
  LinearTask task{.weight = &product.packed, .out = out.data(), .ld_out = 16};
  Workspace narrow = *Workspace::Create(2, 32);
  EXPECT_DEATH(RunLinear(PortableLinear(), product.Input(0, 2), {&task, 1}, narrow, pool), "64 columns in a workspace for 32");
  Workspace workspace = *Workspace::Create(2, 64);
  task.ld_out = 15;
  EXPECT_DEATH(RunLinear(PortableLinear(), product.Input(0, 2), {&task, 1}, workspace, pool), "ld_out 15 for 16");
  task.ld_out = 16;
  LinearInput input = product.Input(0, 2);
  input.ld_x = 63;
  EXPECT_DEATH(RunLinear(PortableLinear(), input, {&task, 1}, workspace, pool), "ld_x 63 for 64");
  const SourceWeight other = MakeWeight(DType::kQ8_0, 16, 32, 1);
  Product other_product(other, 2, Prologue::kNone, pool);
  const LinearTask mixed[] = {task, {.weight = &other_product.packed, .out = out.data(), .ld_out = 16}};
  EXPECT_DEATH(RunLinear(PortableLinear(), product.Input(0, 2), mixed, workspace, pool), "64 and 32 columns");
}

TEST(LinearDeathTest, RefusesAnOutputOverTheInput) {
  base::ThreadPool pool(1);
  const SourceWeight source = MakeWeight(DType::kF32, 16, 32, 1);
  Workspace workspace = *Workspace::Create(2, 32);
  for (const Ops* ops : {&RefOps(), &CpuOps(base::Isa::kPortable)}) {
    const PackedWeight weight = *ops->pack(source.view, nullptr, pool);
    std::vector<float> memory(2 * 64 + 16);
    LinearInput input{.x = memory.data() + 16, .ld_x = 64, .rows = 2};
    LinearTask task{.weight = &weight, .out = memory.data(), .ld_out = 16};
    EXPECT_DEATH(ops->linear(input, {&task, 1}, workspace, pool), "the output of 2 rows of 16 overlaps the input") << ops->name;
    input.rows = 1;
    ops->linear(input, {&task, 1}, workspace, pool);  // one row ends where x begins
    input.up = memory.data();
    input.prologue = Prologue::kSiluMul;
    EXPECT_DEATH(ops->linear(input, {&task, 1}, workspace, pool), "the output of 1 rows of 16 overlaps the input") << ops->name;
    task.out = memory.data() + 16 + 32;
    ops->linear(input, {&task, 1}, workspace, pool);  // one begins where x ends
  }
}

}  // namespace
}  // namespace haast::kernels
