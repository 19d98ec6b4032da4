#include <sys/mman.h>
#include <unistd.h>

#include "store/reserved_memory.h"

namespace lectern {

// MAP_NORESERVE, so that the system does not count pages that nobody has used.
char* ReserveMemory(uint64_t bytes) {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

void FreeMemory(char* memory, uint64_t bytes) { ::munmap(memory, bytes); }

bool TakePages(char*, uint64_t) { return true; }

void DropPages(char* memory, uint64_t offset, uint64_t bytes) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t begin = (offset + page - 1) / page * page, end = (offset + bytes) / page * page;
  if (begin < end) ::madvise(memory + begin, end - begin, MADV_DONTNEED);
}

}  // namespace lectern
