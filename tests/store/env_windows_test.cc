// The promises of Env (store/env.h), on Windows or Wine.
#include <gtest/gtest.h>
#include <windows.h>

#include <thread>

#include "store/env.h"
#include "store/system_error.h"
#include "store/system_windows.h"
#include "tests/store/sample_shard.h"

namespace lectern {
namespace {

Env& real = Env::Default();

void Write(const std::string& path, const std::string& bytes) {
  auto file = real.OpenWritable(path, false);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE((*file)->WriteAt(0, bytes.data(), bytes.size()).ok());
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_TRUE((*file)->Close().ok());
}

std::string Read(const std::string& path) {
  const auto file = OpenWhole(real, path, Io::kPread);
  if (!file.ok()) return file.status().message();
  return {reinterpret_cast<const char*>((*file)->data()), (*file)->size()};
}

TEST(EnvWindowsTest, WritesReadsAndReserves) {
  TempDirectory dir;
  auto file = real.OpenWritable(dir / "a", true);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->Allocate(100'000).ok());
  EXPECT_EQ(real.Info(dir / "a")->bytes, 100'000u);
  EXPECT_TRUE((*file)->Allocate(10).ok());  // never shorter
  EXPECT_EQ(real.Info(dir / "a")->bytes, 100'000u);
  EXPECT_TRUE((*file)->WriteAt(200'000, "xyz", 3).ok());
  char bytes[3] = "";
  EXPECT_TRUE((*file)->ReadAt(200'000, bytes, 3).ok());
  EXPECT_EQ(std::string(bytes, 3), "xyz");
  EXPECT_TRUE((*file)->ReadAt(150'000, bytes, 3).ok());  // the gap
  EXPECT_EQ(std::string(bytes, 3), std::string(3, '\0'));
  EXPECT_EQ((*file)->ReadAt(200'001, bytes, 3).code(), Code::kTruncated);
  EXPECT_EQ((*file)->WriteAt(uint64_t{1} << 63, "x", 1).code(), Code::kLimitExceeded);
  EXPECT_TRUE((*file)->Sync().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_TRUE((*file)->Close().ok());
  EXPECT_EQ((*file)->WriteAt(0, "x", 1).code(), Code::kIoError);
  EXPECT_EQ((*file)->Sync().code(), Code::kIoError);
  EXPECT_EQ(real.OpenWritable(dir / "a", true).status().code(), Code::kIoError);
  EXPECT_EQ(real.OpenWritable(dir.path(), false).status().code(), Code::kIoError);
  EXPECT_EQ(real.OpenWritable(dir / "none/a", false).status().code(), Code::kMissingFile);
}

TEST(EnvWindowsTest, RefusesPathsThatAreNone) {
  for (const std::string& path : {std::string(), std::string("a\0b", 3), std::string("a\xff")}) {
    EXPECT_EQ(real.Map(path).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(real.MakeDirectory(path).code(), Code::kInvalidArgument);
    EXPECT_EQ(real.Info(path).status().code(), Code::kInvalidArgument);
  }
}

TEST(EnvWindowsTest, TakesLongAndUnicodePaths) {
  TempDirectory dir;
  std::string folder = dir.path();
  for (int i = 0; i < 8; ++i) folder += "/Bücher-книги-書籍-" + std::string(40, 'x');
  ASSERT_GT(Wide(folder).size(), 400u);  // MAX_PATH is 260
  ASSERT_TRUE(real.MakeDirectory(folder).ok());
  EXPECT_TRUE(real.MakeDirectory(folder).ok());
  Write(folder + "/日本.txt", "text");
  EXPECT_EQ(Read(folder + "\\日本.txt"), "text");
  EXPECT_EQ(*real.List(folder), std::vector<std::string>{"日本.txt"});
  EXPECT_EQ(real.Info(folder + "/日本.txt")->bytes, 4u);
  EXPECT_TRUE(real.Rename(folder + "/日本.txt", folder + "/ü").ok());
  EXPECT_TRUE(real.SyncDirectory(folder).ok());
  EXPECT_EQ(real.AccessTo(folder), Access::kWritable);
  EXPECT_GT(*real.FreeBytes(folder), 0u);
  EXPECT_TRUE(real.RemoveTree(dir / real.List(dir.path())->front()).ok());
  EXPECT_TRUE(real.List(dir.path())->empty());
}

// Wine 8 lets nobody replace a file that is open, since it has no renames of POSIX's kind.
bool ReplacesOpenFiles() {
  return GetProcAddress(GetModuleHandleW(L"ntdll.dll"), "wine_get_version") == nullptr;
}

TEST(EnvWindowsTest, ReadersKeepAFileThatIsReplacedOrRemoved) {
  TempDirectory dir;
  for (const Io io : {Io::kMmap, Io::kPread}) {
    Write(dir / "a", std::string(10'000, 'x'));
    const auto reader = OpenWhole(real, dir / "a", io);
    ASSERT_TRUE(reader.ok());
    if (!ReplacesOpenFiles()) continue;
    Write(dir / "new", std::string(10'000, 'y'));
    const Status renamed = real.Rename(dir / "new", dir / "a");
    EXPECT_TRUE(renamed.ok()) << renamed.message();
    EXPECT_TRUE(Read(dir / "a") == std::string(10'000, 'y'));
    char byte = 0;
    EXPECT_TRUE((*reader)->ReadAt(5000, &byte, 1).ok());
    EXPECT_EQ(byte, 'x');
    EXPECT_EQ(real.Info(dir / "new")->type, FileInfo::Type::kNone);
  }
  Write(dir / "b", "zzz");
  const auto reader = real.Mirror(dir / "b");
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(real.Remove(dir / "b").ok());
  char byte = 0;
  EXPECT_TRUE((*reader)->ReadAt(1, &byte, 1).ok());
  EXPECT_EQ(byte, 'z');
}

TEST(EnvWindowsTest, AMirrorHoldsWhatWasLoaded) {
  TempDirectory dir;
  Write(dir / "a", std::string(20'000, 'x'));
  const auto mirror = real.Mirror(dir / "a");
  ASSERT_TRUE(mirror.ok());
  EXPECT_EQ((*mirror)->size(), 20'000u);
  EXPECT_TRUE((*mirror)->Load(0, 20'000).ok());
  EXPECT_EQ((*mirror)->data()[19'999], std::byte{'x'});
  (*mirror)->DontNeed(4000, 5000);  // one whole page
  EXPECT_EQ((*mirror)->data()[4096], std::byte{0});
  EXPECT_EQ((*mirror)->data()[8192], std::byte{'x'});
  EXPECT_TRUE((*mirror)->Load(4000, 5000).ok());
  EXPECT_EQ((*mirror)->data()[4096], std::byte{'x'});
  EXPECT_EQ(real.Mirror(dir / "b").status().code(), Code::kMissingFile);
  EXPECT_EQ(real.Mirror(dir.path()).status().code(), Code::kIoError);
}

TEST(EnvWindowsTest, MapsAWholeFile) {
  TempDirectory dir;
  Write(dir / "a", std::string(3'000'000, 'x'));
  Write(dir / "empty", "");
  const auto file = real.Map(dir / "a"), empty = real.Map(dir / "empty");
  ASSERT_TRUE(file.ok() && empty.ok());
  (*file)->WillNeed(0, 3'000'000);
  (*file)->DontNeed(0, 3'000'000);
  EXPECT_EQ((*file)->data()[2'999'999], std::byte{'x'});
  EXPECT_EQ((*empty)->data(), nullptr);
  EXPECT_FALSE((*file)->CopyToLargePages(3'000'000, nullptr));
}

TEST(EnvWindowsTest, ALockKeepsOthersOut) {
  TempDirectory dir;
  {
    const auto first = real.Lock(dir / "lock", 0);
    ASSERT_TRUE(first.ok()) << first.status().message();
    const auto second = real.Lock(dir / "lock", 20);
    EXPECT_EQ(second.status().code(), Code::kLocked);
    EXPECT_NE(second.status().message().find("of this program"), std::string::npos);
    EXPECT_EQ(Read(dir / "lock"), "");  // the lock keeps nobody from its bytes
  }
  EXPECT_TRUE(real.Lock(dir / "lock", 0).ok());
  auto held = real.Lock(dir / "lock", 0);
  std::thread release([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    held->reset();
  });
  EXPECT_TRUE(real.Lock(dir / "lock", 5000).ok());
  release.join();
  EXPECT_EQ(real.Lock(dir.path(), 0).status().code(), Code::kIoError);
}

TEST(EnvWindowsTest, LeasesShareOrExclude) {
  TempDirectory dir;
  const std::string folder = dir / "g";
  ASSERT_TRUE(real.MakeDirectory(folder).ok());
  Write(folder + "/file", "x");
  const auto lock = [&](Lease lease) { return real.LockDirectory(folder, lease); };
  {
    const auto one = lock(Lease::kShared), two = lock(Lease::kShared);
    EXPECT_TRUE(one.ok() && two.ok());
    EXPECT_EQ(lock(Lease::kExclusive).status().code(), Code::kLocked);
    Write(folder + "/more", "y");  // it is still a folder to work in
    EXPECT_EQ(real.List(folder)->size(), 2u);
    EXPECT_TRUE(real.Remove(folder + "/more").ok());
    EXPECT_TRUE(real.SyncDirectory(folder).ok());
    EXPECT_EQ(real.AccessTo(folder), Access::kWritable);
  }
  {
    const auto alone = lock(Lease::kExclusive);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    EXPECT_EQ(lock(Lease::kShared).status().code(), Code::kLocked);
    EXPECT_EQ(lock(Lease::kExclusive).status().code(), Code::kLocked);
    EXPECT_EQ(real.List(folder)->size(), 1u);
    EXPECT_TRUE(real.RemoveTree(folder).ok());
  }
  EXPECT_EQ(real.Info(folder)->type, FileInfo::Type::kNone);
  EXPECT_EQ(lock(Lease::kShared).status().code(), Code::kMissingFile);
  EXPECT_EQ(real.LockDirectory(dir / "none", Lease::kExclusive).status().code(),
            Code::kMissingFile);
}

TEST(EnvWindowsTest, TellsFilesApart) {
  TempDirectory dir;
  Write(dir / "a", "x");
  Write(dir / "b", "x");
  const FileInfo a = *real.Info(dir / "a");
  EXPECT_EQ(a, *real.Info(dir / "a"));
  EXPECT_NE(a.inode, real.Info(dir / "b")->inode);
  EXPECT_GT(a.modified_ns, int64_t{1'600'000'000} * 1'000'000'000);  // after 2020
  EXPECT_EQ(real.Info(dir.path())->type, FileInfo::Type::kDirectory);
  EXPECT_EQ(real.Info(dir / "none/x")->type, FileInfo::Type::kNone);
  EXPECT_EQ(real.Info(dir / "a/x")->type, FileInfo::Type::kNone);
  EXPECT_EQ(real.Remove(dir / "none").code(), Code::kMissingFile);
  EXPECT_FALSE(real.Remove(dir.path()).ok());
  EXPECT_TRUE(real.RemoveTree(dir / "none").ok());
  EXPECT_EQ(real.List(dir / "none").status().code(), Code::kMissingFile);
}

TEST(EnvWindowsTest, PathsHaveDrivesAndTwoSeparators) {
  EXPECT_EQ(ParentDirectory("C:/a/b"), "C:/a");
  EXPECT_EQ(ParentDirectory("C:\\a\\b\\"), "C:\\a");
  EXPECT_EQ(ParentDirectory("C:/a"), "C:/");
  EXPECT_EQ(ParentDirectory("C:/"), "C:/");
  EXPECT_EQ(ParentDirectory("a/b/"), "a");
  EXPECT_EQ(ParentDirectory("b"), ".");
  EXPECT_EQ(ParentDirectory("/"), "/");
  EXPECT_EQ(ParentDirectory(""), "/");
  for (const char* const name : {"a\\b", "a/b", "C:", "..", ""}) EXPECT_FALSE(IsPlainName(name));
  EXPECT_TRUE(IsPlainName("a.txt"));
  for (const char* const path : {"C:/a", "C:\\a", "//server/a", "\\\\server\\a"}) {
    EXPECT_TRUE(IsAbsolutePath(path)) << path;
  }
  for (const char* const path : {"a", "C:a", "/a", ""}) EXPECT_FALSE(IsAbsolutePath(path)) << path;
  EXPECT_EQ(Narrow(SystemPath("C:/a/./b/")), "\\\\?\\C:\\a\\b");
  EXPECT_EQ(Narrow(SystemPath("//server/share/a")), "\\\\?\\UNC\\server\\share\\a");
  for (const char* const path : {"\\\\?\\C:\\a", "//?/C:/a"}) {
    EXPECT_EQ(Narrow(SystemPath(path)), "\\\\?\\C:\\a");
  }
}

TEST(EnvWindowsTest, ErrorsHaveAMeaning) {
  const auto code = [](DWORD error, const char* action) {
    return ErrnoStatus(ErrnoOfSystem(static_cast<int>(error)), action, "x").code();
  };
  EXPECT_EQ(code(ERROR_DISK_FULL, "write"), Code::kNoSpace);
  EXPECT_EQ(code(ERROR_WRITE_PROTECT, "write"), Code::kReadOnly);
  EXPECT_EQ(code(ERROR_ACCESS_DENIED, "create"), Code::kReadOnly);
  EXPECT_EQ(code(ERROR_ACCESS_DENIED, "read"), Code::kIoError);
  EXPECT_EQ(code(ERROR_FILE_NOT_FOUND, "read"), Code::kMissingFile);
  EXPECT_EQ(code(ERROR_COMMITMENT_LIMIT, "map"), Code::kOutOfMemory);
  EXPECT_EQ(code(ERROR_TOO_MANY_OPEN_FILES, "read"), Code::kLimitExceeded);
  EXPECT_EQ(code(ERROR_CRC, "read"), Code::kIoError);
}

}  // namespace
}  // namespace lectern
