// Tests that an interrupted prefill goes on from its files where these verify, and that after any
// failing call a second attempt ends with the same rows and sums.
#include "engine/document/kv_spill.h"

#include <gtest/gtest.h>

#include "store/crc32c.h"
#include "tests/store/counted_env.h"
#include "tests/store/simulated_disk.h"

namespace lectern {
namespace {

const std::string kTemporary = std::string(kSimulatedRoot) + "/tmp";
const std::string kGeneration = std::string(kSimulatedRoot) + "/generation";
constexpr uint64_t kTokens = kChunkTokens + 88;

SpillShape Shape() {
  SpillShape shape;
  shape.document[0] = 1;
  shape.generation = 7;
  shape.num_tokens = kTokens;
  shape.num_layers = 2;
  shape.num_kv_heads = 1;
  shape.head_dim = 2;
  shape.query_cols = 2;
  shape.num_calibration = 3;
  shape.squared_sums = true;
  return shape;
}

// Keeps the upper half of every float.
Backend TruncatingBackend() {
  Backend backend{};
  backend.from_float_rows = [](Rows<const float> rows, Dtype, std::byte* out) {
    for (size_t i = 0; i < rows.num_rows; ++i) {
      for (size_t j = 0; j < rows.num_cols; ++j, out += 2) {
        std::memcpy(out, reinterpret_cast<const std::byte*>(rows[i] + j) + 2, 2);
      }
    }
  };
  return backend;
}

// Goes on up to `end` tokens, and makes that durable.
Status GoOn(KvSpill& spill, uint64_t end) {
  const uint64_t begin = spill.tokens_done(), count = end - begin;
  std::vector<float> numbers(2 * count);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(2 * begin + i);
  const Rows<const float> rows = {numbers.data(), count, 2, 2};
  for (uint32_t layer = 0; layer < 2; ++layer) {
    LECTERN_RETURN_IF_ERROR(spill.Append(TruncatingBackend(), layer, begin, rows, rows));
    spill.KeepQueries(layer, begin, rows);
    spill.AddCosine(layer, static_cast<double>(end));
    spill.SquaredSums(layer, 0)[begin] = 1;
  }
  spill.Advance(end);
  if (end == kTokens) spill.DecideKeptRows({5, 6});
  return spill.Checkpoint();
}

Result<std::unique_ptr<KvSpill>> OpenSpill(Env& env) {
  return KvSpill::Open(env, kGeneration, kTemporary, Shape());
}

// Everything that a checkpoint keeps.
std::string Seen(const KvSpill& spill) {
  std::string seen = std::to_string(spill.tokens_done());
  for (uint32_t layer = 0; layer < 2; ++layer) {
    const TypedRows keys = spill.Keys(layer, 0, kTokens), values = spill.Values(layer, 0, kTokens);
    const auto sums = spill.SquaredSums(layer, 0);
    seen += " " + std::to_string(Crc32c(0, keys.data, kTokens * keys.row_bytes())) + " " +
            std::to_string(Crc32c(0, values.data, kTokens * values.row_bytes())) + " " +
            std::to_string(Crc32c(0, sums.data(), sums.size_bytes())) + " " +
            std::to_string(Crc32c(0, spill.Queries(layer).data, 3 * 2 * sizeof(float)));
  }
  for (const double cosine : spill.MeanCosines()) seen += " " + std::to_string(cosine);
  for (const double sum : spill.CosineSums()) seen += " " + std::to_string(sum);
  for (const uint64_t rows : spill.kept_rows()) seen += " " + std::to_string(rows);
  return seen;
}

// As an indexing run does it that stops after its first checkpoint and is started again.
Result<std::string> Prefill(Env& env) {
  {
    LECTERN_ASSIGN(const auto spill, OpenSpill(env));
    if (spill->tokens_done() == 0) LECTERN_RETURN_IF_ERROR(GoOn(*spill, kChunkTokens));
  }
  LECTERN_ASSIGN(const auto spill, OpenSpill(env));
  if (spill->tokens_done() < kTokens) LECTERN_RETURN_IF_ERROR(GoOn(*spill, kTokens));
  return Seen(*spill);
}

Status Finish(Env& env) {
  LECTERN_ASSIGN(const auto spill, OpenSpill(env));
  for (uint32_t layer = 0; layer < 2; ++layer) {
    LECTERN_RETURN_IF_ERROR(spill->RemoveLayer(layer));
    LECTERN_RETURN_IF_ERROR(spill->RemoveLayer(layer));  // is gone
  }
  LECTERN_RETURN_IF_ERROR(spill->Checkpoint());
  return spill->RemoveCheckpoint();
}

SimulatedDisk EmptyDisk() {
  SimulatedDisk disk;
  EXPECT_TRUE(disk.MakeDirectory(kTemporary).ok());
  return disk;
}

std::string& Bytes(SimulatedDisk& disk, const std::string& name) {
  return disk.node(disk.image().Find(kGeneration + name)).Writable();
}

// As a device rounds them: head after head, chunk after chunk.
TEST(KvSpillTest, RoundedRowsAreThoseThatAppendRounds) {
  SpillShape shape = Shape();
  shape.num_kv_heads = 2;
  shape.num_layers = 1;
  const auto run = [&](SimulatedDisk& disk, bool are_rounded) {
    auto spill = *KvSpill::Open(disk, kGeneration, kTemporary, shape);
    for (const uint64_t end : {uint64_t{kChunkTokens}, kTokens}) {
      const uint64_t begin = spill->tokens_done(), count = end - begin;
      std::vector<float> keys(4 * count), values(4 * count);  // [tokens][heads * head_dim]
      for (size_t i = 0; i < keys.size(); ++i) keys[i] = static_cast<float>(4 * begin + i);
      for (size_t i = 0; i < keys.size(); ++i) values[i] = -keys[i] - 1;
      const Backend backend = TruncatingBackend();
      if (!are_rounded) {
        EXPECT_TRUE(
            spill->Append(backend, 0, begin, {keys.data(), count, 4}, {values.data(), count, 4})
                .ok());
      } else {
        std::vector<std::byte> rounded[2];
        for (const bool is_values : {false, true}) {
          const std::vector<float>& all = is_values ? values : keys;
          rounded[is_values].resize(2 * all.size());
          for (size_t head = 0; head < 2; ++head) {
            backend.from_float_rows({all.data() + 2 * head, count, 2, 4}, shape.dtype,
                                    rounded[is_values].data() + head * count * 4);
          }
        }
        const auto rows = [&](const std::vector<std::byte>& bytes) {
          return TypedRows{bytes.data(), shape.dtype, 2 * count, 2};
        };
        EXPECT_TRUE(spill->AppendRounded(0, begin, rows(rounded[0]), rows(rounded[1])).ok());
      }
      spill->Advance(end);
      EXPECT_TRUE(spill->Checkpoint().ok());
    }
    return std::pair(Bytes(disk, "/spill-000"), Bytes(disk, "/checkpoint"));
  };
  SimulatedDisk disk = EmptyDisk(), of_rounded = EmptyDisk();
  EXPECT_EQ(run(disk, false), run(of_rounded, true));
  EXPECT_EQ((*KvSpill::Open(of_rounded, kGeneration, kTemporary, shape))->tokens_done(), kTokens);
}

TEST(KvSpillTest, AnyCallMayFailAndBeRepeated) {
  SimulatedDisk whole = EmptyDisk();
  const std::string seen = *Prefill(whole);
  for (int64_t fail_at = 0;; ++fail_at) {
    SimulatedDisk disk = EmptyDisk();
    int64_t call = 0;
    CountedEnv env(
        disk, [&] { return call++ == fail_at ? Status(Code::kIoError, "injected") : Status(); });
    const auto failed = Prefill(env);
    if (failed.ok()) {
      EXPECT_GT(fail_at, 40);
      EXPECT_EQ(call, fail_at) << "a call failed and nobody said so";
      break;
    }
    EXPECT_EQ(failed.status().code(), Code::kIoError) << fail_at;
    const auto again = Prefill(disk);
    ASSERT_TRUE(again.ok()) << fail_at << " " << again.status().message();
    EXPECT_EQ(*again, seen) << fail_at;
  }
}

TEST(KvSpillTest, AnyCallOfTheLastStepMayFail) {
  SimulatedDisk whole = EmptyDisk();
  ASSERT_TRUE(Prefill(whole).ok());
  const DiskImage before = whole.image();
  int num_failed = 0;
  for (int64_t fail_at = 0; fail_at < 30; ++fail_at) {
    SimulatedDisk disk(before);
    int64_t call = 0;
    CountedEnv env(
        disk, [&] { return call++ == fail_at ? Status(Code::kIoError, "injected") : Status(); });
    const Status status = Finish(env);
    EXPECT_TRUE(status.ok() || status.code() == Code::kIoError) << fail_at;
    num_failed += !status.ok();
    const auto left = disk.List(kGeneration);
    EXPECT_TRUE(!status.ok() || left->empty()) << fail_at;
    EXPECT_TRUE(OpenSpill(disk).ok()) << fail_at;
  }
  EXPECT_GT(num_failed, 10);
}

TEST(KvSpillTest, WhatDoesNotVerifyIsBegunAnew) {
  SimulatedDisk whole = EmptyDisk();
  ASSERT_TRUE(Prefill(whole).ok());
  const auto tokens_after = [&](const std::function<void(SimulatedDisk&)>& change) {
    SimulatedDisk disk(whole.image());
    change(disk);
    return (*OpenSpill(disk))->tokens_done();
  };
  // With a checksum that fits.
  const auto with = [&](size_t at, uint64_t value) {
    return tokens_after([&](SimulatedDisk& disk) {
      std::string& bytes = Bytes(disk, "/checkpoint");
      std::memcpy(bytes.data() + at, &value, sizeof value);
      const uint32_t crc = Crc32c(0, bytes.data(), bytes.size() - 4);
      std::memcpy(bytes.data() + bytes.size() - 4, &crc, 4);
    });
  };
  EXPECT_EQ(tokens_after([](SimulatedDisk&) {}), kTokens);
  EXPECT_EQ(with(40, kTokens), kTokens);  // tokens done
  EXPECT_EQ(with(40, kTokens + 1), 0u);   // more than there are
  EXPECT_EQ(with(24, 8), 0u);             // another generation
  for (const char* name : {"/spill-000", "/spill-001", "/checkpoint"}) {
    for (const size_t at : {size_t{3}, Bytes(whole, name).size() - 3}) {
      EXPECT_EQ(tokens_after([&](SimulatedDisk& d) { Bytes(d, name)[at] ^= 1; }), 0u) << name << at;
    }
    EXPECT_EQ(tokens_after([&](SimulatedDisk& d) { Bytes(d, name).pop_back(); }), 0u) << name;
  }
  // A layer that is gone has been stored, or was lost before all tokens were done.
  const auto lose = [](SimulatedDisk& d) {
    EXPECT_TRUE(d.Remove(kGeneration + "/spill-001").ok());
  };
  EXPECT_EQ(tokens_after(lose), kTokens);
  SimulatedDisk half = EmptyDisk();
  ASSERT_TRUE(GoOn(**OpenSpill(half), kChunkTokens).ok());
  lose(half);
  EXPECT_EQ((*OpenSpill(half))->tokens_done(), 0u);
}

TEST(KvSpillTest, SumsAreTakenOver) {
  SimulatedDisk disk = EmptyDisk();
  const auto spill = *OpenSpill(disk);
  EXPECT_EQ(spill->MeanCosines(), (std::vector<double>{0, 0}));
  spill->TakeSums({});
  EXPECT_EQ(spill->MeanCosines(), (std::vector<double>{0, 0}));
  const std::vector<double> sums = {256, 8};
  spill->TakeSums(sums);
  EXPECT_EQ(spill->MeanCosines(), (std::vector<double>{0.5, 0.25}));  // 512 and 32 tokens
  spill->BeginChunk();
  spill->AddCosine(0, 100);
  spill->AbandonChunk();
  spill->Advance(kChunkTokens);
  EXPECT_EQ(std::vector<double>(spill->CosineSums().begin(), spill->CosineSums().end()), sums);
  spill->Advance(0);
  EXPECT_TRUE(spill->CosineSums().empty());
}

}  // namespace
}  // namespace lectern
