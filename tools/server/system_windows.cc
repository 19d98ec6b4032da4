#include <windows.h>

#include <bcrypt.h>
#include <psapi.h>

#include <filesystem>
#include <string>

#include "store/env.h"
#include "store/system_windows.h"
#include "tools/server/random_id.h"
#include "tools/server/system.h"

namespace lectern::server {
namespace {

// The folder of the user's temporary files: $TMPDIR, as on other systems, else the system's own.
std::string TemporaryFiles() {
  wchar_t given[32768];
  const DWORD size =
      ::GetEnvironmentVariableW(L"TMPDIR", given, static_cast<DWORD>(std::size(given)));
  if (size > 0 && size < std::size(given)) return Narrow({given, size});
  wchar_t path[MAX_PATH + 2];
  const DWORD length = ::GetTempPathW(static_cast<DWORD>(std::size(path)), path);
  std::string parent = Narrow({path, length});
  while (parent.ends_with('\\')) parent.pop_back();
  return parent;
}

}  // namespace

bool FillRandom(void* bytes, size_t size) {
  return ::BCryptGenRandom(nullptr, static_cast<PUCHAR>(bytes), static_cast<ULONG>(size),
                           BCRYPT_USE_SYSTEM_PREFERRED_RNG) == 0;
}

void KeepHeapSmall() {}  // its heap does

// The heap does not count; the process's private memory is what it can hold at most.
uint64_t HeapBytes() {
  PROCESS_MEMORY_COUNTERS memory = {};
  return ::K32GetProcessMemoryInfo(::GetCurrentProcess(), &memory, sizeof memory)
             ? memory.PagefileUsage
             : 0;
}

std::variant<std::string, FolderFault> MakeTemporaryFolder() {
  const std::string parent = TemporaryFiles();
  const std::optional<std::string> id = RandomId();
  if (!id) return FolderFault{parent, "the system has no randomness"};
  std::string path = parent + "\\lectern-upload-" + *id;
  const Status made = Env::Default().MakeDirectory(path);
  if (!made.ok()) return FolderFault{parent, made.message()};
  return path;
}

}  // namespace lectern::server
