// Makes ids that cannot be guessed, for sessions and jobs: whoever knows one may use it, so that
// the id is the permission. Any thread.
#ifndef LECTERN_TOOLS_SERVER_RANDOM_ID_H_
#define LECTERN_TOOLS_SERVER_RANDOM_ID_H_

#include <optional>
#include <string>

#include "tools/server/system.h"

namespace lectern::server {

// 32 hex digits, 128 bits of the system's randomness; nothing: it has none.
inline std::optional<std::string> RandomId() {
  unsigned char bytes[16];
  if (!FillRandom(bytes, sizeof bytes)) return std::nullopt;
  constexpr char kDigits[] = "0123456789abcdef";
  std::string id;
  for (const unsigned char byte : bytes) {
    id += kDigits[byte >> 4];
    id += kDigits[byte & 15];
  }
  return id;
}

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_RANDOM_ID_H_
