#include "tools/batch/file_hash.h"

#include <algorithm>
#include <fstream>
#include <vector>

#include "engine/model/formats/sha256.h"

namespace lectern::batch {

std::string HexOf(const std::array<uint8_t, 32>& digest) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : digest) text.append({kHex[byte >> 4], kHex[byte & 15]});
  return text;
}

bool IsSha256(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

api::Result<FileHash> HashFile(const std::string& path, uint64_t offset, uint64_t bytes) {
  std::ifstream file(path, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  Sha256 hash;
  FileHash result;
  std::vector<char> buffer(1 << 20);
  while (file && result.bytes < bytes) {
    const uint64_t wanted = std::min<uint64_t>(buffer.size(), bytes - result.bytes);
    file.read(buffer.data(), static_cast<std::streamsize>(wanted));
    const auto got = static_cast<uint64_t>(file.gcount());
    hash.Update(buffer.data(), got);
    result.bytes += got;
  }
  if (!file.is_open() || file.bad()) {
    return api::Error{LECTERN_IO_ERROR, "\"" + path + "\": cannot be read", "file"};
  }
  result.sha256 = HexOf(hash.Finish());
  return result;
}

std::string HashText(std::string_view text) {
  Sha256 hash;
  hash.Update(text.data(), text.size());
  return HexOf(hash.Finish());
}

}  // namespace lectern::batch
