// A body in chunks is the same however its bytes are cut into pieces, and written out anew.
#include "tools/server/chunked_body.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

using lectern::server::ChunkedBody;

void Check(bool holds) {
  if (!holds) std::abort();
}

struct Decoded {
  std::string data;
  bool is_broken = false, is_done = false;
  size_t taken = 0;  // where it is done
};

// `piece`: bytes that come at a time.
Decoded Decode(std::string_view bytes, size_t piece) {
  Decoded decoded;
  ChunkedBody body;
  for (size_t at = 0; at < bytes.size() && !body.is_done();) {
    const std::string copy(bytes.substr(at, piece));  // of its own, so that no byte behind is read
    std::string_view rest = copy;
    while (!rest.empty() && !body.is_done()) {
      const size_t before = rest.size();
      const auto data = body.Take(rest);
      if (!data) {
        decoded.is_broken = true;
        return decoded;
      }
      Check(rest.size() < before);  // it goes on
      decoded.data += *data;
    }
    at += copy.size() - rest.size();
    decoded.taken = at;
  }
  decoded.is_done = body.is_done();
  return decoded;
}

void CheckSame(const Decoded& a, const Decoded& b) {
  Check(a.is_broken == b.is_broken);
  if (a.is_broken) return;
  Check(a.data == b.data && a.is_done == b.is_done && (!a.is_done || a.taken == b.taken));
}

std::string Encode(std::string_view data, size_t piece) {
  std::string text;
  while (!data.empty()) {
    const std::string_view part = data.substr(0, piece);
    data.remove_prefix(part.size());
    char size[20];
    std::snprintf(size, sizeof size, "%zX\r\n", part.size());
    text.append(size).append(part).append("\r\n");
  }
  return text + "0\r\n\r\n";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Decoded whole = Decode(bytes, std::max<size_t>(1, bytes.size()));
  CheckSame(Decode(bytes, 1), whole);
  CheckSame(Decode(bytes, 7), whole);
  if (!whole.is_done) return 0;
  Check(bytes.substr(0, whole.taken).ends_with("\r\n"));
  const Decoded again = Decode(Encode(whole.data, 1 + size % 50), 11);
  Check(again.is_done && again.data == whole.data);
  return 0;
}
