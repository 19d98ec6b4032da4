// CRC-32C (Castagnoli), the checksum of every stored byte.
#ifndef LECTERN_STORE_CRC32C_H_
#define LECTERN_STORE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace lectern {

// Crc32c(Crc32c(0, a), b) == Crc32c(0, a ++ b). SSE4.2 or ARMv8 instructions where present.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size);
// The same by table, one byte a step: what runs on other CPUs, and the definition.
uint32_t Crc32cTable(uint32_t crc, const void* data, size_t size);

}  // namespace lectern

#endif  // LECTERN_STORE_CRC32C_H_
