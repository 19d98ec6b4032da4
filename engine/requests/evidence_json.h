// The parts that the JSON of answers, citations and mentions share: offsets in the reader's unit,
// and passages.
#ifndef LECTERN_ENGINE_REQUESTS_EVIDENCE_JSON_H_
#define LECTERN_ENGINE_REQUESTS_EVIDENCE_JSON_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "engine/model/formats/json.h"
#include "engine/requests/requests.h"

namespace lectern {

enum class OffsetUnit { kUtf8, kUtf16, kCodepoint };
std::string_view UnitName(OffsetUnit unit);  // "utf8", "utf16", "codepoint"

// `value` with at most this many decimal digits.
double Rounded(double value, double digits);
// Shares in [0, 1]. Also hides the digits that a float has and its decimal has not.
Json Share(double value);
Json Share(const std::optional<double>& value);
Json StringOrNull(std::string_view text);

// Converts byte offsets of a text (valid UTF-8, which outlives this) to another unit; an offset
// behind the text's end becomes the end, except in kUtf8, where all stay. Reads the
// text once, then at most 4 KiB for an offset.
class Offsets {
 public:
  Offsets(OffsetUnit unit, std::string_view text);
  uint64_t operator()(uint64_t offset) const;
  Json Range(uint64_t begin, uint64_t end) const;  // {"begin","end"}
  std::string_view unit_name() const { return UnitName(unit_); }

 private:
  uint64_t Count(std::string_view bytes) const;

  const OffsetUnit unit_;
  const std::string_view text_;
  std::vector<uint64_t> steps_;  // the converted offsets of every 4,096th byte
};

// The offsets of the texts of several documents; a text is read when its document is first named.
class OffsetsOfTexts {
 public:
  // `text`: of the document without a name, the only one outside collections. All texts outlive
  // this.
  OffsetsOfTexts(OffsetUnit unit, std::string_view text, std::span<const Answer::TextOf> texts);
  // Those of the document of this name (Evidence::document); of an unknown one: of an empty text.
  const Offsets& Of(std::string_view document);
  std::string_view unit_name() const { return UnitName(unit_); }

 private:
  const OffsetUnit unit_;
  const std::string_view text_;
  const std::span<const Answer::TextOf> texts_;
  std::map<std::string_view, Offsets> made_;
};

// {"begin","end","text","mass","score","page","page_end","page_label","page_end_label","heading",
// "places","highlights","document"}: the last is null outside collections.
Json::Object EvidenceObject(const Evidence& evidence, const Offsets& offsets);

}  // namespace lectern

#endif  // LECTERN_ENGINE_REQUESTS_EVIDENCE_JSON_H_
