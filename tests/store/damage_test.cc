// Bits that flip, files that are cut, files in each other's place: found, or without effect.
//
// LECTERN_DAMAGE_STRIDE: every how many-th bit and length is tried (251); 1: all.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"
#include "tests/store/simulated_disk.h"

namespace lectern {
namespace {

const std::string kStore = std::string(kSimulatedRoot) + "/store";

uint64_t Stride() {
  const char* const value = std::getenv("LECTERN_DAMAGE_STRIDE");
  return value == nullptr ? (kIsSanitized ? 4001 : 251) : std::strtoull(value, nullptr, 10);
}

// One document of one layer, a second one removed, so that every table and state is in use.
DiskImage SmallestStore() {
  SimulatedDisk disk;
  EXPECT_TRUE(AddSampleDocument(disk, kStore, SampleId(1), "a", "Some text.").ok());
  EXPECT_TRUE(AddSampleDocument(disk, kStore, SampleId(2), "b", "Other text.").ok());
  const auto catalog = Catalog::Open(disk, CatalogPath(kStore), Catalog::Mode::kReadWrite);
  EXPECT_TRUE((*catalog)->MarkDead(SampleId(2)).ok());
  return disk.image();
}

class DamageTest : public ::testing::Test {
 protected:
  void SetUp() override { intact_ = *Read(image_); }

  static Result<std::string> Read(const DiskImage& image) {
    SimulatedDisk disk(image);
    return ReadSampleStore(disk, kStore);
  }
  // Every file of the live document, and the catalog.
  std::vector<std::string> Files() const {
    const std::string directory = DocumentDirectory(kStore, SampleId(1), 1) + "/";
    return {CatalogPath(kStore), directory + kDocumentFile, directory + LayerFile(0)};
  }
  const std::string& Bytes(const std::string& path) const {
    return *image_.nodes[static_cast<size_t>(image_.Find(path))].bytes;
  }
  DiskImage With(const std::string& path, std::string bytes) const {
    DiskImage image = image_;
    image.nodes[static_cast<size_t>(image.Find(path))].bytes =
        std::make_shared<std::string>(std::move(bytes));
    return image;
  }
  static bool Has(const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  }
  static void ExpectTyped(const Status& status, const std::string& what) {
    const Code code = status.code();
    ASSERT_TRUE(code == Code::kChecksumMismatch || code == Code::kCorrupt ||
                code == Code::kTruncated || code == Code::kUnsupportedVersion ||
                code == Code::kNotFound)
        << what << ": " << CodeName(code) << " " << status.message();
  }

  const DiskImage image_ = SmallestStore();
  std::string intact_;
};

TEST_F(DamageTest, NoFlippedBitChangesAnAnswer) {
  const auto start = std::chrono::steady_clock::now();
  uint64_t num_flips = 0, num_found = 0;
  for (const std::string& path : Files()) {
    const bool is_shard = path.ends_with(".shard");
    DiskImage image = With(path, Bytes(path));
    const auto node = static_cast<size_t>(image.Find(path));
    for (uint64_t bit = 0; bit < Bytes(path).size() * 8; bit += Stride()) {
      std::string& bytes = image.nodes[node].Writable();
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
      const auto read = Read(image);
      std::string& back = image.nodes[node].Writable();
      back[bit / 8] = static_cast<char>(back[bit / 8] ^ (1 << bit % 8));
      ++num_flips;
      const std::string what = path + ", bit " + std::to_string(bit);
      if (read.ok()) {
        ASSERT_FALSE(is_shard) << what;  // every bit of a shard is covered
        ASSERT_EQ(*read, intact_) << what;
      } else {
        ++num_found;
        ExpectTyped(read.status(), what);
      }
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("trust: bit flips: %llu, %llu found, 0 changed an answer; %.1f s\n",
              static_cast<unsigned long long>(num_flips),
              static_cast<unsigned long long>(num_found), seconds.count());
}

TEST_F(DamageTest, EveryWrongLengthIsFound) {
  const auto start = std::chrono::steady_clock::now();
  uint64_t num_lengths = 0;
  for (const std::string& path : Files()) {
    const std::string& bytes = Bytes(path);
    std::vector<uint64_t> lengths = {bytes.size() - 1, bytes.size() + 1, bytes.size() + 4096};
    for (uint64_t length = 0; length < bytes.size(); length += Stride()) lengths.push_back(length);
    for (const uint64_t length : lengths) {
      std::string cut = bytes;
      cut.resize(length);
      const auto read = Read(With(path, cut));
      ++num_lengths;
      const std::string what = path + ", length " + std::to_string(length);
      // SQLite says itself how long its file is: what comes behind is not read.
      if (read.ok() && path == CatalogPath(kStore) && length > bytes.size()) {
        EXPECT_EQ(*read, intact_);
        continue;
      }
      ASSERT_FALSE(read.ok()) << what;
      ExpectTyped(read.status(), what);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("trust: wrong lengths: %llu, all found; %.1f s\n",
              static_cast<unsigned long long>(num_lengths), seconds.count());
}

TEST_F(DamageTest, AFileInTheOthersPlaceIsFound) {
  SimulatedDisk disk;
  ASSERT_TRUE(AddSampleDocument(disk, kStore, SampleId(1), "a", "Some text.").ok());
  ASSERT_TRUE(AddSampleDocument(disk, kStore, SampleId(1), "a", "Some text.").ok());
  ASSERT_TRUE(AddSampleDocument(disk, kStore, SampleId(3), "c", "Some text.").ok());
  std::vector<std::string> files;
  for (const auto& [id, generation] : {std::pair(1, 1), std::pair(1, 2), std::pair(3, 3)}) {
    const std::string directory =
        DocumentDirectory(kStore, SampleId(static_cast<uint8_t>(id)), uint64_t(generation)) + "/";
    files.push_back(directory + kDocumentFile);
    files.push_back(directory + LayerFile(0));
  }
  files.push_back(CatalogPath(kStore));
  for (const std::string& from : files) {
    for (const std::string& to : files) {
      if (from == to || Has(to, "/1/")) continue;  // generation 1 is dead: nobody reads it
      DiskImage image = disk.image();
      image.nodes[static_cast<size_t>(image.Find(to))].bytes =
          image.nodes[static_cast<size_t>(image.Find(from))].bytes;
      const auto read = Read(image);
      ASSERT_FALSE(read.ok()) << from << " as " << to;
      ExpectTyped(read.status(), from + " as " + to);
    }
  }
}

}  // namespace
}  // namespace lectern
