// Quantised weights are made once, found again, and made anew where what was kept cannot be
// believed: the same bits each time.
#include "engine/model/weights/packed_weights.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <thread>

#include "engine/model/model.h"
#include "store/crc32c.h"
#include "store/store.h"
#include "tests/engine/test_documents.h"
#include "tests/store/env_for_tests.h"
#include "tests/store/simulated_disk.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

std::shared_ptr<const Model> Load(Env& env, const ModelOptions& options) {
  auto model = Model::Load(env, TinyModel(), options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return std::move(model).value();
}

uint64_t Quantised(const Model& model) { return model.weights().packed()->quantised(); }

// A checksum of all packed bytes.
uint32_t Digest(const Model& model) {
  const Weights& weights = model.weights();
  uint32_t crc = 0;
  const auto add = [&](const WeightMatrix& matrix) {
    ASSERT_TRUE(matrix.is_packed());
    crc = Crc32c(crc, matrix.packed.data, matrix.packed.bytes());
  };
  add(weights.embedding());
  add(weights.output());
  for (size_t i = 0; i < model.config().num_layers; ++i) {
    const LayerWeights& layer = weights.layer(i);
    for (const auto* m : {&layer.q, &layer.k, &layer.v, &layer.o}) add(*m);
    for (const auto* m : {&layer.gate, &layer.up, &layer.down}) add(*m);
  }
  return crc;
}

class PackedWeightsTest : public ::testing::TestWithParam<WeightsType> {
 protected:
  void SetUp() override { ASSERT_TRUE(LockStore(Env::Default(), store_).ok()); }
  std::shared_ptr<const Model> LoadIn(const std::string& store, Io io = Io::kMmap) {
    return Load(Env::Default(), {.io = io, .store = store, .weights = GetParam()});
  }
  std::string File() const {
    return PackedWeightsPath(store_, Load(Env::Default(), {.weights = GetParam()})->fingerprint());
  }

  const TempFolder folder_;
  const std::string store_ = folder_.path() + "/store";
};

TEST_P(PackedWeightsTest, AreMadeOnceAndFoundAgain) {
  const auto in_memory = LoadIn("");
  EXPECT_GT(Quantised(*in_memory), 0u);
  const auto first = LoadIn(store_, Io::kPread);
  EXPECT_GT(Quantised(*first), 0u);
  EXPECT_EQ(in_memory->weights().packed()->file(), nullptr);
  EXPECT_NE(first->weights().packed()->file(), nullptr);  // and was not packed once more
  EXPECT_EQ(first->fingerprint(), in_memory->fingerprint());
  for (const Io io : {Io::kMmap, Io::kPread}) {
    const auto again = LoadIn(store_, io);
    EXPECT_EQ(Quantised(*again), 0u);
    EXPECT_EQ(Digest(*again), Digest(*in_memory));
  }
  EXPECT_TRUE(IsPrivate(File()));
  EXPECT_LE(fs::file_size(File()),
            *Weights::BytesInUse(*OpenSafetensors(Env::Default(), TinyModel(), Io::kMmap),
                                 first->config(), GetParam()) +
                16 * (40 + 64));
  EXPECT_TRUE(fs::is_empty(store_ + "/tmp"));
}

TEST_P(PackedWeightsTest, AreTheSameByAnyNumberOfThreads) {
  ThreadPool threads(3);
  EXPECT_EQ(Digest(*Load(Env::Default(), {.weights = GetParam(), .threads = &threads})),
            Digest(*LoadIn("")));
}

// The bundled reader's weights are larger than a large page; the same numbers lie in them while
// they are copied, and afterwards.
void CheckThatACopyIsMade(const std::function<std::shared_ptr<const Model>()>& load,
                          const std::function<uint32_t(const Model&)>& digest) {
  const auto model = load();
  const Weights& weights = model->weights();
  const uint32_t before = digest(*model);
  for (uint32_t i = 1; i < LargePageCopy::kPassesBeforeCopy; ++i) weights.copy().CountPass();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(weights.copy().is_made());
  weights.copy().CountPass();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (HasLargePages() && !weights.copy().is_made() &&
         std::chrono::steady_clock::now() < deadline) {
    EXPECT_EQ(digest(*model), before);
  }
  EXPECT_EQ(weights.copy().is_made(), HasLargePages());
  EXPECT_EQ(digest(*model), before);
  weights.copy().CountPass();
  // One that goes while its copy is being made.
  const auto other = load();
  for (uint32_t i = 0; i < LargePageCopy::kPassesBeforeCopy; ++i)
    other->weights().copy().CountPass();
}

TEST_P(PackedWeightsTest, AreCopiedWhenTheyAreUsedForLong) {
  CheckThatACopyIsMade(
      [&] {
        auto model = Model::Load(Env::Default(), testing::SourcePath("tools/reader/model"),
                                 {.store = store_, .weights = GetParam()});
        EXPECT_TRUE(model.ok()) << model.status().message();
        return *model;
      },
      Digest);
}

TEST(StoredWeightsTest, AreCopiedWhenTheyAreUsedForLong) {
  CheckThatACopyIsMade(
      [] {
        auto model = Model::Load(Env::Default(), testing::SourcePath("tools/reader/model"), {});
        EXPECT_TRUE(model.ok()) << model.status().message();
        return *model;
      },
      [](const Model& model) {
        const auto& rows = model.weights().layer(0).down.rows;
        return Crc32c(0, rows.data, rows.num_rows * rows.row_bytes());
      });
}

TEST_P(PackedWeightsTest, ADamagedFileIsMadeAnew) {
  const uint32_t digest = Digest(*LoadIn(store_));
  const std::string path = File(), good = ReadWholeFile(path);
  std::vector<std::string> bad = {"", good.substr(0, good.size() - 1), good + "x"};
  // Every field of header and entries, and a few bytes of the matrices.
  constexpr size_t kHead = 48 + 15 * 40, kFirstMatrix = 704;
  for (size_t i = 0; i < good.size(); i += i < kHead ? 4 : good.size() / 7) {
    if (i == kHead) i = kFirstMatrix;
    bad.push_back(good);
    bad.back()[i] ^= 0x10;
  }
  for (size_t i = 0; i < bad.size(); ++i) {
    WriteWholeFile(path, bad[i]);
    const auto model = LoadIn(store_, i % 2 == 0 ? Io::kMmap : Io::kPread);
    EXPECT_GT(Quantised(*model), 0u) << i;
    EXPECT_EQ(Digest(*model), digest) << i;
    EXPECT_TRUE(ReadWholeFile(path) == good) << i;
  }
}

// A head that was made to be in a reader's way: a matrix that lies behind the file's end, over
// another one, over the head, or where numbers wrap; more matrices than the file has room for.
TEST_P(PackedWeightsTest, AHeadThatCannotBeIsNotBelieved) {
  LoadIn(store_);
  const std::string path = File(), good = ReadWholeFile(path);
  const auto open = [&](Io io) { return PackedFile::Open(Env::Default(), path, io, nullptr); };
  const auto with = [&](size_t at, uint64_t number) {
    std::string bytes = good;
    std::memcpy(bytes.data() + at, &number, sizeof number);
    return bytes;
  };
  ASSERT_NE(open(Io::kMmap), nullptr);
  constexpr size_t kCount = 40, kFirst = 48, kSecond = kFirst + 40, kBytes = 8;  // of the head
  uint64_t first;
  std::memcpy(&first, good.data() + kFirst, sizeof first);
  const std::string bad[] = {with(kCount, ~uint64_t{0}), with(kCount, good.size() / 40),
                             with(kFirst, 64),           with(kFirst, good.size() + 64),
                             with(kSecond, first),       with(kFirst + kBytes, ~uint64_t{0}),
                             good.substr(0, 47),         good.substr(0, 100)};
  for (size_t i = 0; i < std::size(bad); ++i) {
    WriteWholeFile(path, bad[i]);
    EXPECT_EQ(open(Io::kMmap), nullptr) << i;
    EXPECT_EQ(open(Io::kPread), nullptr) << i;
  }
}

TEST_P(PackedWeightsTest, ACheckFindsEachChangedByteWhereverItBegan) {
  LoadIn(store_);
  const std::string path = File(), good = ReadWholeFile(path);
  ThreadPool threads(2);
  for (const bool is_whole : {true, false}) {
    std::string bytes = good;
    if (!is_whole) bytes.back() ^= 1;
    WriteWholeFile(path, bytes);
    for (const Io io : {Io::kMmap, Io::kPread}) {
      for (ThreadPool* pool : {static_cast<ThreadPool*>(nullptr), &threads}) {
        for (const bool begin : {false, true}) {
          const auto file = PackedFile::Open(Env::Default(), path, io, nullptr);
          ASSERT_NE(file, nullptr);
          if (begin) file->Begin();
          EXPECT_EQ(file->Finish(pool), is_whole);
        }
        // One that goes while it is being checked.
        PackedFile::Open(Env::Default(), path, io, nullptr)->Begin();
      }
    }
  }
}

// The store remembers the weights that lay at a path before: a wrong guess changes nothing.
TEST_P(PackedWeightsTest, OtherWeightsAtTheSamePathGetTheirOwnFile) {
  LaterEnv env;
  const std::string model = folder_.path() + "/model", weights = model + "/model.safetensors";
  fs::copy(TinyModel(), model, fs::copy_options::recursive);
  fs::permissions(weights, fs::perms::owner_all);
  const auto load = [&](const std::string& store) {
    auto loaded = Model::Load(env, model, {.store = store, .weights = GetParam()});
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return *loaded;
  };
  EXPECT_GT(Quantised(*load(store_)), 0u);
  EXPECT_EQ(Quantised(*load(store_)), 0u);
  std::string bytes = ReadWholeFile(weights);
  bytes[bytes.size() - 128 - 4] ^= 1;  // of the last matrix
  WriteWholeFile(weights, bytes);
  const auto other = load(store_);
  EXPECT_GT(Quantised(*other), 0u);
  EXPECT_EQ(Digest(*other), Digest(*load("")));
  EXPECT_EQ(Quantised(*load(store_)), 0u);
}

// No store, a sealed one, one whose place for the file is taken, one that is full.
TEST_P(PackedWeightsTest, StayInMemoryWhereTheStoreDoesNotTakeThem) {
  const uint32_t digest = Digest(*LoadIn(""));
  const std::string other = folder_.path() + "/other";
  EXPECT_EQ(Digest(*LoadIn(other)), digest);
  EXPECT_FALSE(fs::exists(other));
  ASSERT_TRUE(LockStore(Env::Default(), other).ok());
  WriteWholeFile(other + "/SEALED", "");
  EXPECT_EQ(Digest(*LoadIn(other)), digest);
  EXPECT_FALSE(fs::exists(other + "/weights"));

  fs::create_directories(File());
  EXPECT_EQ(Digest(*LoadIn(store_)), digest);
  EXPECT_TRUE(fs::is_empty(store_ + "/tmp"));
  fs::remove(File());

  const ModelOptions small = {.store = store_, .weights = GetParam(), .quota_bytes = 20'000};
  EXPECT_EQ(Digest(*Load(Env::Default(), small)), digest);
  EXPECT_TRUE(fs::is_empty(store_ + "/weights"));
}

// At a call of the Env that comes before or while something is read.
class CancellingEnv : public ForwardingEnv {
 public:
  explicit CancellingEnv(int at) : countdown_(at) {}
  Result<FileInfo> Info(const std::string& path) override {
    return Count(), ForwardingEnv::Info(path);
  }
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    return Count(), ForwardingEnv::Map(path);
  }
  Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) override {
    return Count(), ForwardingEnv::Mirror(path);
  }
  Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                     bool exclusive) override {
    return Count(), ForwardingEnv::OpenWritable(path, exclusive);
  }
  CancelFlag cancel = false;

 private:
  void Count() { cancel = cancel || countdown_-- == 0; }
  int countdown_;
};

TEST_P(PackedWeightsTest, LoadingCanBeCancelled) {
  const uint32_t digest = Digest(*LoadIn(""));
  for (const Io io : {Io::kMmap, Io::kPread}) {
    std::set<std::string> messages;
    for (int at = 0;; ++at) {
      CancellingEnv env(at);
      const ModelOptions options = {
          .io = io, .store = store_, .weights = GetParam(), .cancel = &env.cancel};
      const auto model = Model::Load(env, TinyModel(), options);
      if (!env.cancel) break;  // all calls had their turn
      EXPECT_TRUE(fs::is_empty(store_ + "/tmp"));
      if (!model.ok()) {
        EXPECT_EQ(model.status().code(), Code::kCancelled) << model.status().message();
        messages.insert(model.status().message());
      }
      EXPECT_EQ(Digest(*LoadIn(store_, io)), digest) << at;
      fs::remove_all(store_ + "/weights");
    }
    EXPECT_EQ(messages.size(), 2u);  // while it was read, and while it was quantised
    fs::remove_all(store_ + "/weights");
  }
}

TEST_P(PackedWeightsTest, AnyCallMayFail) {
  const uint32_t digest = Digest(*LoadIn(""));
  SimulatedDisk disk;
  const std::string store = std::string(kSimulatedRoot) + "/store";
  ASSERT_TRUE(LockStore(disk, store).ok());
  int calls = 0, failing = 0;
  disk.fault = [&](const char*, const std::string&) { return calls++ == failing ? ENOSPC : 0; };
  for (;; ++failing) {
    calls = 0;
    const auto model = Load(disk, {.store = store, .weights = GetParam()});
    EXPECT_EQ(Digest(*model), digest) << failing;
    if (calls <= failing) break;  // none did
    ASSERT_TRUE(disk.RemoveTree(store + "/weights").ok());
  }
  EXPECT_GT(failing, 8);
}

TEST_P(PackedWeightsTest, PowerMayFailAtAnyMoment) {
  const std::string store = std::string(kSimulatedRoot) + "/store";
  SimulatedDisk disk;
  ASSERT_TRUE(LockStore(disk, store).ok());
  ASSERT_TRUE(disk.SyncDirectory(kSimulatedRoot).ok());
  ASSERT_TRUE(disk.SyncDirectory(store).ok());
  const DiskImage before = disk.image();
  disk.Record();
  const uint32_t digest = Digest(*Load(disk, {.store = store, .weights = GetParam()}));
  std::mt19937_64 random(1);
  size_t found = 0;
  CrashStates states(before, disk.log());
  while (!states.AtEnd()) {
    states.Advance();
    for (const auto survivors :
         {CrashStates::Survivors::kNone, CrashStates::Survivors::kAll,
          CrashStates::Survivors::kSubset, CrashStates::Survivors::kNamesOnly}) {
      SimulatedDisk after(states.Make(survivors, random));
      const auto model = Load(after, {.store = store, .weights = GetParam()});
      EXPECT_EQ(Digest(*model), digest) << states.position();
      found += Quantised(*model) == 0;
    }
  }
  EXPECT_GT(found, 0u);
}

INSTANTIATE_TEST_SUITE_P(Types, PackedWeightsTest,
                         ::testing::Values(WeightsType::kQ8, WeightsType::kQ4),
                         [](const auto& p) { return std::string(WeightsName(p.param)); });

TEST(WeightsTypeTest, IsPartOfTheFingerprintAndNamed) {
  Env& env = Env::Default();
  const auto stored = Load(env, {}), q8 = Load(env, {.weights = WeightsType::kQ8}),
             q4 = Load(env, {.weights = WeightsType::kQ4});
  EXPECT_NE(q8->fingerprint(), stored->fingerprint());
  EXPECT_NE(q4->fingerprint(), stored->fingerprint());
  EXPECT_NE(q4->fingerprint(), q8->fingerprint());
  EXPECT_EQ(Load(env, {.io = Io::kPread, .weights = WeightsType::kQ8})->fingerprint(),
            q8->fingerprint());
  // The embedding is the output matrix, too: q8, in planes.
  EXPECT_EQ(q4->weights().embedding().packed.type, PackedType::kQ8Planes);
  EXPECT_EQ(q4->weights().layer(0).down.packed.type, PackedType::kQ4);
  EXPECT_EQ(ParseWeightsName("q4"), WeightsType::kQ4);
  EXPECT_EQ(ParseWeightsName("int8"), std::nullopt);
}

TEST(WeightsTypeTest, WeightsThatWereHashedOnceAreNotHashedForAnotherType) {
  LaterEnv env;
  const TempFolder store;
  ASSERT_TRUE(LockStore(Env::Default(), store.path()).ok());
  EXPECT_GT(Load(env, {.store = store.path()})->hashed_bytes(), 0u);
  const auto q8 = Load(env, {.store = store.path(), .weights = WeightsType::kQ8});
  EXPECT_EQ(q8->hashed_bytes(), 0u);
  EXPECT_EQ(q8->fingerprint(), Load(env, {.weights = WeightsType::kQ8})->fingerprint());
  EXPECT_EQ(Load(env, {.store = store.path()})->hashed_bytes(), 0u);
}

TEST(WeightsTypeTest, WhatCannotBeQuantisedIsRefusedByName) {
  const TempFolder folder;
  const std::string model = folder.path() + "/model", weights = model + "/model.safetensors";
  fs::copy(TinyModel(), model, fs::copy_options::recursive);
  fs::permissions(weights, fs::perms::owner_all);
  std::string bytes = ReadWholeFile(weights);
  bytes.replace(bytes.size() - 128 - 4, 4, "\xff\xff\xff\x7f");  // a NaN, in the last matrix
  WriteWholeFile(weights, bytes);
  ASSERT_TRUE(Model::Load(Env::Default(), model).ok());
  const TempFolder store;
  ASSERT_TRUE(LockStore(Env::Default(), store.path()).ok());
  const Status status =
      Model::Load(Env::Default(), model, {.store = store.path(), .weights = WeightsType::kQ4})
          .status();
  EXPECT_EQ(status.code(), Code::kUnsupportedModel);
  EXPECT_NE(status.message().find("use weights \"stored\""), std::string::npos) << status.message();
  EXPECT_TRUE(fs::is_empty(store.path() + "/tmp"));
  EXPECT_TRUE(fs::is_empty(store.path() + "/weights"));
}

}  // namespace
}  // namespace lectern
