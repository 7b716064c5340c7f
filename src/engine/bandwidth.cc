// What this machine can do at most: read memory, and multiply bytes.
#include <algorithm>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/thread_pool.h"
#include "core/buffer.h"
#include "engine/roofline.h"
#include "exec/ops_choice.h"
#include "haast/bench.h"

namespace haast {
namespace {

constexpr int kPasses = 15;
// A core has more reads in flight when it follows several runs of addresses at once.
constexpr int kStreams = 4;

using Word = uint64_t __attribute__((vector_size(16)));
constexpr int64_t kLineWords = 4;
constexpr int64_t kLineBytes = kLineWords * sizeof(Word);  // a cache line

// Reads `lines` cache lines; the result depends on each of them, so that no load can be left out.
uint64_t ReadLines(const Word* data, int64_t lines) {
  const int64_t each = lines / kStreams * kLineWords;
  Word sums[kStreams][2] = {};
  for (int64_t i = 0; i < each; i += kLineWords) {
    for (int stream = 0; stream < kStreams; ++stream) {
      const Word* line = data + stream * each + i;
      sums[stream][0] += line[0] + line[1];
      sums[stream][1] += line[2] + line[3];
    }
  }
  for (int64_t i = each * kStreams; i < lines * kLineWords; ++i) sums[0][0] += data[i];
  Word sum = {};
  for (const auto& pair : sums) sum += pair[0] + pair[1];
  return sum[0] + sum[1];
}

}  // namespace

Result<double> MeasureReadBandwidth(int threads, int64_t bytes) {
  if (threads < 1 || bytes < 1) {
    return Err(ErrorCode::kInvalidArgument, "read bandwidth: expected at least 1 thread and 1 byte, got {} and {}", threads, bytes);
  }
  const int64_t lines = (bytes + kLineBytes - 1) / kLineBytes;
  HAAST_ASSIGN_OR_RETURN(Buffer buffer,
                         Buffer::Allocate(static_cast<size_t>(lines * kLineBytes), "the buffer of the bandwidth measurement"));
  base::ThreadPool pool(threads);
  const auto share = [&](int thread) { return base::Share(lines, thread, threads); };
  // Written first: pages that nobody wrote are all the same page of zeros.
  pool.Run([&](int thread, int) {
    const auto [begin, end] = share(thread);
    std::fill(buffer.data() + begin * kLineBytes, buffer.data() + end * kLineBytes, uint8_t{1});
  });
  std::vector<uint64_t> sums(static_cast<size_t>(threads) * 8);  // a cache line for each thread
  std::vector<double> seconds;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double start = base::NowSeconds();
    pool.Run([&](int thread, int) {
      const auto [begin, end] = share(thread);
      sums[static_cast<size_t>(thread) * 8] += ReadLines(buffer.as<Word>() + begin * kLineWords, end - begin);
    });
    seconds.push_back(base::NowSeconds() - start);
  }
  uint64_t sum = 0;
  for (const uint64_t part : sums) sum += part;
  const uint64_t expected = static_cast<uint64_t>(lines) * 8 * 0x0101010101010101ULL * kPasses;
  HAAST_CHECK(sum == expected) << "read " << sum << ", wrote " << expected;
  std::nth_element(seconds.begin(), seconds.begin() + kPasses / 2, seconds.end());
  return static_cast<double>(lines * kLineBytes) / std::max(seconds[kPasses / 2], 1e-9) / 1e9;
}

namespace engine {

double MeasureInt8Rate(const kernels::Ops& ops, int threads) {
  constexpr int64_t kRounds = 100000;  // a fraction of a millisecond
  if (ops.dot_loop == nullptr) return 0.0;
  base::ThreadPool pool(threads);
  int64_t operations = 0;
  std::vector<double> seconds;
  for (int pass = 0; pass < kPasses; ++pass) {
    const double start = base::NowSeconds();
    pool.Run([&](int thread, int) {
      const int64_t done = ops.dot_loop(kRounds);
      if (thread == 0) operations = done * threads;
    });
    seconds.push_back(base::NowSeconds() - start);
  }
  std::nth_element(seconds.begin(), seconds.begin() + kPasses / 2, seconds.end());
  return static_cast<double>(operations) / std::max(seconds[kPasses / 2], 1e-9) / 1e12;
}

}  // namespace engine
}  // namespace haast
