// CRC-32C (Castagnoli; RFC 3720, appendix B.4), the checksum over every byte that a store holds.
// Pure functions; any thread.
#ifndef LECTERN_STORE_CRC32C_H_
#define LECTERN_STORE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace lectern {

// Continues the checksum `crc` (0 to begin) with more bytes: Crc32c(Crc32c(0, a), b) ==
// Crc32c(0, a ++ b). Uses SSE4.2 or ARMv8 instructions where the CPU has them, else a table. `data`
// may be nullptr where `size` is 0.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size);
// The checksum of two texts in a row from those of each: Crc32cJoin(Crc32c(0, a), Crc32c(0, b),
// size of b) == Crc32c(0, a ++ b). For bytes that are not made in their order.
uint32_t Crc32cJoin(uint32_t first, uint32_t second, size_t second_size);
using Crc32cFunction = uint32_t (*)(uint32_t crc, const void* data, size_t size);
// The version of Crc32c for a CPU that has such instructions, or the version by table, which is the
// definition. For tests, which compare the two. Do not call the first on a CPU without them.
// Where the build knows no such instructions, both use the table.
Crc32cFunction Crc32cOn(bool has_instruction);

}  // namespace lectern

#endif  // LECTERN_STORE_CRC32C_H_
