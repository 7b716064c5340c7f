// A fixed set of threads that run one function together: static shares of work, a spin-then-sleep barrier at each end.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "haast/result.h"

namespace haast::base {

class ThreadPool {
 public:
  // `threads` >= 1; the calling thread of Run is thread 0, so threads - 1 are started. Every worker gets the caller's
  // floating-point control state (denormals, rounding), so that no result depends on the thread that computed it, and a name for
  // debuggers and profilers: "haast-1", ...
  // kOutOfMemory where the system starts fewer, with how many and the remedy.
  static Result<std::unique_ptr<ThreadPool>> Create(int threads);
  // For a few threads, which every system has.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return threads_; }

  // Calls fn(thread, size()) once on each thread and returns when all are done. fn must not call Run and must not throw.
  // One caller at a time.
  template <typename Fn>
  void Run(Fn&& fn) {
    if (threads_ == 1) {
      fn(0, 1);
      return;
    }
    auto call = [](void* context, int thread, int threads) { (*static_cast<std::remove_reference_t<Fn>*>(context))(thread, threads); };
    RunErased(+call, const_cast<void*>(static_cast<const void*>(&fn)));
  }

  // Inside fn: waits until every thread of the running Run has arrived. All threads must call it equally often.
  void Barrier();

 private:
  struct NotStarted {};
  ThreadPool(int threads, NotStarted) : threads_(threads) {}
  Status Start();
  using Call = void (*)(void*, int, int);
  void RunErased(Call call, void* context);
  void WorkerLoop(int thread);

  const int threads_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<uint64_t> generation_{0};
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<int> barrier_arrived_{0};
  alignas(64) std::atomic<uint32_t> barrier_phase_{0};
  std::atomic<int> sleepers_{0};
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> workers_;
};

// The contiguous share [begin, end) of `count` items that belongs to `thread` of `threads`.
inline std::pair<int64_t, int64_t> Share(int64_t count, int thread, int threads) {
  return {count * thread / threads, count * (thread + 1) / threads};
}

}  // namespace haast::base
