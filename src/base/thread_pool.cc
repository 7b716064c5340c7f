#include "base/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "base/check.h"
#include "base/cpu.h"
#include "base/format.h"

namespace haast::base {
namespace {

constexpr const char* kThreadLimits = "its limits of processes and memory (ulimit -u, ulimit -v, pids.max of the control group)";
// A step's launches follow each other within microseconds, so a worker spins before it sleeps: at most about a millisecond, and half as
// long after each time that it spun in vain. On a busy machine the processor it spins on is the one that the caller waits for.
constexpr int kMostSpins = 1 << 15;
constexpr int kLeastSpins = 1 << 8;
// Threads that work side by side arrive within microseconds. Past that the one that is missing has lost its processor, and
// the waiting one may be holding it: sleep until woken.
constexpr int kSpinsBeforeSleep = 1 << 12;

template <typename T>
void WaitWhile(const std::atomic<T>& value, T old) {
  for (int spin = 0; spin < kSpinsBeforeSleep; ++spin) {
    if (value.load(std::memory_order_acquire) != old) return;
    CpuRelax();
  }
  // wait() may wake for another reason than a new value.
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::Create(int threads) {
  std::unique_ptr<ThreadPool> pool(new ThreadPool(threads, NotStarted()));
  HAAST_RETURN_IF_ERROR(pool->Start());
  return pool;
}

ThreadPool::ThreadPool(int threads) : ThreadPool(threads, NotStarted()) {
  const Status started = Start();
  HAAST_CHECK(started) << started.error().message;
}

ThreadPool::ThreadPool(int threads, NotStarted) : threads_(threads), cursors_(2 * static_cast<size_t>(threads)) {
  HAAST_CHECK(threads >= 1) << "threads = " << threads;
}

Status ThreadPool::Start() {
  const uint32_t float_control = GetFloatControl();
  try {
    for (int t = 1; t < threads_; ++t) {
      workers_.emplace_back([this, t, float_control] {
        SetFloatControl(float_control);
        pthread_setname_np(pthread_self(), fmt::format("haast-{}", t).c_str());
        WorkerLoop(t);
      });
    }
  } catch (const std::system_error& error) {
    return Err(ErrorCode::kOutOfMemory, "{} threads: the system started {} and refused the next: {}: use fewer threads, or raise {}",
               threads_, workers_.size() + 1, error.what(), kThreadLimits);
  }
  return {};
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_.store(true, std::memory_order_seq_cst);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::RunErased(Call call, void* context) {
  call_ = call;
  context_ = context;
  done_.store(0, std::memory_order_relaxed);
  // Sequentially consistent with the sleeper count: either the sleeper sees the new generation or we see the sleeper.
  generation_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) > 0) {
    std::lock_guard lock(mutex_);
    wake_.notify_all();
  }
  CursorOf(0, 1).store(0, std::memory_order_relaxed);
  call(context, 0, threads_);
  for (int done = done_.load(std::memory_order_acquire); done != threads_ - 1; done = done_.load(std::memory_order_acquire)) {
    WaitWhile(done_, done);
  }
}

void ThreadPool::WorkerLoop(int thread) {
  uint64_t seen = 0;
  int patience = kMostSpins;
  while (true) {
    int spin = 0;
    while (generation_.load(std::memory_order_acquire) == seen && !stop_.load(std::memory_order_relaxed)) {
      if (++spin < patience) {
        CpuRelax();
        continue;
      }
      patience = std::max(patience / 2, kLeastSpins);
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return generation_.load(std::memory_order_seq_cst) != seen || stop_.load(); });
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
    if (generation_.load(std::memory_order_acquire) == seen) return;  // stopped
    if (spin < patience) patience = std::min(2 * patience, kMostSpins);
    ++seen;
    CursorOf(thread, 1).store(0, std::memory_order_relaxed);
    call_(context_, thread, threads_);
    done_.fetch_add(1, std::memory_order_release);
    done_.notify_one();
  }
}

void ThreadPool::Barrier() {
  if (threads_ == 1) return;
  const uint32_t phase = barrier_phase_.load(std::memory_order_acquire);
  if (barrier_arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    barrier_arrived_.store(0, std::memory_order_relaxed);
    barrier_phase_.store(phase + 1, std::memory_order_release);
    barrier_phase_.notify_all();
    return;
  }
  WaitWhile(barrier_phase_, phase);
}

}  // namespace haast::base
