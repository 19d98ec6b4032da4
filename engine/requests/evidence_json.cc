#include "engine/requests/evidence_json.h"

#include <algorithm>
#include <cmath>

namespace lectern {
namespace {

constexpr size_t kOffsetStep = 4096;  // bytes

Json Page(std::optional<uint32_t> page) {
  if (!page) return nullptr;
  return uint64_t{*page};
}

Json RangesValue(std::span<const ByteRange> ranges, const Offsets& offsets) {
  Json::Array values;
  for (const ByteRange& range : ranges) values.push_back(offsets.Range(range.begin, range.end));
  return values;
}

}  // namespace

std::string_view UnitName(OffsetUnit unit) {
  switch (unit) {
    case OffsetUnit::kUtf8:
      return "utf8";
    case OffsetUnit::kUtf16:
      return "utf16";
    case OffsetUnit::kCodepoint:
      return "codepoint";
  }
  return "utf8";
}

double Rounded(double value, double digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}
Json Share(double value) { return Rounded(value, 6); }
Json Share(const std::optional<double>& value) { return value ? Share(*value) : Json(); }
Json StringOrNull(std::string_view text) { return text.empty() ? Json() : Json(text); }

Offsets::Offsets(OffsetUnit unit, std::string_view text) : unit_(unit), text_(text) {
  if (unit == OffsetUnit::kUtf8) return;
  steps_.push_back(0);
  for (size_t at = kOffsetStep; at <= text.size(); at += kOffsetStep) {
    steps_.push_back(steps_.back() + Count(text.substr(at - kOffsetStep, kOffsetStep)));
  }
}

uint64_t Offsets::operator()(uint64_t offset) const {
  if (unit_ == OffsetUnit::kUtf8) return offset;
  offset = std::min<uint64_t>(offset, text_.size());
  const size_t step = offset / kOffsetStep;
  return steps_[step] + Count(text_.substr(step * kOffsetStep, offset - step * kOffsetStep));
}

Json Offsets::Range(uint64_t begin, uint64_t end) const {
  return Json::Object{{"begin", (*this)(begin)}, {"end", (*this)(end)}};
}

// Code points begin at every byte that does not continue one, and those of four bytes are two units
// of UTF-16.
uint64_t Offsets::Count(std::string_view bytes) const {
  uint64_t count = 0;
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    count += (byte & 0xC0) != 0x80;
    count += unit_ == OffsetUnit::kUtf16 && byte >= 0xF0;
  }
  return count;
}

OffsetsOfTexts::OffsetsOfTexts(OffsetUnit unit, std::string_view text,
                               std::span<const Answer::TextOf> texts)
    : unit_(unit), text_(text), texts_(texts) {}

const Offsets& OffsetsOfTexts::Of(std::string_view document) {
  if (const auto made = made_.find(document); made != made_.end()) return made->second;
  const auto named = std::ranges::find(texts_, document, &Answer::TextOf::document);
  std::string_view text = document.empty() ? text_ : std::string_view();
  if (named != texts_.end() && named->text) text = *named->text;
  return made_.try_emplace(document, unit_, text).first->second;
}

Json::Object EvidenceObject(const Evidence& evidence, const Offsets& offsets) {
  return {
      {"begin", offsets(evidence.begin)},
      {"end", offsets(evidence.end)},
      {"text", evidence.text},
      {"mass", Share(evidence.mass)},
      {"score", Share(evidence.score)},
      {"page", Page(evidence.page)},
      {"page_end", Page(evidence.page_end)},
      {"page_label", StringOrNull(evidence.page_label)},
      {"page_end_label", StringOrNull(evidence.page_end_label)},
      {"heading", StringOrNull(evidence.heading)},
      {"places", RangesValue(evidence.places, offsets)},
      {"highlights", RangesValue(evidence.highlights, offsets)},
      {"document", StringOrNull(evidence.document)},
  };
}

}  // namespace lectern
