#include "kernels/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <new>
#include <numeric>
#include <thread>
#include <vector>

namespace lectern {
namespace {

TEST(ThreadPoolTest, RunsEveryItemExactlyOnce) {
  for (const size_t num_threads : {1, 2, 3, 8}) {
    ThreadPool pool(num_threads);
    EXPECT_EQ(pool.num_threads(), num_threads);
    for (const size_t num_items : {0, 1, 2, 3, 7, 8, 100, 10000}) {
      std::vector<std::atomic<int>> counts(num_items);
      pool.ParallelFor(num_items, [&](size_t item, size_t) { ++counts[item]; });
      for (const auto& count : counts) ASSERT_EQ(count, 1);
    }
  }
}

// No lock around the sums: under TSan a slot shared by two threads is a reported race.
TEST(ThreadPoolTest, SlotsAreDistinctWhileTheyRun) {
  ThreadPool pool(4);
  for (int repeat = 0; repeat < 200; ++repeat) {
    std::vector<size_t> sums(pool.num_threads());
    std::vector<std::atomic<bool>> busy(pool.num_threads());
    std::atomic<bool> shared = false;
    pool.ParallelFor(100, [&](size_t item, size_t slot) {
      if (slot >= sums.size() || busy[slot].exchange(true)) shared = true;
      sums[slot] += item;
      busy[slot] = false;
    });
    ASSERT_FALSE(shared);
    ASSERT_EQ(std::accumulate(sums.begin(), sums.end(), size_t{0}), 4950u);
  }
}

// So many callers at a time; sometimes workers have gone to sleep between their calls.
void ExpectServesCallers(size_t num_callers, size_t repeats) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::vector<size_t> wrong(num_callers);
  for (size_t caller = 0; caller < wrong.size(); ++caller) {
    callers.emplace_back([&pool, &wrong, repeats, caller] {
      for (size_t repeat = 0; repeat < repeats; ++repeat) {
        if (repeat % 50 == 49) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        const size_t num_items = 1 + (repeat * 7 + caller) % 40;
        std::vector<std::atomic<int>> counts(num_items);
        std::vector<std::atomic<int>> in_slot(pool.num_threads());
        std::atomic<int> shared = 0;
        pool.ParallelFor(num_items, [&](size_t item, size_t slot) {
          if (in_slot[slot]++ != 0) ++shared;
          ++counts[item];
          --in_slot[slot];
        });
        for (const auto& count : counts) wrong[caller] += count != 1;
        wrong[caller] += static_cast<size_t>(shared.load());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  for (const size_t count : wrong) EXPECT_EQ(count, 0u);
}

TEST(ThreadPoolTest, ServesConcurrentCallers) { ExpectServesCallers(4, 300); }

TEST(ThreadPoolTest, ServesMoreCallersThanItHasJobs) {
  ExpectServesCallers(ThreadPool::kMostJobs + 8, 100);
}

TEST(ThreadPoolTest, WorkOfItemsIsVisibleToTheCaller) {
  ThreadPool pool(4);
  for (int repeat = 0; repeat < 500; ++repeat) {
    std::vector<int> values(64);
    pool.ParallelFor(values.size(), [&](size_t item, size_t) { values[item] = int(item); });
    ASSERT_EQ(std::accumulate(values.begin(), values.end(), 0), 2016);
  }
}

TEST(ThreadPoolTest, WhatAnItemThrowsIsThrownToTheCallerAndThePoolLives) {
  for (const size_t num_threads : {1, 2, 4}) {
    ThreadPool pool(num_threads);
    for (int repeat = 0; repeat < 200; ++repeat) {
      std::atomic<size_t> running = 0;
      const auto throw_one = [&](size_t item, size_t) {
        ++running;
        if (item % 7 == 5) {
          --running;
          throw std::bad_alloc();
        }
        --running;
      };
      ASSERT_THROW(pool.ParallelFor(20, throw_one), std::bad_alloc);
      ASSERT_EQ(running, 0u) << "no item runs any more";
    }
    std::atomic<size_t> sum = 0;
    pool.ParallelFor(100, [&](size_t item, size_t) { sum += item; });
    EXPECT_EQ(sum, 4950u);
  }
}

TEST(ThreadPoolTest, ItemsShareOutWorkOfTheirOwn) {
  for (const size_t num_threads : {1, 2, 4}) {
    ThreadPool threads(num_threads);
    constexpr size_t kOuter = 13, kInner = 50;
    std::vector<std::vector<int>> counts(kOuter, std::vector<int>(kInner));
    for (int round = 0; round < 20; ++round) {
      threads.ParallelFor(kOuter, [&](size_t outer, size_t) {
        std::vector<int> of_slot(num_threads);  // distinct among the threads of this inner call
        threads.ParallelFor(kInner, [&](size_t inner, size_t slot) {
          ++counts[outer][inner];
          ++of_slot[slot];
        });
        EXPECT_EQ(std::accumulate(of_slot.begin(), of_slot.end(), 0), int{kInner});
      });
    }
    for (const std::vector<int>& of : counts) EXPECT_EQ(of, std::vector<int>(kInner, 20));
    EXPECT_THROW(threads.ParallelFor(4,
                                     [&](size_t, size_t) {
                                       threads.ParallelFor(4, [&](size_t inner, size_t) {
                                         if (inner == 2) throw std::bad_alloc();
                                       });
                                     }),
                 std::bad_alloc);
  }
}

TEST(ThreadPoolTest, EndsWithoutWork) {
  for (int repeat = 0; repeat < 50; ++repeat) ThreadPool pool(4);
}

TEST(DefaultThreadsTest, IsAtLeastOne) { EXPECT_GE(DefaultThreads(), 1u); }

}  // namespace
}  // namespace lectern
