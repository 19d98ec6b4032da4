// Env::Default() on Windows 10 and later. Paths are UTF-8 as everywhere in Lectern, with '/' or '\'
// between their parts; they become UTF-16 here, in the form that has no limit of 260 characters.
//
// Files are opened so that others may replace and remove them meanwhile (FILE_SHARE_DELETE), as on
// other systems. New files get the access rights of their folder: there are no modes here.
#include <windows.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "store/env.h"
#include "store/files_windows.h"
#include "store/system_error.h"
#include "store/system_windows.h"

namespace lectern {
namespace {

constexpr auto kPoll = std::chrono::milliseconds(10);  // between two tries of a lock or a rename
// How long a rename or removal waits for a program that has the file open, such as a virus scanner.
constexpr auto kShareWait = std::chrono::seconds(1);

// Opens a path, not through a link in its last part. `action` begins the error's message.
Result<Handle> Open(const std::string& path, DWORD access, DWORD share, DWORD creation,
                    const char* action) {
  LECTERN_RETURN_IF_ERROR(CheckPath(path));
  constexpr DWORD kFlags = FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS;
  Handle handle(::CreateFileW(SystemPath(path).c_str(), access, share, nullptr, creation,
                              FILE_ATTRIBUTE_NORMAL | kFlags, nullptr));
  if (handle.get() == nullptr) return LastError(action, path);
  return handle;
}

// Opens a folder; a link to one is followed unless `is_link_refused`.
Result<Handle> OpenDirectory(const std::string& path, DWORD access, DWORD share,
                             bool is_link_refused, const char* action) {
  LECTERN_RETURN_IF_ERROR(CheckPath(path));
  const DWORD flags =
      FILE_FLAG_BACKUP_SEMANTICS | (is_link_refused ? FILE_FLAG_OPEN_REPARSE_POINT : 0);
  Handle handle(::CreateFileW(SystemPath(path).c_str(), access, share, nullptr, OPEN_EXISTING,
                              flags, nullptr));
  if (handle.get() == nullptr) return LastError(action, path);
  FILE_BASIC_INFO info;
  if (!::GetFileInformationByHandleEx(handle.get(), FileBasicInfo, &info, sizeof info)) {
    return LastError(action, path);
  }
  const bool is_directory = (info.FileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  const bool is_link = (info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
  if (!is_directory || (is_link && is_link_refused)) return ErrnoStatus(ENOTDIR, action, path);
  return handle;
}

// Identifies a file: the volume's number and the file's on it.
using FileId = std::pair<uint64_t, uint64_t>;

// The files that this process has locked, for the message of kLocked alone.
class LockedHere {
 public:
  void Add(FileId id) {
    const std::lock_guard lock(mutex_);
    ids_.insert(id);
  }
  void Remove(FileId id) {
    const std::lock_guard lock(mutex_);
    ids_.erase(id);
  }
  bool Has(FileId id) {
    const std::lock_guard lock(mutex_);
    return ids_.contains(id);
  }

 private:
  std::mutex mutex_;
  std::set<FileId> ids_;
};

LockedHere& Locked() {
  static LockedHere locked;
  return locked;
}

// Locks here keep others from the bytes that they cover, so they cover one that no file has.
constexpr uint64_t kLockedByte = kMaxOffset - 1;

class WindowsFileLock : public FileLock {
 public:
  WindowsFileLock(Handle file, FileId id) : file_(std::move(file)), id_(id) { Locked().Add(id_); }
  // Unlocks explicitly: for a closed handle the system does so at a time of its own.
  ~WindowsFileLock() override {
    Locked().Remove(id_);
    OVERLAPPED at = At(kLockedByte);
    ::UnlockFileEx(file_.get(), 0, 1, 0, &at);
  }
  WindowsFileLock(const WindowsFileLock&) = delete;

 private:
  Handle file_;
  const FileId id_;
};

// A handle of a directory, whose sharing mode is the lock.
class WindowsDirectoryLock : public FileLock {
 public:
  explicit WindowsDirectoryLock(Handle directory) : directory_(std::move(directory)) {}

 private:
  Handle directory_;
};

// Nanoseconds since 1970 of a time in units of 100 ns since 1601.
int64_t Nanoseconds(int64_t time) { return (time - 116'444'736'000'000'000) * 100; }

// Calls until it succeeds or fails with another error than IsShared, for kShareWait at most.
template <typename Call>
bool WhileShared(const Call& call) {
  const auto deadline = std::chrono::steady_clock::now() + kShareWait;
  while (!call()) {
    const DWORD error = ::GetLastError();
    if (!IsShared(error) || std::chrono::steady_clock::now() >= deadline) {
      ::SetLastError(error);
      return false;
    }
    std::this_thread::sleep_for(kPoll);
  }
  return true;
}

// Renames an open file over another one that others have open or mapped, which MoveFileExW does not
// do, and makes that durable. False, with the system's last error: nothing was changed, except
// where the flush failed.
bool RenameOverOpenFile(const std::wstring& from, const std::wstring& to) {
  const Handle file(::CreateFileW(from.c_str(), DELETE | GENERIC_WRITE | SYNCHRONIZE, kShareAll,
                                  nullptr, OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT, nullptr));
  if (file.get() == nullptr) return false;
  // FILE_RENAME_INFO of Windows 10, with the name behind it. Some SDKs lack the flags' names.
  constexpr DWORD kReplaceIfExists = 1, kPosixSemantics = 2;
  struct Request {
    DWORD flags;
    HANDLE root;
    DWORD name_bytes;
    WCHAR name[1];
  };
  const size_t name_bytes = to.size() * sizeof(WCHAR);
  std::string bytes(sizeof(Request) + name_bytes, '\0');
  auto* const request = reinterpret_cast<Request*>(bytes.data());
  request->flags = kReplaceIfExists | kPosixSemantics;
  request->name_bytes = static_cast<DWORD>(name_bytes);
  std::memcpy(request->name, to.data(), name_bytes);
  constexpr auto kFileRenameInfoEx = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);
  return ::SetFileInformationByHandle(file.get(), kFileRenameInfoEx, request,
                                      static_cast<DWORD>(bytes.size())) &&
         ::FlushFileBuffers(file.get());
}

// The names in a folder, sorted by bytes. `folder`: as SystemPath gives it.
Result<std::vector<std::string>> ReadNames(const std::wstring& folder, const std::string& path,
                                           const char* action) {
  WIN32_FIND_DATAW entry;
  const std::wstring all = folder + (folder.ends_with(L'\\') ? L"*" : L"\\*");
  const HANDLE search =
      ::FindFirstFileExW(all.c_str(), FindExInfoBasic, &entry, FindExSearchNameMatch, nullptr, 0);
  if (search == INVALID_HANDLE_VALUE) {
    // The root of an empty volume has no entry at all.
    if (::GetLastError() == ERROR_FILE_NOT_FOUND) return std::vector<std::string>();
    return LastError(action, path);
  }
  std::vector<std::string> names;
  DWORD error = 0;
  try {
    do {
      const std::wstring_view name = entry.cFileName;
      if (name != L"." && name != L"..") names.push_back(Narrow(name));
    } while (::FindNextFileW(search, &entry));
    error = ::GetLastError();
  } catch (...) {
    ::FindClose(search);
    throw;
  }
  ::FindClose(search);
  if (error != ERROR_NO_MORE_FILES) {
    ::SetLastError(error);
    return LastError(action, path);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool IsGone(DWORD error) { return error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND; }

// Removes a file or a link, also a read-only one.
bool RemoveFile(const std::wstring& path, DWORD attributes) {
  if ((attributes & FILE_ATTRIBUTE_READONLY) != 0) {
    ::SetFileAttributesW(path.c_str(), attributes & ~static_cast<DWORD>(FILE_ATTRIBUTE_READONLY));
  }
  // A link to a folder is itself a folder.
  const bool is_directory = (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  return WhileShared([&] {
    return is_directory ? ::RemoveDirectoryW(path.c_str()) : ::DeleteFileW(path.c_str());
  });
}

// Removes a file or a whole tree; links are removed, not followed. Ok when it is not there.
Status RemoveAll(const std::wstring& system_path, const std::string& path) {
  const DWORD attributes = ::GetFileAttributesW(system_path.c_str());
  if (attributes == INVALID_FILE_ATTRIBUTES) {
    return IsGone(::GetLastError()) ? Status() : LastError("remove", path);
  }
  const bool is_link = (attributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0;
  if ((attributes & FILE_ATTRIBUTE_DIRECTORY) != 0 && !is_link) {
    LECTERN_ASSIGN(const auto names, ReadNames(system_path, path, "remove"));
    for (const std::string& name : names) {
      LECTERN_RETURN_IF_ERROR(RemoveAll(system_path + L"\\" + Wide(name), path + "/" + name));
    }
  }
  if (RemoveFile(system_path, attributes) || IsGone(::GetLastError())) return {};
  return LastError("remove", path);
}

// Follows links: a store's folder may be one. False also if the path cannot be looked at.
bool IsDirectory(const std::string& path) {
  const DWORD attributes = ::GetFileAttributesW(SystemPath(path).c_str());
  return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
}

// Without state: all of it is in the file system.
class WindowsEnv : public Env {
 public:
  Result<std::unique_ptr<WritableFile>> OpenWritable(const std::string& path,
                                                     bool exclusive) override {
    LECTERN_ASSIGN(Handle file, Open(path, GENERIC_READ | GENERIC_WRITE, kShareAll,
                                     exclusive ? CREATE_NEW : OPEN_ALWAYS, "create"));
    LECTERN_RETURN_IF_ERROR(RegularFileSize(file.get(), path, "create").status());
    return MakeWritable(std::move(file), path);
  }

  Result<std::unique_ptr<MappedFile>> Map(const std::string& path) override {
    LECTERN_ASSIGN(Handle opened, Open(path, GENERIC_READ, kShareAll, OPEN_EXISTING, "read"));
    LECTERN_ASSIGN(const uint64_t size, RegularFileSize(opened.get(), path, "read"));
    return MakeMapping(opened.get(), size, path);
  }

  Result<std::unique_ptr<MappedFile>> Mirror(const std::string& path) override {
    LECTERN_ASSIGN(Handle opened, Open(path, GENERIC_READ, kShareAll, OPEN_EXISTING, "read"));
    LECTERN_ASSIGN(const uint64_t size, RegularFileSize(opened.get(), path, "read"));
    return MakeMirror(std::move(opened), size, path);
  }

  Status Rename(const std::string& from, const std::string& to) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(from));
    LECTERN_RETURN_IF_ERROR(CheckPath(to));
    const std::wstring old_path = SystemPath(from), new_path = SystemPath(to);
    const bool is_done = WhileShared([&] {
      if (::MoveFileExW(old_path.c_str(), new_path.c_str(),
                        MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
        return true;
      }
      const DWORD error = ::GetLastError();
      const bool is_open =
          IsShared(error) || error == ERROR_ACCESS_DENIED || error == ERROR_USER_MAPPED_FILE;
      if (is_open && RenameOverOpenFile(old_path, new_path)) return true;
      ::SetLastError(error);
      return false;
    });
    return is_done ? Status() : LastError("rename to", to);
  }

  Status Remove(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(path));
    const std::wstring system_path = SystemPath(path);
    const DWORD attributes = ::GetFileAttributesW(system_path.c_str());
    if (attributes == INVALID_FILE_ATTRIBUTES) return LastError("remove", path);
    constexpr DWORD kDirectory = FILE_ATTRIBUTE_DIRECTORY, kLink = FILE_ATTRIBUTE_REPARSE_POINT;
    if ((attributes & (kDirectory | kLink)) == kDirectory)
      return ErrnoStatus(EISDIR, "remove", path);
    return RemoveFile(system_path, attributes) ? Status() : LastError("remove", path);
  }

  Status RemoveTree(const std::string& directory) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(directory));
    return RemoveAll(SystemPath(directory), directory);
  }

  Status MakeDirectory(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(path));
    if (IsDirectory(path)) return {};
    const std::string parent = ParentDirectory(path);
    if (parent != path && !IsDirectory(parent)) LECTERN_RETURN_IF_ERROR(MakeDirectory(parent));
    if (!::CreateDirectoryW(SystemPath(path).c_str(), nullptr)) {
      const DWORD error = ::GetLastError();
      if (error != ERROR_ALREADY_EXISTS || !IsDirectory(path)) {
        ::SetLastError(error);
        return LastError("create directory", path);
      }
    }
    return SyncDirectory(parent);
  }

  // Windows has no call for it. A file's own flush writes its entry too, since both are in the
  // volume's log; a rename is written through. Removals may come back after a crash.
  Status SyncDirectory(const std::string& path) override {
    return OpenDirectory(path, FILE_READ_ATTRIBUTES, kShareAll, false, "sync").status();
  }

  Result<std::vector<std::string>> List(const std::string& directory) override {
    LECTERN_RETURN_IF_ERROR(
        OpenDirectory(directory, FILE_READ_ATTRIBUTES, kShareAll, false, "list").status());
    return ReadNames(SystemPath(directory), directory, "list");
  }

  std::string Resolve(const std::string& path) override {
    if (!CheckPath(path).ok()) return path;
    const Handle file(::CreateFileW(SystemPath(path).c_str(), FILE_READ_ATTRIBUTES, kShareAll,
                                    nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, nullptr));
    if (file.get() == nullptr) return path;
    std::wstring real(::GetFinalPathNameByHandleW(file.get(), nullptr, 0, VOLUME_NAME_DOS), L'\0');
    const DWORD units = ::GetFinalPathNameByHandleW(
        file.get(), real.data(), static_cast<DWORD>(real.size()), VOLUME_NAME_DOS);
    if (units == 0 || units >= real.size()) return path;
    real.resize(units);
    if (real.starts_with(L"\\\\?\\UNC\\")) {
      real.replace(0, 8, L"\\\\");
    } else if (real.starts_with(L"\\\\?\\")) {
      real.erase(0, 4);
    }
    std::replace(real.begin(), real.end(), L'\\', L'/');
    return Narrow(real);
  }

  Result<FileInfo> Info(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(path));
    const Handle file(::CreateFileW(
        SystemPath(path).c_str(), FILE_READ_ATTRIBUTES, kShareAll, nullptr, OPEN_EXISTING,
        FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS, nullptr));
    if (file.get() == nullptr) {
      const int error = ErrnoOfSystem(static_cast<int>(::GetLastError()));
      if (error == ENOENT || error == ENOTDIR) return FileInfo();
      return LastError("read", path);
    }
    FileInfo found;
    found.type = FileInfo::Type::kOther;
    if (::GetFileType(file.get()) != FILE_TYPE_DISK) return found;
    BY_HANDLE_FILE_INFORMATION info;
    FILE_BASIC_INFO times;
    if (!::GetFileInformationByHandle(file.get(), &info) ||
        !::GetFileInformationByHandleEx(file.get(), FileBasicInfo, &times, sizeof times)) {
      return LastError("read", path);
    }
    if ((info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) == 0) {
      const bool is_directory = (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
      found.type = is_directory ? FileInfo::Type::kDirectory : FileInfo::Type::kRegular;
      if (!is_directory) found.bytes = Join(info.nFileSizeHigh, info.nFileSizeLow);
    }
    found.device = info.dwVolumeSerialNumber;
    found.inode = Join(info.nFileIndexHigh, info.nFileIndexLow);
    found.modified_ns = Nanoseconds(times.LastWriteTime.QuadPart);
    found.changed_ns = Nanoseconds(times.ChangeTime.QuadPart);
    return found;
  }

  // Asks for less than Info, which is several times as fast under Wine.
  Result<bool> Exists(const std::string& path) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(path));
    if (::GetFileAttributesW(SystemPath(path).c_str()) != INVALID_FILE_ATTRIBUTES) return true;
    const int error = ErrnoOfSystem(static_cast<int>(::GetLastError()));
    if (error == ENOENT || error == ENOTDIR) return false;
    return LastError("read", path);
  }

  Result<uint64_t> FreeBytes(const std::string& directory) override {
    LECTERN_RETURN_IF_ERROR(CheckPath(directory));
    ULARGE_INTEGER free;
    if (!::GetDiskFreeSpaceExW(SystemPath(directory).c_str(), &free, nullptr, nullptr)) {
      return LastError("read free space of", directory);
    }
    return free.QuadPart;
  }

  Access AccessTo(const std::string& directory) override {
    if (!IsDirectory(directory)) return Access::kNotWritable;
    // Opened as for a new file in it, which read-only volumes refuse. A lease that excludes this
    // says nothing about rights.
    const Handle writable(::CreateFileW(SystemPath(directory).c_str(), FILE_ADD_FILE, kShareAll,
                                        nullptr, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS,
                                        nullptr));
    if (writable.get() != nullptr || IsShared(::GetLastError())) return Access::kWritable;
    if (::GetLastError() == ERROR_WRITE_PROTECT) return Access::kReadOnlyMedia;
    DWORD flags = 0;
    const auto looked = OpenDirectory(directory, FILE_READ_ATTRIBUTES, kShareAll, false, "read");
    const bool is_read_only = looked.ok() &&
                              ::GetVolumeInformationByHandleW(looked->get(), nullptr, 0, nullptr,
                                                              nullptr, &flags, nullptr, 0) &&
                              (flags & FILE_READ_ONLY_VOLUME) != 0;
    return is_read_only ? Access::kReadOnlyMedia : Access::kNotWritable;
  }

  Result<std::unique_ptr<FileLock>> Lock(const std::string& path, int timeout_ms) override {
    LECTERN_ASSIGN(Handle file,
                   Open(path, GENERIC_READ | GENERIC_WRITE, kShareAll, OPEN_ALWAYS, "lock"));
    LECTERN_RETURN_IF_ERROR(RegularFileSize(file.get(), path, "lock").status());
    BY_HANDLE_FILE_INFORMATION info;
    if (!::GetFileInformationByHandle(file.get(), &info)) return LastError("lock", path);
    const FileId id{info.dwVolumeSerialNumber, Join(info.nFileIndexHigh, info.nFileIndexLow)};
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
    constexpr DWORD kFlags = LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY;
    for (;;) {
      OVERLAPPED at = At(kLockedByte);
      if (::LockFileEx(file.get(), kFlags, 0, 1, 0, &at)) break;
      const DWORD error = ::GetLastError();
      if (error != ERROR_LOCK_VIOLATION && error != ERROR_IO_PENDING)
        return LastError("lock", path);
      if (std::chrono::steady_clock::now() >= deadline) {
        return Status(
            Code::kLocked,
            path + (Locked().Has(id)
                        ? ": another engine of this program is changing the store; wait "
                          "until that is done, or use one engine for a store"
                        : ": another process holds this lock; try again when it is done"));
      }
      std::this_thread::sleep_for(kPoll);
    }
    return std::unique_ptr<FileLock>(new WindowsFileLock(std::move(file), id));
  }

  // A shared lease lists the directory and lets nobody else open it for writing; an exclusive one
  // opens it for writing and lets nobody else do so. Files in it are opened, renamed and removed
  // all the same: for these the system does not open the directory itself.
  Result<std::unique_ptr<FileLock>> LockDirectory(const std::string& directory,
                                                  Lease lease) override {
    const DWORD access =
        FILE_LIST_DIRECTORY | (lease == Lease::kExclusive ? DWORD{FILE_ADD_FILE} : 0);
    auto opened =
        OpenDirectory(directory, access, FILE_SHARE_READ | FILE_SHARE_DELETE, true, "read");
    if (!opened.ok()) {
      if (!IsShared(::GetLastError())) return opened.status();
      return Status(Code::kLocked, directory + ": another process reads or removes it");
    }
    return std::unique_ptr<FileLock>(new WindowsDirectoryLock(*std::move(opened)));
  }
};

}  // namespace

Env& Env::Default() {
  static WindowsEnv env;  // stateless
  return env;
}

}  // namespace lectern
