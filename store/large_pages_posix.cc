#include "store/large_pages_posix.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

namespace lectern {

#if defined(MADV_HUGEPAGE) && defined(MREMAP_FIXED)

bool HasLargePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");  // "always [madvise] never"
  std::string line;
  return std::getline(file, line) && line.find("[never]") == line.npos;
}

bool MoveToLargePage(char* from, uint64_t bytes) {
  void* const copy = ReserveLargePages(kLargePage, PROT_READ | PROT_WRITE);
  if (copy == nullptr) return false;
  ::madvise(copy, kLargePage, MADV_HUGEPAGE);
  std::memcpy(copy, from, bytes);
  if (::mprotect(copy, kLargePage, PROT_READ) == 0 &&
      ::mremap(copy, kLargePage, kLargePage, MREMAP_MAYMOVE | MREMAP_FIXED, from) != MAP_FAILED) {
    return true;
  }
  ::munmap(copy, kLargePage);
  return false;
}

#else

bool HasLargePages() { return false; }

bool MoveToLargePage(char*, uint64_t) { return false; }

#endif

void* ReserveLargePages(uint64_t bytes, int protection) {
  if (bytes > SIZE_MAX - kLargePage) return errno = ENOMEM, nullptr;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const reserved = ::mmap(nullptr, bytes + kLargePage, protection, kFlags, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(reserved);
  const uint64_t before = -reinterpret_cast<uintptr_t>(reserved) % kLargePage;
  if (before > 0) ::munmap(begin, before);
  ::munmap(begin + before + bytes, kLargePage - before);
  return begin + before;
}

}  // namespace lectern
