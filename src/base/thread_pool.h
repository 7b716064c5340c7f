// A fixed set of threads that run one function together: shares of work, static or taken as they go; a spin-then-sleep barrier at
// each end.
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
      ResetItems(0);
      fn(0, 1);
      return;
    }
    auto call = [](void* context, int thread, int threads) { (*static_cast<std::remove_reference_t<Fn>*>(context))(thread, threads); };
    RunErased(+call, const_cast<void*>(static_cast<const void*>(&fn)));
  }

  // Inside fn: waits until every thread of the running Run has arrived. All threads must call it equally often.
  void Barrier();

  // Inside fn: work that is shared out as threads go. The items of `owner`, a thread, are numbered from 0 in every Run; each number is
  // handed out once, to whichever thread asks. Who has finished its own items asks for those of others: processors are not equally
  // fast, least of all those of a shared host.
  int64_t NextItem(int owner) { return CursorOf(owner).fetch_add(1, std::memory_order_relaxed); }
  // Numbers the items of `owner` from 0 again, while no thread asks for them: between two barriers.
  void ResetItems(int owner) { CursorOf(owner).store(0, std::memory_order_relaxed); }

 private:
  struct NotStarted {};
  ThreadPool(int threads, NotStarted);
  Status Start();
  using Call = void (*)(void*, int, int);
  void RunErased(Call call, void* context);
  void WorkerLoop(int thread);

  // Two for each thread: those of one Run, and those of the next, which their owners set to 0 meanwhile.
  struct alignas(64) Cursor {
    std::atomic<int64_t> next{0};
  };
  std::atomic<int64_t>& CursorOf(int owner, uint64_t run = 0) {
    return cursors_[static_cast<size_t>(2 * owner) + ((generation_.load(std::memory_order_relaxed) + run) & 1)].next;
  }

  const int threads_;
  std::vector<Cursor> cursors_;
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
