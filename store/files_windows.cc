#include "store/files_windows.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "store/system_error.h"

namespace lectern {
namespace {

constexpr uint64_t kMaxTransfer = uint64_t{1} << 30;  // bytes of one call, which takes 32 bits

// Whether a range lies within the offsets that files can have.
bool FitsOffset(uint64_t offset, uint64_t bytes) {
  return offset <= kMaxOffset && bytes <= kMaxOffset - offset;
}

// The error for a range that FitsOffset refuses.
Status TooLarge(const std::string& path) {
  return Status(Code::kLimitExceeded, path + ": offset beyond what files can have");
}

// Reads exactly `bytes` bytes.
Status ReadFully(HANDLE file, const std::string& path, uint64_t offset, void* data, size_t bytes) {
  if (!FitsOffset(offset, bytes)) return TooLarge(path);
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    OVERLAPPED at = At(offset);
    DWORD n = 0;
    const auto part = static_cast<DWORD>(std::min<uint64_t>(bytes, kMaxTransfer));
    if (!::ReadFile(file, to, part, &n, &at)) {
      if (::GetLastError() != ERROR_HANDLE_EOF) {
        return LastError("read byte " + std::to_string(offset) + " of", path);
      }
      n = 0;
    }
    if (n == 0) {
      return Status(Code::kTruncated, path + ": the file is cut short: it ends before byte " +
                                          std::to_string(offset));
    }
    to += n;
    offset += n;
    bytes -= n;
  }
  return {};
}

class WindowsWritableFile : public WritableFile {
 public:
  WindowsWritableFile(Handle file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  Status WriteAt(uint64_t offset, const void* data, size_t bytes) override {
    if (!FitsOffset(offset, bytes)) return TooLarge(path_);
    if (file_.get() == nullptr) return Closed("write");
    const char* from = static_cast<const char*>(data);
    while (bytes > 0) {
      OVERLAPPED at = At(offset);
      DWORD n = 0;
      const auto part = static_cast<DWORD>(std::min<uint64_t>(bytes, kMaxTransfer));
      if (!::WriteFile(file_.get(), from, part, &n, &at)) return LastError("write", path_);
      if (n == 0) return ErrnoStatus(EIO, "write", path_);
      from += n;
      offset += n;
      bytes -= n;
    }
    return {};
  }

  Status ReadAt(uint64_t offset, void* data, size_t bytes) const override {
    if (bytes > 0 && file_.get() == nullptr) return Closed("read");
    return ReadFully(file_.get(), path_, offset, data, bytes);
  }

  Status Allocate(uint64_t bytes) override {
    if (!FitsOffset(0, bytes)) return TooLarge(path_);
    if (bytes == 0) return {};
    if (file_.get() == nullptr) return Closed("reserve space for");
    LECTERN_ASSIGN(const uint64_t size, RegularFileSize(file_.get(), path_, "reserve space for"));
    if (size >= bytes) return {};  // a smaller allocation would cut the file
    FILE_ALLOCATION_INFO space;
    space.AllocationSize.QuadPart = static_cast<int64_t>(bytes);
    FILE_END_OF_FILE_INFO end;
    end.EndOfFile.QuadPart = static_cast<int64_t>(bytes);
    // File systems that cannot reserve say so; then setting the length is all that is possible.
    if (!::SetFileInformationByHandle(file_.get(), FileAllocationInfo, &space, sizeof space) &&
        ErrnoOfSystem(static_cast<int>(::GetLastError())) == ENOSPC) {
      return LastError("reserve space for", path_);
    }
    if (!::SetFileInformationByHandle(file_.get(), FileEndOfFileInfo, &end, sizeof end)) {
      return LastError("reserve space for", path_);
    }
    return {};
  }

  Status Sync() override {
    if (file_.get() == nullptr) return Closed("sync");
    return ::FlushFileBuffers(file_.get()) ? Status() : LastError("sync", path_);
  }

  Status Close() override {
    const HANDLE file = file_.Release();
    if (file != nullptr && !::CloseHandle(file)) return LastError("close", path_);
    return {};
  }

 private:
  Status Closed(const char* action) const { return ErrnoStatus(EBADF, action, path_); }

  Handle file_;
  std::string path_;
};

uint64_t PageBytes() {
  SYSTEM_INFO info;
  ::GetSystemInfo(&info);
  return info.dwPageSize;
}

// Hints that [data, data + bytes) will be read; the result does not matter.
void Prefetch(void* data, uint64_t bytes) {
  WIN32_MEMORY_RANGE_ENTRY range{data, static_cast<SIZE_T>(bytes)};
  ::PrefetchVirtualMemory(::GetCurrentProcess(), 1, &range, 0);
}

// A view of the file's pages, read-only. While it lives, Windows lets nobody cut the file short, so
// that of the losses that MappedFile names a failing disk is left. An empty file has no view.
class WindowsMappedFile : public MappedFile {
 public:
  WindowsMappedFile() = default;
  ~WindowsMappedFile() override {
    if (data_ != nullptr) ::UnmapViewOfFile(data_);
  }
  WindowsMappedFile(const WindowsMappedFile&) = delete;
  WindowsMappedFile& operator=(const WindowsMappedFile&) = delete;
  // Maps `size` > 0 bytes. False, with the system's last error: nothing is mapped.
  bool MapPages(HANDLE file, uint64_t size) {
    const Handle mapping(::CreateFileMappingW(file, nullptr, PAGE_READONLY, 0, 0, nullptr));
    if (mapping.get() == nullptr) return false;
    data_ = ::MapViewOfFile(mapping.get(), FILE_MAP_READ, 0, 0, static_cast<SIZE_T>(size));
    if (data_ != nullptr) size_ = size;
    return data_ != nullptr;
  }

  const std::byte* data() const override { return static_cast<const std::byte*>(data_); }
  uint64_t size() const override { return size_; }
  void WillNeed(uint64_t offset, uint64_t bytes) const override {
    if (offset >= size_) return;
    Prefetch(static_cast<char*>(data_) + offset, std::min(bytes, size_ - offset));
  }
  // To unlock pages that nobody locked takes them out of the process's working set.
  void DontNeed(uint64_t offset, uint64_t bytes) const override {
    if (offset >= size_ || bytes == 0) return;
    ::VirtualUnlock(static_cast<char*>(data_) + offset,
                    static_cast<SIZE_T>(std::min(bytes, size_ - offset)));
  }

 private:
  void* data_ = nullptr;
  uint64_t size_ = 0;
};

// Memory of the file's size, into which ranges are copied when they are loaded. Windows counts all
// of it against what the system may hand out, but gives pages only to what was loaded.
class WindowsMirror : public MappedFile {
 public:
  WindowsMirror(Handle file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}
  ~WindowsMirror() override {
    if (data_ != nullptr) ::VirtualFree(data_, 0, MEM_RELEASE);
  }
  WindowsMirror(const WindowsMirror&) = delete;
  WindowsMirror& operator=(const WindowsMirror&) = delete;
  // Takes the memory for `size` > 0 bytes. False, with the system's last error: there is none.
  bool Take(uint64_t size) {
    data_ = static_cast<char*>(::VirtualAlloc(nullptr, static_cast<SIZE_T>(size),
                                              MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE));
    if (data_ != nullptr) size_ = size;
    return data_ != nullptr;
  }

  const std::byte* data() const override { return reinterpret_cast<const std::byte*>(data_); }
  uint64_t size() const override { return size_; }
  Status Load(uint64_t offset, uint64_t bytes) const override {
    return ReadAt(offset, data_ + offset, bytes);
  }
  Status ReadAt(uint64_t offset, void* to, size_t bytes) const override {
    return ReadFully(file_.get(), path_, offset, to, bytes);
  }
  // Windows has no such hint for a file that is not mapped.
  void WillNeed(uint64_t, uint64_t) const override {}
  void DontNeed(uint64_t offset, uint64_t bytes) const override {
    // Only whole pages inside the range may go; their neighbours may be in use.
    const uint64_t page = PageBytes();
    const uint64_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
    if (begin >= end) return;
    const auto length = static_cast<SIZE_T>(end - begin);
    // Taken again at once: pages that read as zeros, and no memory before they are written to.
    // Where others took what the system may hand out meanwhile, this waits until it is there again.
    if (::VirtualFree(data_ + begin, length, MEM_DECOMMIT)) {
      while (!::VirtualAlloc(data_ + begin, length, MEM_COMMIT, PAGE_READWRITE)) ::Sleep(1);
    }
  }

 private:
  const Handle file_;
  const std::string path_;
  char* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace

Result<uint64_t> RegularFileSize(HANDLE file, const std::string& path, const char* action) {
  const auto not_regular = [&] {
    return Status(Code::kIoError, path + ": not a regular file; move it away and try again");
  };
  if (::GetFileType(file) != FILE_TYPE_DISK) return not_regular();
  // GetFileInformationByHandle would ask for the volume's number, too, which takes Wine a call to
  // another process, as long as all else of opening a shard.
  FILE_BASIC_INFO basic;
  FILE_STANDARD_INFO standard;
  if (!::GetFileInformationByHandleEx(file, FileBasicInfo, &basic, sizeof basic) ||
      !::GetFileInformationByHandleEx(file, FileStandardInfo, &standard, sizeof standard)) {
    return LastError(action, path);
  }
  constexpr DWORD kOther = FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT;
  if ((basic.FileAttributes & kOther) != 0) return not_regular();
  return static_cast<uint64_t>(standard.EndOfFile.QuadPart);
}

std::unique_ptr<WritableFile> MakeWritable(Handle file, std::string path) {
  return std::make_unique<WindowsWritableFile>(std::move(file), std::move(path));
}

Result<std::unique_ptr<MappedFile>> MakeMapping(HANDLE file, uint64_t size,
                                                const std::string& path) {
  auto mapped = std::make_unique<WindowsMappedFile>();
  if (size > 0 && !mapped->MapPages(file, size)) return LastError("map", path);
  return std::unique_ptr<MappedFile>(std::move(mapped));
}

Result<std::unique_ptr<MappedFile>> MakeMirror(Handle file, uint64_t size,
                                               const std::string& path) {
  auto mirror = std::make_unique<WindowsMirror>(std::move(file), path);
  if (size > 0 && !mirror->Take(size)) return LastError("read", path);
  return std::unique_ptr<MappedFile>(std::move(mirror));
}

}  // namespace lectern
