#include "kernels/cases/inputs.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"

namespace haast::kernels::cases {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

float Number(uint64_t seed, uint64_t index) {
  return static_cast<float>(static_cast<int64_t>(Mix(seed * 0x100000001b3 + index) >> 40) - (1 << 23)) / static_cast<float>(1 << 23);
}

void Put(Buffer* cache, DType dtype, int64_t element, float value) {
  if (dtype == DType::kF32) {
    cache->as<float>()[element] = value;
  } else {
    cache->as<uint16_t>()[element] = FloatToHalf(value);
  }
}

}  // namespace

std::vector<float> Numbers(int64_t count, uint64_t seed) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = Number(seed, static_cast<uint64_t>(i));
  return numbers;
}

std::vector<uint8_t> Weights(int64_t rows, int64_t k, DType dtype, uint64_t seed) {
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * BytesOf(dtype, k)));
  const int64_t row_bytes = BytesOf(dtype, k);
  for (int64_t r = 0; r < rows; ++r) {
    uint8_t* out = bytes.data() + r * row_bytes;
    const std::vector<float> row = Numbers(k, seed + static_cast<uint64_t>(r) * 7919);
    if (dtype == DType::kF32) std::memcpy(out, row.data(), static_cast<size_t>(row_bytes));
    if (dtype == DType::kF16 || dtype == DType::kBF16) {
      for (int64_t i = 0; i < k; ++i) {
        const uint16_t bits = dtype == DType::kF16 ? FloatToHalf(row[i]) : FloatToBf16(row[i]);
        std::memcpy(out + 2 * i, &bits, sizeof(bits));
      }
    }
    if (dtype == DType::kQ4_0 || dtype == DType::kQ4_1 || dtype == DType::kQ8_0) QuantiseRow(row.data(), k, dtype, out);
    if (dtype < DType::kQ4_K) continue;
    const int block_bytes = Info(dtype).block_bytes;
    for (int64_t i = 0; i < row_bytes; ++i) out[i] = static_cast<uint8_t>(Mix(seed + static_cast<uint64_t>(r * row_bytes + i)));
    for (int64_t block = 0; block < row_bytes; block += block_bytes) {  // finite scales: d (and dmin) are f16
      const uint16_t scale = FloatToHalf(0.0078125f * (1.0f + std::fabs(row[block % k])));
      std::memcpy(out + block + (dtype == DType::kQ6_K ? 208 : 0), &scale, sizeof(scale));
      if (dtype != DType::kQ6_K) std::memcpy(out + block + 2, &scale, sizeof(scale));
    }
  }
  return bytes;
}

AttentionInputs::AttentionInputs(const AttentionCase& attention_case, uint64_t seed) : shape(attention_case) {
  for (const SequenceCase& sequence : shape.sequences) {
    const int keys = sequence.before + sequence.cached + sequence.rows;
    qo_indptr.push_back(qo_indptr.back() + sequence.rows);
    kv_indptr.push_back(kv_indptr.back() + keys);
    max_kv_len = std::max<int64_t>(max_kv_len, keys);
    tree_flags.push_back(sequence.tree ? 1 : 0);
    tree_cached.push_back(sequence.cached);
    std::vector<uint64_t> masks;
    for (int j = 0; j < sequence.cached + sequence.rows; ++j) {
      const uint64_t own = uint64_t{1} << (j % 64);
      const int parent = static_cast<int>(Mix(seed + static_cast<uint64_t>(j)) % static_cast<uint64_t>(j + 1)) - 1;
      masks.push_back(own | (sequence.tree && parent >= 0 ? masks[static_cast<size_t>(parent)] : 0));
    }
    tree_mask.insert(tree_mask.end(), masks.begin() + sequence.cached, masks.end());
  }
  // A stride that has no factor in common with the pool scatters the slots.
  slots = kv_indptr.back() + 5;
  while (slots % 37 == 0) ++slots;
  for (int64_t i = 0; i < kv_indptr.back(); ++i) kv_indices.push_back(static_cast<int32_t>(i * 37 % slots));
  q = Numbers(rows() * row_size(), seed);

  const int64_t width = static_cast<int64_t>(shape.kv_heads) * shape.head_dim;
  auto k_memory = Buffer::Allocate(static_cast<size_t>(BytesOf(shape.kv_dtype, slots * width)), "k");
  auto v_memory = Buffer::Allocate(static_cast<size_t>(BytesOf(shape.kv_dtype, slots * width)), "v");
  HAAST_CHECK(k_memory && v_memory);
  k_cache = std::move(*k_memory);
  v_cache = std::move(*v_memory);
  std::vector<bool> used(static_cast<size_t>(slots), false);
  for (int32_t slot : kv_indices) used[static_cast<size_t>(slot)] = true;
  for (int64_t i = 0; i < slots * width; ++i) {
    const bool known = used[static_cast<size_t>(i / width)];
    const float nan = std::numeric_limits<float>::quiet_NaN();
    Put(&k_cache, shape.kv_dtype, i, known ? Number(seed + 1, static_cast<uint64_t>(i)) : nan);
    Put(&v_cache, shape.kv_dtype, i, known ? Number(seed + 2, static_cast<uint64_t>(i)) : nan);
  }
}

AttentionArgs AttentionInputs::Args(float* out, float* scratch) const {
  return {.q = q.data(),
          .ld_q = row_size(),
          .out = out,
          .ld_out = row_size(),
          .k_cache = k_cache.data(),
          .v_cache = v_cache.data(),
          .kv_dtype = shape.kv_dtype,
          .num_heads = shape.heads,
          .num_kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
          .batch = static_cast<int>(shape.sequences.size()),
          .qo_indptr = qo_indptr.data(),
          .kv_indptr = kv_indptr.data(),
          .kv_indices = kv_indices.data(),
          .tree_flags = tree_flags.data(),
          .tree_cached = tree_cached.data(),
          .tree_mask = tree_mask.data(),
          .max_kv_len = max_kv_len,
          .scratch = scratch};
}

std::vector<int32_t> AttentionInputs::VisibleSlots(int b, int j) const {
  const SequenceCase& sequence = shape.sequences[static_cast<size_t>(b)];
  const int32_t* entries = kv_indices.data() + kv_indptr[static_cast<size_t>(b)];
  std::vector<int32_t> visible(entries, entries + sequence.before);
  const uint64_t mask = tree_mask[static_cast<size_t>(qo_indptr[static_cast<size_t>(b)]) + static_cast<size_t>(j)];
  for (int other = 0; other < sequence.cached + sequence.rows; ++other) {
    if (sequence.tree ? ((mask >> other) & 1) != 0 : other <= j) visible.push_back(entries[sequence.before + other]);
  }
  return visible;
}

}  // namespace haast::kernels::cases
