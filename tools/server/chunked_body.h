// Decodes request bodies that come in chunks (RFC 9112, 7.1), piece by piece as they arrive.
#ifndef LECTERN_TOOLS_SERVER_CHUNKED_BODY_H_
#define LECTERN_TOOLS_SERVER_CHUNKED_BODY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lectern::server {

// Not thread-safe. However the bytes are cut into pieces, the result is the same. Extensions and
// trailers are skipped: nobody here knows any.
class ChunkedBody {
 public:
  static constexpr size_t kMaxLine = 1024;         // of a size with its extensions
  static constexpr size_t kMaxTrailer = 8 * 1024;  // of all trailers together

  // Takes from the front of `bytes` what belongs to the body, all until it is done. Returns data,
  // which lies in the old `bytes`; empty where more bytes are needed or the body is done. nullopt:
  // the bytes are no chunks, or a line is too long, and nothing more can be taken.
  std::optional<std::string_view> Take(std::string_view& bytes);
  uint64_t left() const { return left_; }  // bytes of the chunk that are still to come
  bool is_done() const { return state_ == State::kDone; }

 private:
  enum class State { kSize, kData, kDataEnd, kTrailer, kDone, kBroken };
  bool TakeLine(std::string_view& bytes, size_t max);
  bool EndLine();
  bool ParseSize();

  State state_ = State::kSize;
  std::string line_;  // the one that is not complete, without its line feed
  uint64_t left_ = 0;
  size_t trailer_bytes_ = 0;
};

}  // namespace lectern::server

#endif  // LECTERN_TOOLS_SERVER_CHUNKED_BODY_H_
