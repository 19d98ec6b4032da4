// The few things beside sockets that the server asks of the system.
#ifndef LECTERN_TOOLS_SERVER_SYSTEM_H_
#define LECTERN_TOOLS_SERVER_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>

namespace lectern::server {

// Fills `bytes` with randomness for secrets. False: the system has none. Any thread.
bool FillRandom(void* bytes, size_t size);

// Makes the heap give freed memory back to the system. Call it before there are threads.
void KeepHeapSmall();

// Bytes of the heap that are allocated and not freed; on Windows all private memory. 0: unknown.
uint64_t HeapBytes();

struct FolderFault {
  std::string parent, why;  // where the folder should have been, and the system's reason
};
// Makes a folder of a new name among the user's temporary files, in $TMPDIR where that is set; on
// POSIX only the user may read it. Its path.
std::variant<std::string, FolderFault> MakeTemporaryFolder();

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_SYSTEM_H_
