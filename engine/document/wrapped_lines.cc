#include "engine/document/wrapped_lines.h"

#include <algorithm>

#include "engine/document/abbreviations.h"
#include "engine/document/line_forms.h"
#include "engine/document/sentence_breaks.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

// Narrower text is no prose that somebody wrapped.
constexpr uint32_t kLeastWidth = 20;

// A region's counts, of lines or of pairs of neighbours, that tell wrapped lines from verse and
// lists.
struct Measure {
  uint32_t width = 0;  // the widest line, of two words or more, that another one follows
  size_t num_pairs = 0, num_full = 0, num_capitals = 0, num_keys = 0, num_stops = 0;
  // Three of four breaks have to be wraps: the others end paragraphs.
  bool IsWrapped() const { return width >= kLeastWidth && num_full * 4 >= num_pairs * 3; }
  // Each line begins with a capital, as in verse. German prose may do so too, but its lines are
  // full and have stops inside.
  bool HasCapitals() const {
    if (num_pairs < 3 || num_capitals * 100 < num_pairs * 85) return false;
    const bool is_prose = num_stops > 0 || num_pairs >= 6;
    return !(is_prose && width >= 30 && num_full == num_pairs);
  }
};

Measure MeasureRegion(std::string_view text, std::span<const TextLine> region) {
  Measure measure;
  measure.num_pairs = region.size() - 1;
  for (size_t i = 0; i + 1 < region.size(); ++i) {
    const bool is_one_word = region[i].first_word + region[i].indent == region[i].width;
    if (!is_one_word) measure.width = std::max(measure.width, region[i].width);
  }
  for (size_t i = 0; i < region.size(); ++i) {
    const std::string_view line = region[i].In(text);
    measure.num_keys += IsKeyValue(line);
    measure.num_stops += line.find(". ") != std::string_view::npos;
    if (i == 0) continue;
    measure.num_full += IsFull(region[i - 1], region[i], measure.width);
    const TextStart start = StartOf(line);
    measure.num_capitals += start == TextStart::kCapital || start == TextStart::kDigit;
  }
  return measure;
}

// Whether the last character is of a script without spaces: there a break between two of them is
// a wrap or the end of something.
bool EndsWithoutSpaces(std::string_view line) {
  size_t at = line.size() - 1, length = 1;
  while (at > 0 && line.size() - at < 4 && (static_cast<unsigned char>(line[at]) & 0xC0) == 0x80)
    --at;
  return IsWithoutSpaces(DecodeChar(line, at, &length));
}

std::string_view FirstWord(std::string_view line) {
  return line.substr(0, std::min(line.find(' '), line.size()));
}

// Whether a line that is nearly full, but without a stop, is the paragraph's of the next one, which
// begins with no small letter: people who wrap by hand leave some room. "-- Ada" and "* Stones"
// begin something.
bool IsLooseWrap(std::string_view line, std::string_view next, TextStart start) {
  constexpr size_t kLeastWords = 3;
  const bool is_word = start == TextStart::kCapital || start == TextStart::kDigit ||
                       std::string_view("\"'(`").find(next[0]) != std::string_view::npos;
  const bool closes = std::string_view(")]>:\"").find(line.back()) != std::string_view::npos;
  const bool are_numbered = start == TextStart::kDigit && StartOf(line) == TextStart::kDigit;
  return is_word && !closes && !are_numbered && CountWords(line) >= kLeastWords &&
         !IsAllCaps(line) && ReadItemNumber(next).length == 0 && !BeginsSentences(FirstWord(next));
}

}  // namespace

bool IsFull(const TextLine& line, const TextLine& next, uint32_t width) {
  // Programs that balance lines leave some room.
  const uint32_t slack = width >= 60 ? 4 : 1;
  return line.width + 1 + next.first_word + slack > width;
}

void WrapWidths::Add(std::string_view text, std::span<const TextLine> region) {
  if (region.size() < 2) return;
  const Measure measure = MeasureRegion(text, region);
  if (measure.width > kMostColumns || !measure.IsWrapped() || measure.HasCapitals()) return;
  if (measure.num_keys * 2 >= region.size() && measure.num_keys >= 2) return;
  (measure.num_pairs >= 3 ? votes_ : short_votes_)[measure.width] += measure.num_full;
}

uint32_t WrapWidths::Winner(const Votes& votes, uint64_t least) {
  constexpr uint32_t kNarrower = 8;
  uint32_t best = 0;
  uint64_t most = least - 1, sum = 0;
  for (uint32_t width = 0; width < votes.size(); ++width) {
    sum += votes[width];
    if (width > kNarrower) sum -= votes[width - kNarrower - 1];
    if (votes[width] > 0 && sum > most) best = width, most = sum;
  }
  return best;
}

void WrapWidths::Decide() {
  width_ = Winner(votes_, 3);
  if (width_ == 0) width_ = Winner(short_votes_, 3);
}

Wrapping WrapWidths::Of(std::string_view text, std::span<const TextLine> region) const {
  constexpr uint32_t kNear = 6;
  Wrapping wrapping;
  if (region.size() < 2) {
    wrapping.width = width_;
    return wrapping;
  }
  const Measure measure = MeasureRegion(text, region);
  wrapping.has_keys = measure.num_keys >= 2 && measure.num_keys * 2 >= region.size();
  if (measure.num_pairs >= 3 && measure.width <= kMostColumns && measure.IsWrapped()) {
    const bool is_near = measure.width <= width_ && width_ - measure.width <= kNear;
    wrapping.width = is_near ? width_ : measure.width;
  } else if (measure.width <= width_ + kNear) {
    wrapping.width = width_;
  }
  if (measure.HasCapitals()) {
    wrapping.is_verse = true;
    if (measure.width <= width_) {  // unless the lines are as wide as others that are wrapped
      for (size_t i = 0; i + 1 < region.size() && wrapping.is_verse; ++i) {
        wrapping.is_verse = IsFull(region[i], region[i + 1], width_);
      }
      wrapping.is_verse = !wrapping.is_verse;
    }
  }
  return wrapping;
}

bool RunsOn(std::string_view text, const TextLine& line, const TextLine& next,
            const Wrapping& wrapping) {
  constexpr uint32_t kWide = 30;  // columns of a line that is more than a name or a label
  const std::string_view before = line.In(text), after = next.In(text);
  if (wrapping.has_keys && IsKeyValue(after)) return false;
  if (wrapping.has_keys && next.indent > line.indent) return true;
  if (wrapping.is_verse) return false;
  const TextStart start = StartOf(after);
  const bool is_full = wrapping.width > 0 && IsFull(line, next, wrapping.width);
  if (is_full && next.indent < line.indent + 2) return true;
  // "Example Corp." over "Email: jane@example.com"
  if (!is_full && line.width < kWide && start == TextStart::kCapital && IsKeyValue(after))
    return false;
  const TextEnd end = EndOf(before);
  if (is_full) return end != TextEnd::kClosed;
  if (start == TextStart::kSmallLetter) {
    const bool is_sentence =
        StartOf(before) == TextStart::kCapital || EndOf(after) == TextEnd::kClosed;
    return end == TextEnd::kOpen || line.width >= kWide || is_sentence ||
           (wrapping.width > 0 && line.width * 10 >= wrapping.width * 6);
  }
  if (end == TextEnd::kClosed) return false;
  if (end == TextEnd::kOpen) return line.width >= kWide || !before.ends_with(',');
  // Scripts without capitals do not tell that a sentence runs on; a line that is not short does.
  const bool has_no_case = start == TextStart::kOtherLetter || EndsWithoutSpaces(before);
  if (wrapping.width > 0) {
    if (has_no_case) return line.width * 10 >= wrapping.width * 8;
    return line.width * 100 >= wrapping.width * 85 && IsLooseWrap(before, after, start);
  }
  // A single break of a document that is not wrapped elsewhere.
  if (EndsWithoutSpaces(before)) return line.width >= kWide - 6;
  const bool is_long =
      line.width >= kWide + 4 && (CountWords(before) >= 5 || start == TextStart::kOtherLetter);
  return is_long && !BeginsSentences(FirstWord(after));
}

bool RunsOverPage(std::string_view text, const TextLine& line, const TextLine& next,
                  const Wrapping& wrapping) {
  constexpr uint32_t kLeast = 20;  // columns; shorter lines are labels and headings
  if (line.width < kLeast || wrapping.is_verse || wrapping.has_keys) return false;
  // In wrapped text a line that is not full ends its paragraph.
  const uint32_t width = wrapping.width - wrapping.width / 10;
  if (line.width <= wrapping.width && !IsFull(line, next, width)) return false;
  const TextEnd end = EndOf(line.In(text));
  if (end == TextEnd::kClosed) return false;
  const TextStart start = StartOf(next.In(text));
  return end == TextEnd::kOpen || start == TextStart::kSmallLetter ||
         start == TextStart::kOtherLetter;
}

}  // namespace lectern
