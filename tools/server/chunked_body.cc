#include "tools/server/chunked_body.h"

#include <algorithm>

#include "tools/server/ascii.h"

namespace lectern::server {

std::optional<std::string_view> ChunkedBody::Take(std::string_view& bytes) {
  while (!bytes.empty() && state_ != State::kDone && state_ != State::kBroken) {
    if (state_ == State::kData) {
      const std::string_view data = bytes.substr(0, std::min<uint64_t>(left_, bytes.size()));
      bytes.remove_prefix(data.size());
      left_ -= data.size();
      if (left_ == 0) state_ = State::kDataEnd;
      return data;
    }
    // Behind a chunk's data there is an empty line: its CR alone.
    const size_t max = state_ == State::kDataEnd   ? 1
                       : state_ == State::kTrailer ? kMaxTrailer - trailer_bytes_
                                                   : kMaxLine;
    if (!TakeLine(bytes, max)) state_ = State::kBroken;
  }
  if (state_ == State::kBroken) return std::nullopt;
  return std::string_view();
}

bool ChunkedBody::TakeLine(std::string_view& bytes, size_t max) {
  const size_t end = bytes.find('\n');
  const std::string_view part = bytes.substr(0, end);
  if (line_.size() + part.size() > max) return false;
  line_ += part;
  bytes.remove_prefix(part.size());
  if (end == bytes.npos) return true;
  bytes.remove_prefix(1);
  if (!line_.ends_with('\r')) return false;
  line_.pop_back();
  const bool is_good = EndLine();
  line_.clear();
  return is_good;
}

bool ChunkedBody::EndLine() {
  switch (state_) {
    case State::kSize:
      return ParseSize();
    case State::kDataEnd:
      state_ = State::kSize;
      return line_.empty();
    default:
      if (line_.empty()) state_ = State::kDone;
      trailer_bytes_ += line_.size() + 2;
      return trailer_bytes_ < kMaxTrailer && line_.find('\r') == line_.npos;
  }
}

bool ChunkedBody::ParseSize() {
  constexpr size_t kMaxDigits = 15;  // sizes are below 2^60: sums of two do not overflow
  std::string_view extension = line_;
  const std::string_view text = Trim(TakeUntil(extension, ';'));
  const bool is_plain =
      line_.starts_with(text) && text.size() <= kMaxDigits && !text.empty() &&
      std::all_of(text.begin(), text.end(), [](char c) { return HexDigit(c) >= 0; });
  const bool has_control = std::any_of(extension.begin(), extension.end(), [](unsigned char c) {
    return (c < 0x20 && c != '\t') || c == 0x7f;
  });
  if (!is_plain || has_control) return false;
  left_ = 0;
  for (const char c : text) left_ = left_ * 16 + static_cast<uint64_t>(HexDigit(c));
  state_ = left_ > 0 ? State::kData : State::kTrailer;
  return true;
}

}  // namespace lectern::server
