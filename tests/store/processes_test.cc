// Two indexers, eight readers, a remover and a collector work on one store and are killed at
// random: a reader sees every document that was acknowledged, whole, and never a half one.
//
// LECTERN_KILLS: how many at least (60). LECTERN_SEED: of who and when (1).
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

#include "tests/store/worker_processes.h"

namespace lectern {
namespace {

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

TEST(ProcessesTest, KilledAtRandomTheyLoseNothing) {
  const auto start = std::chrono::steady_clock::now();
  const uint64_t num_kills = FromEnvironment("LECTERN_KILLS", 60);
  const uint64_t seed = FromEnvironment("LECTERN_SEED", 1);
  const TempDirectory dir(MemoryDirectory());
  const std::string store = dir / "store";
  WorkerProcesses processes(store);
  Shared* const shared = &processes.shared();
  ASSERT_TRUE(AddSampleDocument(Env::Default(), store, SampleId(99), "first", "x").ok());

  std::mt19937_64 random(seed);
  for (size_t i = 0; i < std::size(kWork); ++i) ASSERT_TRUE(processes.Start(i, random()));
  const auto everyone_worked = [&] {  // on a busy machine some wait for the lock for long
    return shared->num_indexed > 0 && shared->num_read > 0 && shared->num_removed > 0 &&
           shared->num_collected > 0;
  };
  uint64_t num_killed = 0;
  for (; num_killed < num_kills || !everyone_worked(); ++num_killed) {
    if (shared->num_violations > 0 || num_killed == 100 * num_kills) break;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    const size_t i =
        random() % 3 != 0 ? random() % 4 : random() % std::size(kWork);  // writers more
    ASSERT_TRUE(processes.Kill(i));
    ASSERT_TRUE(processes.Start(i, random()));
  }
  for (size_t i = 0; i < std::size(kWork); ++i) processes.Kill(i);

  EXPECT_EQ(shared->num_violations, 0) << shared->first;
  const auto whole = ReadSampleStore(Env::Default(), store);
  EXPECT_TRUE(whole.ok()) << whole.status().message();
  EXPECT_TRUE(shared->num_violations > 0 || everyone_worked());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf(
      "trust: 2 indexers, 8 readers, remover, collector: %llu kills, %llu indexed, %llu read, %llu "
      "removed, %d violations; seed %llu, %.1f s\n",
      static_cast<unsigned long long>(num_killed),
      static_cast<unsigned long long>(shared->num_indexed.load()),
      static_cast<unsigned long long>(shared->num_read.load()),
      static_cast<unsigned long long>(shared->num_removed.load()), shared->num_violations.load(),
      static_cast<unsigned long long>(seed), seconds.count());
}

}  // namespace
}  // namespace lectern
