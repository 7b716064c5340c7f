#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <fstream>

#include "base/check.h"
#include "base/cpu.h"
#include "base/mapped_file.h"
#include "base/thread_pool.h"

namespace haast::base {
namespace {

TEST(Check, FailureAbortsWithItsNumbers) { EXPECT_DEATH(HAAST_CHECK(1 + 1 == 3) << "rows = " << 4, "check failed: 1 \\+ 1 == 3 rows = 4"); }

TEST(ThreadPool, EveryThreadRunsOncePerRun) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 200; ++round) {
      std::atomic<int> mask{0};
      pool.Run([&](int thread, int count) {
        EXPECT_EQ(count, threads);
        mask.fetch_or(1 << thread);
      });
      ASSERT_EQ(mask.load(), (1 << threads) - 1);
    }
  }
}

// A stack larger than the address space: no system starts such a thread.
TEST(ThreadPool, AThreadThatTheSystemRefusesIsAnErrorWithTheNumbers) {
  pthread_attr_t before, huge;
  ASSERT_EQ(pthread_getattr_default_np(&before), 0);
  pthread_attr_init(&huge);
  ASSERT_EQ(pthread_attr_setstacksize(&huge, size_t{1} << 60), 0);
  ASSERT_EQ(pthread_setattr_default_np(&huge), 0);
  const auto pool = ThreadPool::Create(3);
  ASSERT_EQ(pthread_setattr_default_np(&before), 0);
  pthread_attr_destroy(&huge);
  pthread_attr_destroy(&before);
  ASSERT_FALSE(pool);
  EXPECT_EQ(pool.error().code, ErrorCode::kOutOfMemory);
  for (const char* part : {"3 threads: the system started 1 and refused the next", "use fewer threads", "ulimit -u"}) {
    EXPECT_NE(pool.error().message.find(part), std::string::npos) << pool.error().message;
  }
  EXPECT_EQ((*ThreadPool::Create(2))->size(), 2);
}

TEST(ThreadPool, BarrierSeparatesPhases) {
  ThreadPool pool(4);
  std::vector<int> value(4, 0);
  for (int round = 0; round < 100; ++round) {
    std::atomic<bool> ok{true};
    pool.Run([&](int thread, int) {
      value[thread] = round;
      pool.Barrier();
      for (int other : value) {
        if (other != round) ok = false;
      }
      pool.Barrier();
    });
    ASSERT_TRUE(ok.load());
  }
}

TEST(ThreadPool, EveryItemIsHandedOutOnceWhoeverAsks) {
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    for (int run = 0; run < 50; ++run) {
      constexpr int kItems = 20;
      std::vector<std::atomic<int>> taken(static_cast<size_t>(2 * threads * kItems));
      pool.Run([&](int thread, int count) {
        for (int phase = 0; phase < 2; ++phase) {
          for (int i = 0; i < count; ++i) {
            const int owner = (thread + i) % count;
            for (int64_t item = pool.NextItem(owner); item < kItems; item = pool.NextItem(owner)) {
              ++taken[static_cast<size_t>((phase * count + owner) * kItems + item)];
            }
          }
          if (phase == 1) break;
          pool.Barrier();
          pool.ResetItems(thread);
          pool.Barrier();
        }
      });
      for (size_t i = 0; i < taken.size(); ++i) ASSERT_EQ(taken[i], 1) << threads << " threads, run " << run << ", item " << i;
    }
  }
}

TEST(ThreadPool, WakesSleepingWorkers) {
  ThreadPool pool(2);
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    std::atomic<int> calls{0};
    pool.Run([&](int, int) { ++calls; });
    EXPECT_EQ(calls.load(), 2);
  }
}

TEST(ThreadPool, WorkersHaveNamesAndTheCallerKeepsItsOwn) {
  ThreadPool pool(3);
  std::vector<std::string> names(3);
  pool.Run([&](int thread, int) {
    char name[16] = "";
    pthread_getname_np(pthread_self(), name, sizeof(name));
    names[thread] = name;
  });
  EXPECT_EQ(names[1], "haast-1");
  EXPECT_EQ(names[2], "haast-2");
  EXPECT_NE(names[0], "haast-0");
}

TEST(ThreadPool, WorkersInheritTheFloatControl) {
#if defined(__x86_64__)
  constexpr uint32_t kFlushDenormals = 0x8040;
#elif defined(__aarch64__)
  constexpr uint32_t kFlushDenormals = 1u << 24;
#else
  constexpr uint32_t kFlushDenormals = 0;  // no control to inherit
#endif
  const uint32_t before = GetFloatControl();
  SetFloatControl(before | kFlushDenormals);
  ThreadPool pool(2);
  std::vector<uint32_t> seen(2, 0);
  pool.Run([&](int thread, int) { seen[thread] = GetFloatControl() & kFlushDenormals; });
  SetFloatControl(before);
  EXPECT_EQ(seen[0], seen[1]);
  EXPECT_EQ(seen[1], kFlushDenormals);
}

TEST(Share, CoversEveryItemOnce) {
  for (int64_t count : {0, 1, 7, 100}) {
    int64_t next = 0;
    for (int t = 0; t < 3; ++t) {
      auto [begin, end] = Share(count, t, 3);
      EXPECT_EQ(begin, next);
      next = end;
    }
    EXPECT_EQ(next, count);
  }
}

TEST(MappedFile, ReadsAFileAndNamesAMissingOne) {
  const std::string path = testing::TempDir() + "/mapped_file_test";
  std::ofstream(path) << "haast";
  auto file = MappedFile::Open(path);
  ASSERT_TRUE(file);
  EXPECT_EQ(std::string(file->bytes().begin(), file->bytes().end()), "haast");
  std::remove(path.c_str());
  auto missing = MappedFile::Open(path);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_NE(missing.error().message.find(path), std::string::npos);
  EXPECT_FALSE(MappedFile::Open(testing::TempDir()));
}

}  // namespace
}  // namespace haast::base
