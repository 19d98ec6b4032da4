#include "store/env.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/store/sample_shard.h"
#include "tests/system_differences.h"

namespace lectern {
namespace {

Env& real = Env::Default();

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(::lstat(path.c_str(), &info), 0);
  return info.st_mode & 0777;
}

TEST(EnvTest, WritesReadsAndMaps) {
  TempDirectory dir;
  auto file = real.OpenWritable(dir / "a", true);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->WriteAt(3, "defg", 4).ok());
  EXPECT_TRUE((*file)->WriteAt(0, "abc", 3).ok());
  char bytes[7];
  EXPECT_TRUE((*file)->ReadAt(0, bytes, 7).ok());
  EXPECT_EQ(std::string(bytes, 7), "abcdefg");
  EXPECT_EQ((*file)->ReadAt(1, bytes, 7).code(), Code::kTruncated);
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_EQ(ModeOf(dir / "a"), 0600u);
  const auto map = real.Map(dir / "a");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ((*map)->size(), 7u);
  EXPECT_EQ(std::memcmp((*map)->data(), "abcdefg", 7), 0);
  (*map)->WillNeed(0, 100);
  (*map)->DontNeed(6, 1);
  (*map)->DontNeed(7, 1);
}

TEST(EnvTest, AMirrorHasWhatWasLoaded) {
  TempDirectory dir;
  const std::string text(10000, 'x');
  WriteBytes(dir / "a", text);
  const auto mirror = real.Mirror(dir / "a");
  ASSERT_TRUE(mirror.ok());
  const auto* data = reinterpret_cast<const char*>((*mirror)->data());
  EXPECT_EQ((*mirror)->size(), text.size());
  EXPECT_TRUE((*mirror)->Load(4096, 4096).ok());
  EXPECT_EQ(data[4095], 0);
  EXPECT_EQ(std::string(data + 4096, 4096), std::string(4096, 'x'));
  // Loaded bytes stay when the file changes; bytes that are read after that are the new ones.
  WriteBytes(dir / "a", std::string(9000, 'y'));
  char byte = 0;
  EXPECT_TRUE((*mirror)->ReadAt(5000, &byte, 1).ok());
  EXPECT_EQ(byte, 'y');
  EXPECT_EQ(data[5000], 'x');
  const Status cut = (*mirror)->Load(8192, 1808);
  EXPECT_EQ(cut.code(), Code::kTruncated);
  EXPECT_NE(cut.message().find(dir / "a"), std::string::npos);
  EXPECT_NE(cut.message().find("ends before byte 9000"), std::string::npos);
  (*mirror)->DontNeed(4000, 5000);  // one whole page
  EXPECT_EQ(data[4096], 0);
  EXPECT_EQ(data[8192], 'y');
  EXPECT_EQ(real.Mirror(dir / "b").status().code(), Code::kMissingFile);
  EXPECT_EQ(real.Mirror(dir.path()).status().code(), Code::kIoError);
}

TEST(EnvTest, OpensAWholeFileEitherWay) {
  TempDirectory dir;
  WriteBytes(dir / "a", "abc");
  WriteBytes(dir / "empty", "");
  for (const Io io : {Io::kMmap, Io::kPread}) {
    const auto file = OpenWhole(real, dir / "a", io), empty = OpenWhole(real, dir / "empty", io);
    ASSERT_TRUE(file.ok() && empty.ok());
    EXPECT_EQ(std::memcmp((*file)->data(), "abc", 3), 0);
    EXPECT_EQ((*empty)->size(), 0u);
  }
}

// As many bytes as a file of weights has, which are no multiple of a page.
constexpr size_t kLargeBytes = (size_t{9} << 20) + 4711;

std::vector<uint32_t> LargeFile(const std::string& path) {
  std::vector<uint32_t> numbers(kLargeBytes / sizeof(uint32_t));
  std::iota(numbers.begin(), numbers.end(), 7u);
  auto file = real.OpenWritable(path, true);
  EXPECT_TRUE(file.ok() && (*file)->WriteAt(0, numbers.data(), numbers.size() * 4).ok());
  EXPECT_TRUE((*file)->Close().ok());
  return numbers;
}

TEST(EnvTest, ThreadsReadAMappingWhileLargePagesReplaceIt) {
  TempDirectory dir;
  const std::string path = dir / "large";
  const std::vector<uint32_t> numbers = LargeFile(path);
  const size_t bytes = numbers.size() * sizeof(uint32_t);
  for (int round = 0; round < 5; ++round) {
    auto file = real.Map(path);
    ASSERT_TRUE(file.ok());
    const std::byte* const data = (*file)->data();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % (2 << 20), 0u);
    std::atomic<bool> is_done = false;
    std::atomic<size_t> num_wrong = 0;
    std::vector<std::thread> readers;
    for (int t = 0; t < 3; ++t) {
      readers.emplace_back([&] {
        do {
          num_wrong += std::memcmp(data, numbers.data(), bytes) != 0;
        } while (!is_done);
      });
    }
    EXPECT_EQ((*file)->CopyToLargePages(UINT64_MAX, nullptr), HasLargePages());
    is_done = true;
    for (std::thread& reader : readers) reader.join();
    EXPECT_EQ(num_wrong, 0u);
    EXPECT_FALSE((*file)->CopyToLargePages(UINT64_MAX, nullptr));  // once is enough
    EXPECT_EQ((*file)->data(), data);
    (*file)->DontNeed(0, bytes);  // which would make zeros of the copy
    EXPECT_EQ(std::memcmp(data, numbers.data(), bytes), 0);
    if (!HasLargePages()) return;
    // The file may now be cut: before, reading it would have ended the process.
    std::filesystem::resize_file(path, round < 4 ? bytes : 1);
    EXPECT_EQ(std::memcmp(data, numbers.data(), bytes), 0);
  }
}

TEST(EnvTest, ACopyThatIsCancelledLeavesTheMapping) {
  TempDirectory dir;
  const std::vector<uint32_t> numbers = LargeFile(dir / "large");
  auto file = real.Map(dir / "large");
  ASSERT_TRUE(file.ok());
  const CancelFlag cancel = true;
  EXPECT_FALSE((*file)->CopyToLargePages(UINT64_MAX, &cancel));
  EXPECT_EQ(std::memcmp((*file)->data(), numbers.data(), numbers.size() * 4), 0);
  (*file)->DontNeed(0, numbers.size() * 4);
  EXPECT_EQ(std::memcmp((*file)->data(), numbers.data(), numbers.size() * 4), 0);
  EXPECT_EQ((*file)->CopyToLargePages(UINT64_MAX, nullptr), HasLargePages());
}

TEST(EnvTest, MapsAnEmptyFile) {
  TempDirectory dir;
  WriteBytes(dir / "a", "");
  const auto map = real.Map(dir / "a");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ((*map)->size(), 0u);
}

TEST(EnvTest, AllocateGrowsAndNeverShrinks) {
  TempDirectory dir;
  auto file = real.OpenWritable(dir / "a", true);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->Allocate(0).ok());
  EXPECT_TRUE((*file)->Allocate(10000).ok());
  EXPECT_TRUE((*file)->Allocate(10).ok());
  EXPECT_EQ(std::filesystem::file_size(dir / "a"), 10000u);
  EXPECT_EQ((*file)->Allocate(~uint64_t{0}).code(), Code::kLimitExceeded);
}

TEST(EnvTest, ExclusiveRefusesWhatIsThere) {
  TempDirectory dir;
  WriteBytes(dir / "a", "abc");
  EXPECT_EQ(real.OpenWritable(dir / "a", true).status().code(), Code::kIoError);
  EXPECT_TRUE(real.OpenWritable(dir / "a", false).ok());
  EXPECT_EQ(ReadBytes(dir / "a"), "abc");
}

TEST(EnvTest, RefusesWhatIsNoRegularFile) {
  TempDirectory dir;
  WriteBytes(dir / "a", "abc");
  std::filesystem::create_symlink(dir / "a", dir / "link");
  ASSERT_EQ(::mkfifo((dir / "fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(dir / "dir");
  for (const std::string name : {"link", "fifo", "dir", "/dev/null"}) {
    const std::string path = name[0] == '/' ? name : dir / name;
    EXPECT_EQ(real.Map(path).status().code(), Code::kIoError) << name;
    EXPECT_EQ(real.OpenWritable(path, false).status().code(), Code::kIoError) << name;
    EXPECT_EQ(real.Lock(path, 0).status().code(), Code::kIoError) << name;
  }
  EXPECT_EQ(real.Map(dir / "none").status().code(), Code::kMissingFile);
  EXPECT_EQ(real.Map(std::string("a\0b", 3)).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(real.Map("").status().code(), Code::kInvalidArgument);
}

TEST(EnvTest, MakesDirectoriesWithParents) {
  TempDirectory dir;
  EXPECT_TRUE(real.MakeDirectory(dir / "a/b//c/").ok());
  EXPECT_TRUE(real.MakeDirectory(dir / "a/b/c").ok());
  EXPECT_EQ(ModeOf(dir / "a/b/c"), 0700u);
  WriteBytes(dir / "file", "");
  EXPECT_EQ(real.MakeDirectory(dir / "file").code(), Code::kIoError);
  EXPECT_EQ(real.MakeDirectory(dir / "file/x").code(), Code::kIoError);
}

TEST(EnvTest, RemovesATreeButNothingBehindLinks) {
  TempDirectory dir, other;
  WriteBytes(other / "kept", "abc");
  ASSERT_TRUE(real.MakeDirectory(dir / "tree/deep/deeper").ok());
  WriteBytes(dir / "tree/deep/file", "abc");
  std::filesystem::create_directory_symlink(other.path(), dir / "tree/deep/link");
  EXPECT_TRUE(real.RemoveTree(dir / "tree").ok());
  EXPECT_FALSE(*real.Exists(dir / "tree"));
  EXPECT_TRUE(*real.Exists(other / "kept"));
  EXPECT_TRUE(real.RemoveTree(dir / "tree").ok());
}

TEST(EnvTest, ListsSortedAndRenamesAndRemoves) {
  TempDirectory dir;
  for (const char* name : {"b", "c", "a"}) WriteBytes(dir / name, name);
  EXPECT_EQ(*real.List(dir.path()), (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_TRUE(real.Rename(dir / "a", dir / "d").ok());
  EXPECT_TRUE(real.Remove(dir / "b").ok());
  EXPECT_EQ(real.Remove(dir / "b").code(), Code::kMissingFile);
  EXPECT_TRUE(real.SyncDirectory(dir.path()).ok());
  EXPECT_EQ(*real.List(dir.path()), (std::vector<std::string>{"c", "d"}));
  EXPECT_EQ(real.List(dir / "none").status().code(), Code::kMissingFile);
  EXPECT_GT(*real.FreeBytes(dir.path()), 0u);
  EXPECT_EQ(real.AccessTo(dir.path()), Access::kWritable);
  EXPECT_EQ(real.AccessTo(dir / "none"), Access::kNotWritable);
  EXPECT_EQ(real.Info(dir.path())->type, FileInfo::Type::kDirectory);
  EXPECT_EQ(real.Info(dir / "c")->type, FileInfo::Type::kRegular);
  EXPECT_EQ(real.Info(dir / "c")->bytes, 1u);
  EXPECT_EQ(real.Info(dir / "none")->type, FileInfo::Type::kNone);
}

TEST(EnvTest, ALockIsHeldOnceAndFreedByItsOwner) {
  TempDirectory dir;
  auto lock = real.Lock(dir / "writer.lock", 0);
  ASSERT_TRUE(lock.ok());
  EXPECT_EQ(real.Lock(dir / "writer.lock", 30).status().code(), Code::kLocked);
  std::thread later([held = std::move(*lock)]() mutable {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    held.reset();
  });
  EXPECT_TRUE(real.Lock(dir / "writer.lock", 10000).ok());
  later.join();
}

TEST(EnvTest, ReadersShareADirectorysLeaseAndARemoverHoldsItAlone) {
  TempDirectory dir;
  auto first = real.LockDirectory(dir.path(), Lease::kShared);
  auto second = real.LockDirectory(dir.path(), Lease::kShared);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(real.LockDirectory(dir.path(), Lease::kExclusive).status().code(), Code::kLocked);
  first->reset();
  EXPECT_EQ(real.LockDirectory(dir.path(), Lease::kExclusive).status().code(), Code::kLocked);
  second->reset();
  auto alone = real.LockDirectory(dir.path(), Lease::kExclusive);
  ASSERT_TRUE(alone.ok());
  EXPECT_EQ(real.LockDirectory(dir.path(), Lease::kShared).status().code(), Code::kLocked);
  EXPECT_EQ(real.LockDirectory(dir / "none", Lease::kShared).status().code(), Code::kMissingFile);
}

TEST(EnvTest, PathPartsAreTakenApart) {
  EXPECT_EQ(ParentDirectory("/a/b"), "/a");
  EXPECT_EQ(ParentDirectory("/a//b//"), "/a");
  EXPECT_EQ(ParentDirectory("/a"), "/");
  EXPECT_EQ(ParentDirectory("/"), "/");
  EXPECT_EQ(ParentDirectory("a"), ".");
  EXPECT_TRUE(IsPlainName("layer-000.shard"));
  for (const std::string_view name : {"", ".", "..", "a/b", "/"}) EXPECT_FALSE(IsPlainName(name));
  EXPECT_FALSE(IsPlainName(std::string_view("a\0b", 3)));
}

}  // namespace
}  // namespace lectern
