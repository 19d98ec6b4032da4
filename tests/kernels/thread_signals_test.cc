// Signals are of POSIX, so that these claims are apart from those of thread_pool_test.cc.
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>

#include "kernels/thread_pool.h"

namespace lectern {
namespace {

// The host's threads handle its signals; what is blocked there stays as it was.
TEST(ThreadPoolTest, WorkersTakeNoSignalsOfTheProcess) {
  const auto gets = [](int signal) {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    return sigismember(&blocked, signal) == 0;
  };
  ThreadPool pool(3);
  EXPECT_TRUE(gets(SIGTERM));
  std::atomic<int> num_by_workers = 0, num_wrong = 0;
  while (num_by_workers < 10) {
    pool.ParallelFor(64, [&](size_t, size_t slot) {
      if (slot == 0) return;
      ++num_by_workers;
      num_wrong += gets(SIGTERM) || gets(SIGINT) || gets(SIGCHLD) || !gets(SIGSEGV);
    });
  }
  EXPECT_EQ(num_wrong, 0);
}

}  // namespace
}  // namespace lectern
