// A group of ranks that are threads of this process, for tests without MPI.
#ifndef LECTERN_TESTS_ENGINE_RANKS_THREAD_RANKS_H_
#define LECTERN_TESTS_ENGINE_RANKS_THREAD_RANKS_H_

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "engine/ranks/communicator.h"
#include "index/lookup_share.h"
#include "tests/thread_barrier.h"

namespace lectern::testing {

// The common place of a group's ranks: each one's message, and where they wait for each other.
class ThreadGroup {
 public:
  explicit ThreadGroup(uint32_t size) : barrier(size), bytes(size), doubles(size), floats(size) {}
  ThreadBarrier barrier;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<std::vector<double>> doubles;
  std::vector<std::vector<float>> floats;
};

class ThreadRank final : public Communicator {
 public:
  ThreadRank(std::shared_ptr<ThreadGroup> group, uint32_t rank)
      : group_(std::move(group)), rank_(rank) {}

  uint32_t rank() const override { return rank_; }
  uint32_t size() const override { return static_cast<uint32_t>(group_->bytes.size()); }

  Status Broadcast(std::vector<std::byte>& message) override {
    if (rank_ == 0) group_->bytes[0] = message;
    Meet(message.size());
    message = group_->bytes[0];
    group_->barrier.ArriveAndWait();
    return {};
  }
  Status Sum(std::span<double> numbers) override {
    group_->doubles[rank_].assign(numbers.begin(), numbers.end());
    Meet(numbers.size_bytes());
    std::fill(numbers.begin(), numbers.end(), 0.0);
    for (const std::vector<double>& part : group_->doubles) {
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] += part[i];
    }
    group_->barrier.ArriveAndWait();
    return {};
  }
  Status AddLogs(std::span<float> numbers) override {
    group_->floats[rank_].assign(numbers.begin(), numbers.end());
    Meet(numbers.size_bytes());
    std::fill(numbers.begin(), numbers.end(), -INFINITY);
    for (const std::vector<float>& part : group_->floats) {
      for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = LogAddExp(numbers[i], part[i]);
    }
    group_->barrier.ArriveAndWait();
    return {};
  }
  Status JoinAtFirst(std::span<float> rows, size_t row_floats) override {
    group_->floats[rank_].assign(rows.begin(), rows.end());
    Meet(rows.size_bytes());
    for (uint32_t other = 1; rank_ == 0 && other < size(); ++other) {
      JoinPartialRows(group_->floats[other], rows, row_floats);
    }
    group_->barrier.ArriveAndWait();
    return {};
  }
  Status Gather(uint32_t at, std::span<const std::byte> own, std::vector<std::byte>& all,
                std::vector<size_t>& sizes) override {
    group_->bytes[rank_].assign(own.begin(), own.end());
    Meet(own.size());
    all.clear();
    sizes.clear();
    for (const std::vector<std::byte>& part : group_->bytes) {
      if (at != kAll && rank_ != at) break;
      sizes.push_back(part.size());
      all.insert(all.end(), part.begin(), part.end());
    }
    group_->barrier.ArriveAndWait();
    return {};
  }
  Status PassOn(std::vector<std::byte>& bytes) override {
    group_->bytes[rank_] = bytes;
    Meet(bytes.size());
    bytes = group_->bytes[(rank_ + size() - 1) % size()];
    group_->barrier.ArriveAndWait();
    return {};
  }
  void Abort() override { std::abort(); }
  Traffic traffic() const override { return traffic_; }

 private:
  void Meet(uint64_t bytes) {
    traffic_.bytes += bytes;
    ++traffic_.calls;
    group_->barrier.ArriveAndWait();
  }
  const std::shared_ptr<ThreadGroup> group_;
  const uint32_t rank_;
  Traffic traffic_;
};

}  // namespace lectern::testing

#endif  // LECTERN_TESTS_ENGINE_RANKS_THREAD_RANKS_H_
