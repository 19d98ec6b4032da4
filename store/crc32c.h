// CRC-32C (Castagnoli), the checksum of every stored byte.
#ifndef LECTERN_STORE_CRC32C_H_
#define LECTERN_STORE_CRC32C_H_

#include <cstddef>
#include <cstdint>

namespace lectern {

// Crc32c(Crc32c(0, a), b) == Crc32c(0, a ++ b). SSE4.2 or ARMv8 instructions where present.
uint32_t Crc32c(uint32_t crc, const void* data, size_t size);
using Crc32cFunction = uint32_t (*)(uint32_t crc, const void* data, size_t size);
// Crc32c as it is on a CPU with such instructions, or without: by table, the definition.
Crc32cFunction Crc32cOn(bool has_instruction);

}  // namespace lectern

#endif  // LECTERN_STORE_CRC32C_H_
