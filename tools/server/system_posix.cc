#include <malloc.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>

#include "tools/server/system.h"

namespace lectern::server {

bool FillRandom(void* bytes, size_t size) { return ::getentropy(bytes, size) == 0; }

void KeepHeapSmall() {
  // glibc's default, up to eight arenas for each core, keeps more freed memory: with four questions
  // at a time 26 MB of anonymous memory at the most, with two arenas 14 MB.
  mallopt(M_ARENA_MAX, 2);
  // Blocks from 256 KiB on are mapped, so that a session's memory goes back to the system when the
  // session ends. In the heap, gaps between blocks of other sessions would grow with the hours.
  mallopt(M_MMAP_THRESHOLD, 256 << 10);
}

uint64_t HeapBytes() {
  const struct mallinfo2 heap = mallinfo2();
  return heap.uordblks + heap.hblkhd;
}

std::variant<std::string, FolderFault> MakeTemporaryFolder() {
  const char* const given = std::getenv("TMPDIR");
  const std::string parent = given && *given ? given : "/tmp";
  std::string path = parent + "/lectern-upload-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return FolderFault{parent, std::generic_category().message(errno)};
  }
  return path;
}

}  // namespace lectern::server
