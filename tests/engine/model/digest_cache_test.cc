// A model is hashed once: again when its files changed, or when what was kept cannot be believed.
#include "engine/model/digest_cache.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "engine/model/model.h"
#include "store/store.h"
#include "tests/engine/test_documents.h"
#include "tests/store/env_for_tests.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

namespace fs = std::filesystem;
using testing::ReadWholeFile;
using testing::TempFolder;
using testing::TinyModel;
using testing::WriteWholeFile;

class DigestCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::copy(TinyModel(), model_, fs::copy_options::recursive);
    fs::permissions(weights_, fs::perms::owner_read | fs::perms::owner_write);
    ASSERT_TRUE(LockStore(Env::Default(), store_).ok());
    first_ = Load();
    ASSERT_GT(first_->hashed_bytes(), 0u);
  }
  std::shared_ptr<const Model> Load(const ModelOptions& options) {
    auto model = Model::Load(env_, model_, options);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return std::move(model).value();
  }
  std::shared_ptr<const Model> Load() { return Load({.store = store_}); }
  // The fingerprint is right in any case.
  bool IsHashedAgain() {
    const auto model = Load();
    EXPECT_EQ(model->fingerprint(), Load({})->fingerprint());
    return model->hashed_bytes() > 0;
  }
  std::string CacheFile() const {
    return fs::directory_iterator(store_ + "/digests")->path().string();
  }

  LaterEnv env_;
  const TempFolder folder_;
  const std::string model_ = folder_.path() + "/model", store_ = folder_.path() + "/store";
  const std::string weights_ = model_ + "/model.safetensors";
  std::shared_ptr<const Model> first_;
};

TEST_F(DigestCacheTest, ASecondOpenHashesNothing) {
  EXPECT_EQ(Load()->hashed_bytes(), 0u);
  EXPECT_EQ(Load()->fingerprint(), first_->fingerprint());
  EXPECT_EQ(Load({.io = Io::kPread, .store = store_})->hashed_bytes(), 0u);
  EXPECT_GT(Load({.store = store_, .rehash = true})->hashed_bytes(), 0u);
  EXPECT_GT(Load({})->hashed_bytes(), 0u);
  EXPECT_TRUE(IsPrivate(CacheFile()));
  EXPECT_EQ(fs::file_size(CacheFile()), 76u);
  EXPECT_TRUE(fs::is_empty(store_ + "/tmp"));
}

TEST_F(DigestCacheTest, AFileThatWasTouchedIsHashedAgain) {
  fs::last_write_time(weights_, fs::last_write_time(weights_) - std::chrono::hours(5));
  EXPECT_TRUE(IsHashedAgain());
  EXPECT_FALSE(IsHashedAgain());
}

// The same size, its old time put back: what the system writes beside cannot be.
TEST_F(DigestCacheTest, OtherWeightsUnderTheOldTimeAreFound) {
  const auto time = fs::last_write_time(weights_);
  std::string bytes = ReadWholeFile(weights_);
  bytes[bytes.size() - 3] ^= 1;
  WriteWholeFile(weights_, bytes);
  fs::last_write_time(weights_, time);
  EXPECT_TRUE(IsHashedAgain());
  EXPECT_NE(Load()->fingerprint(), first_->fingerprint());
}

TEST_F(DigestCacheTest, AnotherFileInItsPlaceIsHashedAgain) {
  fs::copy_file(weights_, weights_ + ".new");
  fs::last_write_time(weights_ + ".new", fs::last_write_time(weights_));
  std::error_code error;
  fs::rename(weights_ + ".new", weights_, error);
  if (error && kIsWindows) GTEST_SKIP() << "the model keeps its file open: " << error.message();
  ASSERT_FALSE(error) << error.message();
  EXPECT_TRUE(IsHashedAgain());
}

TEST_F(DigestCacheTest, AnotherConfigIsAnotherModel) {
  std::string config = ReadWholeFile(model_ + "/config.json");
  config.replace(config.find("100000"), 6, "200000");
  fs::permissions(model_ + "/config.json", fs::perms::owner_all);
  WriteWholeFile(model_ + "/config.json", config);
  EXPECT_TRUE(IsHashedAgain());
  EXPECT_NE(Load()->fingerprint(), first_->fingerprint());
}

TEST_F(DigestCacheTest, ADamagedFileCostsHashing) {
  const std::string path = CacheFile(), good = ReadWholeFile(path);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] ^= 0x10;
    WriteWholeFile(path, bad);
    EXPECT_TRUE(IsHashedAgain()) << i;
    EXPECT_EQ(ReadWholeFile(path), good) << i;
  }
  for (const std::string& bad : {std::string(), good.substr(0, 75), good + "x"}) {
    WriteWholeFile(path, bad);
    EXPECT_TRUE(IsHashedAgain());
  }
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_TRUE(IsHashedAgain());
}

// A second change within the same tick of the clock would not show.
TEST_F(DigestCacheTest, WeightsOfTheLastSecondsAreNotKept) {
  env_.age_ns = 0;
  WriteWholeFile(weights_, ReadWholeFile(weights_));
  EXPECT_TRUE(IsHashedAgain());
  EXPECT_TRUE(IsHashedAgain());
  env_.age_ns = int64_t{10} * 1'000'000'000;
  EXPECT_TRUE(IsHashedAgain());
  EXPECT_FALSE(IsHashedAgain());
}

TEST_F(DigestCacheTest, NothingIsWrittenWhereThereIsNoStoreOrItIsSealed) {
  const std::string other = folder_.path() + "/other";
  EXPECT_GT(Load({.store = other})->hashed_bytes(), 0u);
  EXPECT_FALSE(fs::exists(other));
  ASSERT_TRUE(LockStore(Env::Default(), other).ok());
  WriteWholeFile(other + "/SEALED", "");
  EXPECT_GT(Load({.store = other})->hashed_bytes(), 0u);
  EXPECT_FALSE(fs::exists(other + "/digests"));
}

}  // namespace
}  // namespace lectern
