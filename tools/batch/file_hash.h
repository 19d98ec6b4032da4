// SHA-256 of files as hexadecimal text, in which the database and the bucket keep it.
#ifndef LECTERN_TOOLS_BATCH_FILE_HASH_H_
#define LECTERN_TOOLS_BATCH_FILE_HASH_H_

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "engine/lectern.h"

namespace lectern::batch {

struct FileHash {
  uint64_t bytes = 0;  // that were hashed
  std::string sha256;  // 64 hex digits
};

std::string HexOf(const std::array<uint8_t, 32>& digest);
bool IsSha256(std::string_view text);  // whether it is 64 small hex digits

// Hashes at most `bytes` bytes of the file from `offset` on. IO_ERROR: it cannot be read.
api::Result<FileHash> HashFile(const std::string& path, uint64_t offset = 0,
                               uint64_t bytes = std::numeric_limits<uint64_t>::max());
std::string HashText(std::string_view text);

}  // namespace lectern::batch

#endif  // LECTERN_TOOLS_BATCH_FILE_HASH_H_
