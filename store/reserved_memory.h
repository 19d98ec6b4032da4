// Addresses for more bytes than a process may take memory for; pages get memory when they are used.
// All functions may be called by any thread, but not two of them for the same pages at once.
#ifndef LECTERN_STORE_RESERVED_MEMORY_H_
#define LECTERN_STORE_RESERVED_MEMORY_H_

#include <cstdint>

namespace lectern {

// Reserves addresses for `bytes`, above 0, beginning at a page. nullptr: there are none.
char* ReserveMemory(uint64_t bytes);
// Gives all of it back. `bytes`: as reserved.
void FreeMemory(char* memory, uint64_t bytes);

// Makes the bytes at `at` readable and writable; those of pages that are in use stay. Call it
// before they are touched. false: the system has no memory for them, which on POSIX shows only when
// they are touched.
bool TakePages(char* at, uint64_t bytes);
// Gives back the memory of the whole pages inside [offset, offset + bytes) of reserved memory:
// neighbours of the range on its first and last page may be in use. TakePages makes them readable
// again, with other content.
void DropPages(char* memory, uint64_t offset, uint64_t bytes);

}  // namespace lectern

#endif  // LECTERN_STORE_RESERVED_MEMORY_H_
