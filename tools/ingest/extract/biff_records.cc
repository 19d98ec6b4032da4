#include "tools/ingest/extract/biff_records.h"

#include <algorithm>

#include "tools/ingest/compound_file.h"
#include "tools/ingest/extract/code_page.h"

namespace lectern::tools {
namespace {

constexpr size_t kRecordHead = 4;

}  // namespace

bool BiffRecords::Peek(BiffRecord& record) const {
  if (at_ > stream_.size() || stream_.size() - at_ < kRecordHead) return false;
  record.id = Uint16At(stream_, at_);
  record.data = stream_.substr(at_ + kRecordHead, Uint16At(stream_, at_ + 2));
  return true;
}

bool BiffRecords::Next(BiffRecord& record) {
  if (!Peek(record)) return false;
  at_ += kRecordHead + record.data.size();
  return true;
}

std::vector<std::string_view> BiffRecords::TakeContinued() {
  std::vector<std::string_view> pieces;
  BiffRecord record;
  while (Peek(record) && record.id == BiffId::kContinue) {
    pieces.push_back(record.data);
    at_ += kRecordHead + record.data.size();
  }
  return pieces;
}

void BiffBytes::SkipEmpty() {
  while (piece_ < pieces_.size() && at_ >= pieces_[piece_].size()) {
    ++piece_;
    at_ = 0;
  }
}

uint8_t BiffBytes::Uint8() {
  SkipEmpty();
  return is_at_end() ? uint8_t{0} : static_cast<uint8_t>(pieces_[piece_][at_++]);
}

uint16_t BiffBytes::Uint16() {
  const uint16_t low = Uint8();
  return static_cast<uint16_t>(low | Uint8() << 8);
}

uint32_t BiffBytes::Uint32() {
  const uint32_t low = Uint16();
  return low | uint32_t{Uint16()} << 16;
}

void BiffBytes::Skip(uint64_t count) {
  for (SkipEmpty(); count > 0 && !is_at_end(); SkipEmpty()) {
    const uint64_t step = std::min<uint64_t>(count, pieces_[piece_].size() - at_);
    at_ += step;
    count -= step;
  }
}

std::string BiffBytes::Text(bool is_short) {
  constexpr uint8_t kWide = 1, kReadingAids = 4, kFormats = 8;
  const uint32_t count = is_short ? Uint8() : Uint16();
  const uint8_t flags = Uint8();
  const uint64_t format_bytes = flags & kFormats ? uint64_t{4} * Uint16() : 0;
  const uint64_t aid_bytes = flags & kReadingAids ? Uint32() : 0;
  std::string text = Characters(count, flags & kWide);
  Skip(format_bytes + aid_bytes);
  SkipEmpty();
  return text;
}

std::string BiffBytes::Characters(uint32_t count) { return Characters(count, Uint8() & 1); }

std::string BiffBytes::Characters(uint32_t count, bool is_wide) {
  std::string wide;  // UTF-16: half a character may stand at a record's end
  while (count > 0 && piece_ < pieces_.size()) {
    if (at_ >= pieces_[piece_].size()) {
      ++piece_;
      at_ = 0;
      is_wide = Uint8() & 1;
      continue;
    }
    const size_t unit = is_wide ? 2 : 1;
    const std::string_view rest = pieces_[piece_].substr(at_);
    const size_t taken = std::min<size_t>(count, rest.size() / unit);
    if (is_wide) {
      wide += rest.substr(0, taken * unit);
    } else {
      for (const char c : rest.substr(0, taken)) wide += {c, '\0'};
    }
    count -= static_cast<uint32_t>(taken);
    at_ += taken == 0 ? 1 : taken * unit;  // an odd byte at the end
  }
  return Utf16Text(wide);
}

}  // namespace lectern::tools
