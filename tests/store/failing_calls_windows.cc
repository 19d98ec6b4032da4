// Programs call kernel32 through the table of addresses that their loader has filled in: ours take
// its places there.
#include <windows.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/store/failing_calls.h"

namespace lectern {
namespace {

CallPlan own_plan;
CallPlan* plan = &own_plan;

// A plan that cannot be had would be a test that tests nothing.
void TakeSharedPlan() {
  const char* const path = std::getenv(kCallPlanVariable);
  if (path == nullptr) return;
  const HANDLE file =
      CreateFileA(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, nullptr,
                  OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, nullptr);
  const HANDLE mapping = CreateFileMappingA(file, nullptr, PAGE_READWRITE, 0, 0, nullptr);
  void* const shared = MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, sizeof(CallPlan));
  CloseHandle(mapping);
  CloseHandle(file);
  if (shared == nullptr) {
    std::fprintf(stderr, "%s: no plan\n", path);
    std::abort();
  }
  plan = static_cast<CallPlan*>(shared);
}

CallFault Next() {
  const int64_t call = plan->num_calls++;
  return call == plan->at || (plan->sticky && call > plan->at) ? plan->fault : CallFault::kNone;
}

void EndNow() { TerminateProcess(GetCurrentProcess(), kKilledStatus); }

// True: the call fails; GetLastError says how.
bool Fails() {
  const CallFault fault = Next();
  if (fault == CallFault::kKill) EndNow();
  if (fault != CallFault::kError) return false;
  SetLastError(static_cast<DWORD>(plan->error));
  return true;
}

// The result of a call that fails.
template <typename Result>
Result Failed() {
  if constexpr (std::is_same_v<Result, HANDLE>) {
    return INVALID_HANDLE_VALUE;
  } else if constexpr (std::is_same_v<Result, DWORD>) {
    return INVALID_FILE_ATTRIBUTES;
  } else {
    return Result{};
  }
}

// Our function in the place of kernel32's of the same type; `kCall` keeps apart those of one type.
template <typename Function, int kCall>
struct Replaced;
template <typename Result, typename... Arguments, int kCall>
struct Replaced<Result(WINAPI*)(Arguments...), kCall> {
  static inline Result(WINAPI* real)(Arguments...) = nullptr;
  static Result WINAPI Ours(Arguments... arguments) {
    return Fails() ? Failed<Result>() : real(arguments...);
  }
};

decltype(&WriteFile) real_write = nullptr;

BOOL WINAPI Write(HANDLE file, const void* bytes, DWORD size, DWORD* written, OVERLAPPED* at) {
  const CallFault fault = Next();
  if (fault == CallFault::kError) {
    SetLastError(static_cast<DWORD>(plan->error));
    return FALSE;
  }
  if (fault == CallFault::kShortWrite || fault == CallFault::kKill) size -= size / 2;
  const BOOL is_written = real_write(file, bytes, size, written, at);
  if (fault == CallFault::kKill) EndNow();
  return is_written;
}

// Puts `ours` into the table's place of the function `name`, and its address before into `real`.
template <typename Function>
void Replace(std::string_view name, Function ours, Function& real) {
  auto* const program = reinterpret_cast<std::byte*>(GetModuleHandleW(nullptr));
  const auto* const dos = reinterpret_cast<const IMAGE_DOS_HEADER*>(program);
  const auto* const head = reinterpret_cast<const IMAGE_NT_HEADERS*>(program + dos->e_lfanew);
  const IMAGE_DATA_DIRECTORY& imports =
      head->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT];
  const auto* library =
      reinterpret_cast<const IMAGE_IMPORT_DESCRIPTOR*>(program + imports.VirtualAddress);
  for (; library->Name != 0; ++library) {
    const auto* asked =
        reinterpret_cast<const IMAGE_THUNK_DATA*>(program + library->OriginalFirstThunk);
    auto* address = reinterpret_cast<IMAGE_THUNK_DATA*>(program + library->FirstThunk);
    for (; asked->u1.AddressOfData != 0; ++asked, ++address) {
      if (IMAGE_SNAP_BY_ORDINAL(asked->u1.Ordinal)) continue;
      const auto* const import =
          reinterpret_cast<const IMAGE_IMPORT_BY_NAME*>(program + asked->u1.AddressOfData);
      if (name != reinterpret_cast<const char*>(import->Name)) continue;
      real = reinterpret_cast<Function>(address->u1.Function);
      DWORD before = 0;
      VirtualProtect(address, sizeof *address, PAGE_READWRITE, &before);
      address->u1.Function = reinterpret_cast<ULONGLONG>(ours);
    }
  }
}

#define REPLACE(name)                                        \
  Replace(#name, &Replaced<decltype(&name), __LINE__>::Ours, \
          Replaced<decltype(&name), __LINE__>::real)

// Before main. Calls that only give something back stay as they are: without them the next run of
// the same process would not find what this one had.
struct Replacements {
  Replacements() {
    TakeSharedPlan();
    Replace("WriteFile", &Write, real_write);
    REPLACE(CreateDirectoryW);
    REPLACE(CreateFileW);
    REPLACE(DeleteFileW);
    REPLACE(FindFirstFileExW);
    REPLACE(FindNextFileW);
    REPLACE(FlushFileBuffers);
    REPLACE(GetFileAttributesExW);
    REPLACE(GetFileAttributesW);
    REPLACE(GetFileInformationByHandle);
    REPLACE(GetFileInformationByHandleEx);
    REPLACE(GetFileSizeEx);
    REPLACE(LockFile);
    REPLACE(LockFileEx);
    REPLACE(MoveFileExW);
    REPLACE(ReadFile);
    REPLACE(RemoveDirectoryW);
    REPLACE(SetEndOfFile);
    REPLACE(SetFileInformationByHandle);
  }
} replacements;

}  // namespace

CallPlan& TheCallPlan() { return *plan; }

int RunWithPlan(const std::function<Status()>& run, const CallPlan& with) {
  *plan = with;
  const Status status = run();
  *plan = CallPlan();
  if (status.code() == Code::kInternal) std::fprintf(stderr, "%s\n", status.message().c_str());
  return status.ok() ? 0 : status.code() == Code::kInternal ? 2 : 1;
}

const bool kCanKill = false;
const char* const kErrorsOfCalls =
    "ERROR_CRC DISK_FULL TOO_MANY_OPEN_FILES WRITE_PROTECT NOT_ENOUGH_MEMORY short";

// Without ERROR_ACCESS_DENIED and ERROR_SHARING_VIOLATION: SQLite and the store try again for a
// while after them, since virus scanners open files.
std::vector<int> ErrorsOfCalls() {
  return {ERROR_CRC,           ERROR_DISK_FULL,         ERROR_TOO_MANY_OPEN_FILES,
          ERROR_WRITE_PROTECT, ERROR_NOT_ENOUGH_MEMORY, 0};
}

}  // namespace lectern
