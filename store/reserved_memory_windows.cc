#include <windows.h>

#include "store/reserved_memory.h"

namespace lectern {

// Without memory: Windows counts all that is taken, whether used or not.
char* ReserveMemory(uint64_t bytes) {
  return static_cast<char*>(
      ::VirtualAlloc(nullptr, static_cast<SIZE_T>(bytes), MEM_RESERVE, PAGE_READWRITE));
}

void FreeMemory(char* memory, uint64_t) { ::VirtualFree(memory, 0, MEM_RELEASE); }

bool TakePages(char* at, uint64_t bytes) {
  return bytes == 0 ||
         ::VirtualAlloc(at, static_cast<SIZE_T>(bytes), MEM_COMMIT, PAGE_READWRITE) != nullptr;
}

void DropPages(char* memory, uint64_t offset, uint64_t bytes) {
  SYSTEM_INFO info;
  ::GetSystemInfo(&info);
  const uint64_t page = info.dwPageSize;
  const uint64_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
  if (begin < end) ::VirtualFree(memory + begin, static_cast<SIZE_T>(end - begin), MEM_DECOMMIT);
}

}  // namespace lectern
