// CRC-32C (Castagnoli), the checksum of every byte that a store holds.
#ifndef LECTERN_STORE_CRC32C_H_
#define LECTERN_STORE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace lectern {

// Continues a checksum: Crc32c(Crc32c(0, a), b) == Crc32c(0, a ++ b). Uses SSE4.2 or ARMv8
// instructions where the CPU has them.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size);
using Crc32cFunction = uint32_t (*)(uint32_t crc, const void* data, size_t size);
// The version of Crc32c for a CPU with such instructions, or the one by table, which is the
// definition. For tests.
Crc32cFunction Crc32cOn(bool has_instruction);

}  // namespace lectern

#endif  // LECTERN_STORE_CRC32C_H_
