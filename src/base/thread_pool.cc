#include "base/thread_pool.h"

#include "base/check.h"
#include "base/cpu.h"

namespace haast::base {
namespace {

// A step's launches follow each other within microseconds, so a worker spins about this long before it sleeps.
constexpr int kSpins = 1 << 15;
// Where there are more threads than processors the spinner may hold the processor that the others need.
constexpr int kSpinsBeforeYield = 1 << 12;

}  // namespace

ThreadPool::ThreadPool(int threads) : threads_(threads) {
  HAAST_CHECK(threads >= 1) << "threads = " << threads;
  const uint32_t float_control = GetFloatControl();
  for (int t = 1; t < threads; ++t) {
    workers_.emplace_back([this, t, float_control] {
      SetFloatControl(float_control);
      WorkerLoop(t);
    });
  }
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
  call(context, 0, threads_);
  for (int spin = 0; done_.load(std::memory_order_acquire) != threads_ - 1; ++spin) {
    if (spin < kSpinsBeforeYield) {
      CpuRelax();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::WorkerLoop(int thread) {
  uint64_t seen = 0;
  while (true) {
    int spin = 0;
    while (generation_.load(std::memory_order_acquire) == seen && !stop_.load(std::memory_order_relaxed)) {
      if (++spin < kSpins) {
        CpuRelax();
        continue;
      }
      std::unique_lock lock(mutex_);
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wake_.wait(lock, [&] { return generation_.load(std::memory_order_seq_cst) != seen || stop_.load(); });
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    }
    if (generation_.load(std::memory_order_acquire) == seen) return;  // stopped
    ++seen;
    call_(context_, thread, threads_);
    done_.fetch_add(1, std::memory_order_release);
  }
}

void ThreadPool::Barrier() {
  if (threads_ == 1) return;
  const uint32_t phase = barrier_phase_.load(std::memory_order_acquire);
  if (barrier_arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    barrier_arrived_.store(0, std::memory_order_relaxed);
    barrier_phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  for (int spin = 0; barrier_phase_.load(std::memory_order_acquire) == phase; ++spin) {
    if (spin < kSpinsBeforeYield) {
      CpuRelax();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace haast::base
