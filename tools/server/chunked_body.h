// Decodes request bodies that come in chunks (RFC 9112, 7.1), piece by piece as they arrive.
#ifndef LECTERN_TOOLS_SERVER_CHUNKED_BODY_H_
#define LECTERN_TOOLS_SERVER_CHUNKED_BODY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lectern::server {

// Not thread-safe. The result does not depend on how the bytes are cut into pieces. Extensions and
// trailers are checked for length and skipped: the server knows none.
class ChunkedBody {
 public:
  static constexpr size_t kMaxLine = 1024;         // of a size with its extensions
  static constexpr size_t kMaxTrailer = 8 * 1024;  // of all trailers together

  // Takes from the front of `bytes` what belongs to the body; once the body is done, nothing, so
  // that what is left begins the next request. Returns data, which lies in the memory of the old
  // `bytes`; empty: more bytes are needed, or the body is done. Call it until `bytes` is empty or
  // is_done. nullopt: the bytes are no chunks, or a line is too long; so says every later call.
  std::optional<std::string_view> Take(std::string_view& bytes);
  uint64_t left() const { return left_; }  // data bytes of this chunk that are still to come
  bool is_done() const { return state_ == State::kDone; }

 private:
  enum class State { kSize, kData, kDataEnd, kTrailer, kDone, kBroken };
  // Moves a line, or the part of it that has come, from `bytes` to line_, and acts on a whole one
  // (EndLine). `max`: most bytes of the line with its CR, without its LF. False, and the body is
  // broken: the line is longer, does not end with CR LF (proxies read a lone LF differently), or
  // may not stand here.
  bool TakeLine(std::string_view& bytes, size_t max);
  // Acts on the whole line_, without CR LF, by the state: a chunk's size, the end of a chunk's
  // data, or a trailer, of which an empty one ends the body. Sets the next state. False: the line
  // may not stand here, or the trailers are too long.
  bool EndLine();
  // Reads a chunk's size from line_ into left_: 1 to 15 hexadecimal digits, then nothing or
  // ";extension"; blanks may stand before the semicolon. The state is then kData, after a size of
  // 0, which ends the data, kTrailer. False: line_ is none, and nothing changes.
  bool ParseSize();

  State state_ = State::kSize;
  std::string line_;  // the bytes of a line that is not complete yet
  uint64_t left_ = 0;
  size_t trailer_bytes_ = 0;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CHUNKED_BODY_H_
