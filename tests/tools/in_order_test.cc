#include "tools/in_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace lectern::tools {
namespace {

using Numbers = std::vector<size_t>;

Numbers UpTo(size_t count) {
  Numbers numbers(count);
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

// Counts the pieces that run at the same time.
class Company {
 public:
  void Come() {
    const size_t now = ++now_;
    size_t most = most_;
    while (now > most && !most_.compare_exchange_weak(most, now)) {
    }
  }
  void Go() { --now_; }
  size_t now() const { return now_; }
  size_t most() const { return most_; }

 private:
  std::atomic<size_t> now_ = 0, most_ = 0;
};

TEST(InOrderTest, GivesAllInOrderWhateverTheyTake) {
  for (const size_t most : {1, 2, 16, 64}) {
    std::vector<std::atomic<int>> runs(40);
    Company company;
    Numbers given;
    RunInOrder(
        40, most,
        [&](size_t i, bool is_alone) {
          company.Come();
          EXPECT_EQ(is_alone, most == 1);
          std::this_thread::sleep_for(std::chrono::microseconds((i * 37) % 5 * 300));
          ++runs[i];
          company.Go();
          return true;
        },
        [&](size_t i) {
          EXPECT_EQ(runs[i], 1);
          given.push_back(i);
          return true;
        });
    EXPECT_EQ(given, UpTo(40));
    EXPECT_LE(company.most(), most);
  }
  RunInOrder(
      0, 4, [](size_t, bool) { return true; }, [](size_t) { return true; });
}

// Five begin together and three fit: the others are done later, and none is lost.
TEST(InOrderTest, WhatDoesNotFitBesideOthersIsDoneLater) {
  for (const size_t room : {1, 3}) {
    Company company;
    std::mutex mutex;
    size_t free = room, refused = 0;
    Numbers given;
    RunInOrder(
        30, 5,
        [&](size_t, bool is_alone) {
          {
            const std::lock_guard lock(mutex);
            if (free == 0) {
              EXPECT_FALSE(is_alone);
              ++refused;
              return false;
            }
            --free;
          }
          company.Come();
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          company.Go();
          const std::lock_guard lock(mutex);
          ++free;
          return true;
        },
        [&](size_t i) {
          given.push_back(i);
          return true;
        });
    EXPECT_EQ(given, UpTo(30));
    EXPECT_EQ(company.most(), room);
    EXPECT_GE(refused, 1u);
    EXPECT_LE(refused, 5u);  // the limit falls with each
  }
}

TEST(InOrderTest, TheLastTryIsWithoutCompany) {
  Company company;
  std::atomic<int> alone = 0;
  Numbers given;
  RunInOrder(
      6, 3,
      [&](size_t i, bool is_alone) {
        company.Come();
        EXPECT_TRUE(!is_alone || company.now() == 1) << i;
        alone += is_alone;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        company.Go();
        return false;  // nothing ever fits
      },
      [&](size_t i) {
        given.push_back(i);
        return true;
      });
  EXPECT_EQ(given, UpTo(6));
  EXPECT_EQ(alone, 6);
}

TEST(InOrderTest, GiveEndsTheWork) {
  std::atomic<size_t> begun = 0;
  Numbers given;
  RunInOrder(
      1000, 4,
      [&](size_t, bool) {
        ++begun;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        return true;
      },
      [&](size_t i) {
        given.push_back(i);
        return i < 2;
      });
  EXPECT_EQ(given, UpTo(3));
  EXPECT_LT(begun, 1000u);
}

TEST(InOrderTest, AnExceptionEndsTheWorkAndIsRethrown) {
  const auto go_on = [](size_t) { return true; };
  EXPECT_THROW(RunInOrder(
                   100, 4,
                   [&](size_t i, bool) {
                     if (i == 7) throw std::runtime_error("no");
                     return true;
                   },
                   go_on),
               std::runtime_error);
  EXPECT_THROW(RunInOrder(
                   100, 4, [](size_t, bool) { return true; },
                   [](size_t i) -> bool {
                     if (i == 3) throw std::logic_error("no");
                     return true;
                   }),
               std::logic_error);
}

}  // namespace
}  // namespace lectern::tools
