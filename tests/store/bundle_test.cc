#include "store/bundle.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "store/crc32c.h"
#include "tests/store/env_for_tests.h"
#include "tests/store/sample_shard.h"
#include "tests/store/sample_store.h"

namespace lectern {
namespace {

class BundleTest : public testing::Test {
 protected:
  void SetUp() override {
    auto entry = AddSampleDocument(env_, from_, SampleId(1), "a", "Some text.");
    ASSERT_TRUE(entry.ok());
    row_ = entry->row;
    ASSERT_TRUE(ExportDocument(env_, from_, row_, path_).ok());
    bytes_ = ReadBytes(path_);
  }
  Result<Imported> Import(const std::string& name = "") {
    LECTERN_ASSIGN(const auto lock, LockStore(env_, to_));
    LECTERN_ASSIGN(const auto catalog,
                   Catalog::Open(env_, CatalogPath(to_), Catalog::Mode::kReadWrite));
    return ImportDocument(env_, to_, *catalog, path_, KeepName(name));
  }
  Code ImportCode(const std::string& bytes) {
    WriteBytes(path_, bytes);
    return Import().status().code();
  }
  // With a head that verifies.
  Code ImportChanged(const std::function<void(BundleHeader&, BundleEntry*)>& change) {
    std::string bytes = bytes_;
    BundleHeader header;
    std::memcpy(&header, bytes.data(), sizeof header);
    BundleEntry entries[2];
    std::memcpy(entries, bytes.data() + sizeof header, sizeof entries);
    const uint32_t head_bytes = header.head_bytes;
    change(header, entries);
    header.head_crc = 0;
    std::memcpy(bytes.data(), &header, sizeof header);
    std::memcpy(bytes.data() + sizeof header, entries, sizeof entries);
    const uint32_t crc = Crc32c(0, bytes.data(), head_bytes);
    std::memcpy(bytes.data() + offsetof(BundleHeader, head_crc), &crc, sizeof crc);
    return ImportCode(bytes);
  }
  Env& env_ = Env::Default();
  TempDirectory dir_;
  const std::string from_ = dir_ / "from", to_ = dir_ / "to", path_ = dir_ / "a.lectern";
  DocumentRow row_;
  std::string bytes_;
};

TEST_F(BundleTest, WhatExceedsTheQuotaIsNotTakenIn) {
  const auto lock = LockStore(env_, to_);
  const auto catalog = *Catalog::Open(env_, CatalogPath(to_), Catalog::Mode::kReadWrite);
  const uint64_t used = *StoreBytes(env_, to_);
  const auto import = [&](uint64_t quota) {
    return ImportDocument(env_, to_, *catalog, path_, KeepName(), quota).status();
  };
  EXPECT_EQ(import(used + bytes_.size() - 1).code(), Code::kNoSpace);
  EXPECT_TRUE(catalog->List()->empty());
  EXPECT_TRUE(import(used + bytes_.size()).ok());
  EXPECT_TRUE(import(1).ok());  // it is there
}

TEST_F(BundleTest, ADocumentComesBackWhole) {
  ASSERT_TRUE(AddSampleDocument(env_, to_, SampleId(9), "other", "Other text.").ok());
  const auto imported = Import("b");
  ASSERT_TRUE(imported.ok()) << imported.status().message();
  EXPECT_FALSE(imported->existed);
  EXPECT_EQ(imported->row.name, "b");
  EXPECT_EQ(imported->row.generation, 2u);
  const auto entry = ReadGeneration(env_, DocumentDirectory(to_, SampleId(1), 2), SampleId(1), 2);
  ASSERT_TRUE(entry.ok()) << entry.status().message();
  EXPECT_EQ(entry->row.fingerprint, row_.fingerprint);
  EXPECT_EQ(entry->row.bytes_on_disk, row_.bytes_on_disk);
  EXPECT_TRUE(ReadSampleStore(env_, to_).ok());
  EXPECT_TRUE(Import()->existed);
  EXPECT_EQ(Import("c")->row.name, "c");
  // An imported document, exported again, differs in generation, name and checksums alone.
  ASSERT_TRUE(ExportDocument(env_, to_, imported->row, dir_ / "b.lectern").ok());
  EXPECT_EQ(ReadBytes(dir_ / "b.lectern").size(), bytes_.size());
}

TEST_F(BundleTest, NothingIsOverwritten) {
  EXPECT_EQ(ExportDocument(env_, from_, row_, path_).code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadBytes(path_), bytes_);
}

// It may be of an export that runs.
TEST_F(BundleTest, APartThatIsThereIsRefused) {
  std::filesystem::remove(path_);
  WriteBytes(path_ + ".part", "begun");
  EXPECT_EQ(ExportDocument(env_, from_, row_, path_).code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadBytes(path_ + ".part"), "begun");
  EXPECT_FALSE(*env_.Exists(path_));
  std::filesystem::remove(path_ + ".part");
  EXPECT_TRUE(ExportDocument(env_, from_, row_, path_).ok());
}

TEST_F(BundleTest, AFailingCallLeavesNoFile) {
  std::filesystem::remove(path_);
  FaultEnv counting;
  ASSERT_TRUE(ExportDocument(counting, from_, row_, path_).ok());
  std::filesystem::remove(path_);
  for (int call = 0; call < counting.num_calls; ++call) {
    FaultEnv env;
    env.fail_at = call;
    EXPECT_EQ(ExportDocument(env, from_, row_, path_).code(), Code::kNoSpace) << call;
    EXPECT_FALSE(*env_.Exists(path_) || *env_.Exists(path_ + ".part")) << call;
  }
}

TEST_F(BundleTest, EveryDamageIsFoundAndLeavesTheStoreAsItWas) {
  for (size_t bit = 0; bit < bytes_.size() * 8; bit += 4099) {
    std::string bytes = bytes_;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const Code code = ImportCode(bytes);
    ASSERT_TRUE(code == Code::kChecksumMismatch || code == Code::kCorrupt ||
                code == Code::kTruncated || code == Code::kLimitExceeded)
        << bit << " " << CodeName(code);
  }
  for (size_t length = 0; length < bytes_.size(); length += 1021) {
    const Code code = ImportCode(bytes_.substr(0, length));
    ASSERT_TRUE(code == Code::kTruncated) << length << " " << CodeName(code);
  }
  EXPECT_EQ(ImportCode(bytes_ + "x"), Code::kTruncated);
  EXPECT_EQ(*ReadSampleStore(env_, to_), "");
  EXPECT_EQ(ImportCode(bytes_), Code::kOk);
}

TEST_F(BundleTest, EveryFieldRefusesEveryPowerOfTwo) {
  size_t count = 0;
  const auto expect = [&](std::initializer_list<Code> codes,
                          const std::function<void(BundleHeader&, BundleEntry*)>& change) {
    const Code code = ImportChanged(change);
    EXPECT_TRUE(std::find(codes.begin(), codes.end(), code) != codes.end()) << CodeName(code);
    ++count;
  };
  constexpr Code kCorrupt = Code::kCorrupt, kTruncated = Code::kTruncated;
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    const auto small = static_cast<uint32_t>(power);
    expect({kTruncated}, [&](BundleHeader& h, BundleEntry*) { h.file_bytes ^= power; });
    expect({kCorrupt}, [&](BundleHeader& h, BundleEntry*) { h.generation ^= power; });
    expect({kCorrupt}, [&](BundleHeader& h, BundleEntry*) { h.num_tokens ^= power; });
    expect({kCorrupt}, [&](BundleHeader&, BundleEntry* e) { e[1].offset ^= power; });
    if (bit >= 32) {
      expect({kCorrupt}, [&](BundleHeader&, BundleEntry* e) { e[0].bytes ^= power; });
      continue;
    }
    expect({kCorrupt}, [&](BundleHeader& h, BundleEntry*) { h.num_parts = small; });
    expect({kCorrupt}, [&](BundleHeader&, BundleEntry* e) { e[0].reserved = small; });
    expect({Code::kChecksumMismatch}, [&](BundleHeader&, BundleEntry* e) { e[1].crc ^= small; });
    if (bit >= 12) {  // beyond the head
      expect({kCorrupt}, [&](BundleHeader& h, BundleEntry*) { h.name_bytes += small; });
      expect({kCorrupt}, [&](BundleHeader& h, BundleEntry*) { h.model_path_bytes += small; });
      expect({kCorrupt}, [&](BundleHeader& h, BundleEntry*) { h.report_bytes += small; });
      expect({kCorrupt}, [&](BundleHeader& h, BundleEntry*) { h.num_files += small; });
    }
    if (bit < 16) {
      expect({Code::kUnsupportedVersion}, [&](BundleHeader& h, BundleEntry*) { h.major ^= small; });
    }
    expect({kCorrupt, kTruncated, Code::kLimitExceeded, Code::kChecksumMismatch},
           [&](BundleHeader& h, BundleEntry*) { h.head_bytes ^= small; });
  }
  std::printf("trust: bad bundles: %zu, each refused with its code\n", count);
  EXPECT_EQ(*ReadSampleStore(env_, to_), "");
}

// A volume whose files cannot be mapped, and which loses the bundle's end while the first shard is
// being written.
class LosingEnv : public ForwardingEnv {
 public:
  explicit LosingEnv(std::string bundle) : bundle_(std::move(bundle)) {}
  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    if (path == bundle_) return Status(Code::kIoError, path + ": cannot be mapped");
    return ForwardingEnv::Map(path);
  }
  Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                     bool exclusive) override {
    if (cuts) std::filesystem::resize_file(bundle_, kBundleAlignment);
    return ForwardingEnv::OpenWritable(path, exclusive);
  }
  bool cuts = false;

 private:
  const std::string bundle_;
};

TEST_F(BundleTest, ABundleIsReadAndNotMapped) {
  LosingEnv env(path_);
  const auto lock = LockStore(env_, to_);
  const auto catalog = *Catalog::Open(env_, CatalogPath(to_), Catalog::Mode::kReadWrite);
  env.cuts = true;
  EXPECT_EQ(ImportDocument(env, to_, *catalog, path_, KeepName()).status().code(),
            Code::kTruncated);
  EXPECT_TRUE(catalog->List()->empty());
  env.cuts = false;
  WriteBytes(path_, bytes_);
  const auto imported = ImportDocument(env, to_, *catalog, path_, KeepName());
  EXPECT_TRUE(imported.ok()) << imported.status().message();
}

TEST_F(BundleTest, ContradictionsOfTheHeadAreFound) {
  using H = BundleHeader;
  using E = BundleEntry;
  const auto expect = [&](Code code, const std::function<void(H&, E*)>& change) {
    EXPECT_EQ(CodeName(ImportChanged(change)), CodeName(code));
  };
  expect(Code::kCorrupt, [](H& h, E*) { h.magic[0] = 'x'; });
  expect(Code::kUnsupportedVersion, [](H& h, E*) { h.major = 3; });
  expect(Code::kCorrupt, [](H& h, E*) { h.major = kBundlePartsMajor; });
  expect(Code::kTruncated, [](H& h, E*) { h.file_bytes += 4096; });
  expect(Code::kCorrupt, [](H& h, E*) { h.head_bytes = 0; });
  expect(Code::kCorrupt, [](H& h, E*) { h.head_bytes = 4097; });
  expect(Code::kLimitExceeded, [](H& h, E*) { h.head_bytes = 0x80000000; });
  expect(Code::kCorrupt, [](H& h, E*) { h.num_files = 1; });
  expect(Code::kCorrupt, [](H& h, E*) { h.num_files = 4098; });
  expect(Code::kCorrupt, [](H& h, E*) { h.num_files = ~0u; });
  expect(Code::kCorrupt, [](H& h, E*) { h.name_bytes = 5000; });
  expect(Code::kCorrupt, [](H& h, E*) { h.model_path_bytes = ~0u; });
  expect(Code::kCorrupt, [](H& h, E*) { h.report_bytes = ~0u; });
  expect(Code::kCorrupt, [](H& h, E*) { h.num_parts = 1; });
  expect(Code::kCorrupt, [](H& h, E*) { h.document_id[0] ^= 1; });
  expect(Code::kCorrupt, [](H& h, E*) { h.fingerprint[0] ^= 1; });
  expect(Code::kCorrupt, [](H& h, E*) { h.generation += 1; });
  expect(Code::kCorrupt, [](H& h, E*) { h.num_tokens += 1; });
  expect(Code::kCorrupt, [](H&, E* e) { e[0].offset += 4096; });
  expect(Code::kCorrupt, [](H&, E* e) { e[1].offset -= 4096; });
  expect(Code::kCorrupt, [](H&, E* e) { e[0].bytes = ~uint64_t{0}; });
  expect(Code::kCorrupt, [](H&, E* e) { e[1].bytes += 8192; });
  expect(Code::kTruncated, [](H&, E* e) { e[1].bytes -= 1; });
  expect(Code::kCorrupt, [](H&, E* e) { e[1].reserved = 1; });
  expect(Code::kChecksumMismatch, [](H&, E* e) { e[1].crc ^= 1; });
  expect(Code::kOk, [](H&, E*) {});
}

}  // namespace
}  // namespace lectern
