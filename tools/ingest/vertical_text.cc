#include "tools/ingest/vertical_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "tools/ingest/letter_forms.h"
#include "tools/ingest/scripts.h"

namespace lectern::tools {
namespace {

constexpr size_t kMinGlyphs = 12;
constexpr double kMinVerticalShare = 0.7;  // of the page's Han and kana: in words of one character
constexpr double kMaxStep = 1.5;           // from a character to the next one below, in its widths
constexpr double kNearer = 0.85;           // down the page, in steps across it, at most
constexpr double kSameColumn = 0.3;        // between centres of one line, in widths of a character
constexpr double kRubySize = 0.65;         // of the text's characters, at most
constexpr double kWordGap = 0.6;           // a typed space, in widths of a character
constexpr double kSlot = 0.35;             // between two glyphs, at least, for a stop or a bracket
constexpr double kSignShift = 0.35;        // of a sign's centre, in widths of a character
constexpr size_t kNearGaps = 8;            // on each side that a sign may belong to
constexpr double kLatinGap = 0.15;         // the same between Latin words
constexpr double kTierGap = 1.5;           // between tiers of text, and between a head and the text
constexpr double kShortLine = 1.5;         // that a paragraph's last line leaves free, at least
constexpr double kIndent = 0.7;            // of a paragraph's first line, at least
constexpr double kSameGlyphSize = 0.15;    // of two lines of a paragraph, relative
constexpr double kMaxLead = 1.4;  // between two lines of a paragraph, in the lower quartile
constexpr double kMostAcrossTiers =
    0.1;  // share of the lines that lie across a gutter between tiers

// A word as a part of a vertical line. Its place along the line is `begin` to `end`, down the page.
struct Glyph {
  std::string text;
  double x = 0;  // its centre
  double begin = 0, end = 0;
  double size = 0;       // the width of the line
  bool is_wide = false;  // one character of Han or kana
};

struct VerticalLine {
  std::string text;
  double x = 0, begin = 0, end = 0, size = 0;
  size_t tier = 0;
};

// The value that a share of `values` is below; 0 without any.
double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto place =
      values.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(values.size()));
  std::nth_element(values.begin(), place, values.end());
  return *place;
}
double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

// The distances between neighbours among `glyphs` that share a place: `across` orders lines,
// `along` the glyphs of a line.
template <typename Across, typename Along>
double MedianStep(std::vector<Glyph>& glyphs, double size, Across across, Along along) {
  std::sort(glyphs.begin(), glyphs.end(),
            [&](const Glyph& a, const Glyph& b) { return across(a) < across(b); });
  std::vector<double> steps;
  for (size_t begin = 0, end = 0; begin < glyphs.size(); begin = end) {
    while (end < glyphs.size() &&
           across(glyphs[end]) - across(glyphs[begin]) <= kSameColumn * size) {
      ++end;
    }
    std::vector<double> places;
    for (size_t i = begin; i < end; ++i) places.push_back(along(glyphs[i]));
    std::sort(places.begin(), places.end());
    for (size_t i = 1; i < places.size(); ++i) steps.push_back(places[i] - places[i - 1]);
  }
  return Median(std::move(steps));
}

// The page's words of one wide character; empty: the page is not vertical.
std::vector<Glyph> WideGlyphs(const PdfPage& page) {
  std::vector<Glyph> glyphs;
  size_t num_wide = 0;
  for (const PdfLine& line : page.lines) {
    for (const PdfWord& word : line.words) {
      const auto characters = CodePoints(word.text);
      const auto count =
          static_cast<size_t>(std::count_if(characters.begin(), characters.end(), IsHanOrKana));
      const bool is_tall = word.box.Height() > word.box.Width() * 1.2;
      num_wide += count;
      if (count == 0 || (characters.size() > 1 && !is_tall) || word.box.Width() <= 0) continue;
      if (characters.size() > 1) {
        num_wide -= count;  // a rotated word tells nothing
        continue;
      }
      glyphs.push_back({word.text, (word.box.x_min + word.box.x_max) / 2, word.box.CenterY(),
                        word.box.CenterY(), word.box.Width(), true});
    }
  }
  const double share =
      num_wide == 0 ? 0 : static_cast<double>(glyphs.size()) / static_cast<double>(num_wide);
  if (glyphs.size() < kMinGlyphs || share < kMinVerticalShare) return {};
  std::vector<double> sizes;
  for (const Glyph& glyph : glyphs) sizes.push_back(glyph.size);
  const double size = Median(sizes);
  const auto x = [](const Glyph& glyph) { return glyph.x; };
  const auto y = [](const Glyph& glyph) { return glyph.begin; };
  const double down = MedianStep(glyphs, size, x, y), across = MedianStep(glyphs, size, y, x);
  const bool is_vertical =
      down > 0 && down <= kMaxStep * size && (across == 0 || down <= kNearer * across);
  return is_vertical ? glyphs : std::vector<Glyph>();
}

// A word's place in a vertical line: a single character is as long as it is wide, because its box
// has the height of its font's lines.
Glyph GlyphOf(const PdfWord& word) {
  const auto characters = CodePoints(word.text);
  Glyph glyph{word.text,        (word.box.x_min + word.box.x_max) / 2,
              word.box.y_min,   word.box.y_max,
              word.box.Width(), characters.size() == 1 && IsHanOrKana(characters.front())};
  if (glyph.is_wide) {
    glyph.begin = word.box.CenterY() - glyph.size / 2;
    glyph.end = glyph.begin + glyph.size;
  }
  return glyph;
}

// Stops, commas and brackets.
bool IsSign(const Glyph& glyph) {
  constexpr CharacterRange kSigns[] = {{0x3001, 0x3002}, {0x3008, 0x3011}, {0x3014, 0x301B},
                                       {0xFF01, 0xFF01}, {0xFF08, 0xFF09}, {0xFF0C, 0xFF0E},
                                       {0xFF1A, 0xFF1B}, {0xFF1F, 0xFF1F}};
  return glyph.is_wide && IsInRanges(CodePoints(glyph.text).front(), kSigns);
}

// Signs that end a phrase: no line begins with one.
bool IsClosing(const Glyph& glyph) {
  constexpr CharacterRange kOpening[] = {
      {0x3008, 0x3008}, {0x300A, 0x300A}, {0x300C, 0x300C}, {0x300E, 0x300E}, {0x3010, 0x3010},
      {0x3014, 0x3014}, {0x3016, 0x3016}, {0x3018, 0x3018}, {0x301A, 0x301A}, {0xFF08, 0xFF08}};
  return IsSign(glyph) && !IsInRanges(CodePoints(glyph.text).front(), kOpening);
}

// Where a sign or a rotated word belongs: the index of the character of `others` that it stands
// before. It takes the nearest gap between them, or stands at an end.
size_t GapOf(const std::vector<Glyph>& others, const Glyph& glyph, double size) {
  const double length = glyph.end - glyph.begin;
  // The boxes of signs lie in their places or above them.
  const double center = (glyph.begin + glyph.end) / 2 + (IsSign(glyph) ? kSignShift * size : 0);
  const auto next = std::lower_bound(others.begin(), others.end(), center,
                                     [](const Glyph& other, double y) { return other.begin < y; });
  const auto middle = static_cast<size_t>(next - others.begin());
  const size_t first = IsClosing(glyph) ? 1 : 0;
  size_t best = std::max(middle, first);
  double nearest = std::numeric_limits<double>::infinity();
  for (size_t i = std::max(first, middle - std::min(middle, kNearGaps));
       i <= std::min(others.size(), middle + kNearGaps); ++i) {
    const double begin = i == 0 ? others.front().begin - length : others[i - 1].end;
    const double end = i == others.size() ? begin + length : others[i].begin;
    if (end - begin < kSlot * size) continue;
    const double distance = std::abs((begin + end) / 2 - center);
    if (distance < nearest) {
      nearest = distance;
      best = i;
    }
  }
  return best;
}

// Orders the glyphs of a line. Characters come by their places; signs and rotated words go into the
// gaps between them. Fonts without vertical measures (many Chinese ones) make programs place each
// character by its shape, up to its own size away, so that its box may lie on a sign or a number;
// the gaps still tell where these stand.
void OrderGlyphs(std::vector<Glyph>& glyphs, double size) {
  std::vector<Glyph> others;
  for (const Glyph& glyph : glyphs) {
    if (glyph.is_wide && !IsSign(glyph)) others.push_back(glyph);
  }
  if (others.empty()) return;
  std::vector<std::vector<Glyph>> between(others.size() + 1);
  for (const Glyph& glyph : glyphs) {
    if (glyph.is_wide && !IsSign(glyph)) continue;
    between[GapOf(others, glyph, size)].push_back(glyph);
  }
  glyphs.clear();
  for (size_t i = 0; i <= others.size(); ++i) {
    for (Glyph& glyph : between[i]) glyphs.push_back(std::move(glyph));
    if (i < others.size()) glyphs.push_back(std::move(others[i]));
  }
}

// Whether a space stands between two glyphs of a line.
bool IsTypedSpace(const Glyph& left, const Glyph& right, double size) {
  const double gap = right.begin - left.end;
  if (IsSign(left) || IsSign(right)) return false;
  if (left.is_wide && right.is_wide) return gap > kWordGap * size;
  return !left.is_wide && !right.is_wide && gap > kLatinGap * size;
}

// Appends the lines that the glyphs of one place across the page make, which are in order: one, or
// several where wide gaps part tiers.
void AppendLines(const std::vector<Glyph>& glyphs, double size, std::vector<VerticalLine>& lines) {
  VerticalLine line;
  const Glyph* last = nullptr;
  for (const Glyph& glyph : glyphs) {
    const double gap = last == nullptr ? 0 : glyph.begin - last->end;
    if (last != nullptr && gap > kTierGap * size) lines.push_back(std::exchange(line, {}));
    if (line.text.empty()) {
      line.begin = glyph.begin;
    } else if (IsTypedSpace(*last, glyph, size)) {
      line.text += ' ';
    }
    line.text += glyph.text;
    line.x = glyph.x;
    line.end = std::max(line.end, glyph.end);
    line.size = std::max(line.size, glyph.size);
    last = &glyph;
  }
  if (last != nullptr) lines.push_back(std::move(line));
}

// The vertical lines of a page, from the right; those of one place from the top.
std::vector<VerticalLine> VerticalLines(std::vector<Glyph> glyphs, double size) {
  std::erase_if(glyphs, [&](const Glyph& glyph) { return glyph.size < kRubySize * size; });
  std::sort(glyphs.begin(), glyphs.end(), [](const Glyph& a, const Glyph& b) { return a.x > b.x; });
  std::vector<VerticalLine> lines;
  for (size_t begin = 0, end = 0; begin < glyphs.size(); begin = end) {
    while (end < glyphs.size() && glyphs[begin].x - glyphs[end].x <= kSameColumn * size) ++end;
    std::vector<Glyph> line(glyphs.begin() + static_cast<ptrdiff_t>(begin),
                            glyphs.begin() + static_cast<ptrdiff_t>(end));
    std::stable_sort(line.begin(), line.end(), [](const Glyph& a, const Glyph& b) {
      return a.begin + a.end < b.begin + b.end;
    });
    OrderGlyphs(line, size);
    AppendLines(line, size, lines);
  }
  return lines;
}

// The middles of the strips between tiers: free of all but a few lines, with lines on both sides.
std::vector<double> TierGutters(const std::vector<VerticalLine>& lines, double size) {
  std::vector<std::pair<double, int>> ends;
  for (const VerticalLine& line : lines) {
    ends.emplace_back(line.begin, 1);
    ends.emplace_back(line.end, -1);
  }
  std::sort(ends.begin(), ends.end());
  const auto most = static_cast<int>(kMostAcrossTiers * static_cast<double>(lines.size()));
  std::vector<double> gutters;
  int across = 0, num_before = 0;
  double begin = 0;
  bool is_open = false;
  for (const auto& [y, step] : ends) {
    across += step;
    num_before += step < 0;
    if (is_open && across > most) {
      if (y - begin > size) gutters.push_back((begin + y) / 2);
      is_open = false;
    } else if (!is_open && across <= most && step < 0 && num_before > most) {
      begin = y;
      is_open = true;
    }
  }
  return gutters;
}

// Where a tier's lines begin and end at most, and how far its lines are apart.
struct Tier {
  double begin = 1e9, end = -1e9, lead = 0;
};

Tier TierOf(const std::vector<VerticalLine>& lines, size_t index) {
  Tier tier;
  std::vector<double> leads;
  double last = 0;
  for (const VerticalLine& line : lines) {
    if (line.tier != index) continue;
    tier.begin = std::min(tier.begin, line.begin);
    tier.end = std::max(tier.end, line.end);
    if (last != 0) leads.push_back(last - line.x);
    last = line.x;
  }
  tier.lead = Quantile(std::move(leads), 0.25);
  return tier;
}

// Whether `line` begins a paragraph behind `last`, a line of the same tier.
bool BeginsParagraph(const VerticalLine& last, const VerticalLine& line, const Tier& tier,
                     double size) {
  return last.end < tier.end - kShortLine * size || line.begin > last.begin + kIndent * size ||
         std::abs(line.size - last.size) > kSameGlyphSize * last.size ||
         last.x - line.x > kMaxLead * tier.lead;
}

// Fills a turned page: heads, the tiers' paragraphs, what stands below.
class TurnedPage {
 public:
  explicit TurnedPage(const PdfPage& page) : page_(page) {
    turned_ = page;
    std::swap(turned_.width, turned_.height);
    turned_.blocks.clear();
    turned_.lines.clear();
    turned_.num_words = 0;
  }

  // A line that runs from left to right, which keeps its place; `y`: from the head of the turned
  // page.
  void AddHorizontal(const PdfLine& line, double y) {
    PdfLine added = line;
    const auto move = [&](PdfBox& box) {
      const double height = box.Height();
      box.y_min = y;
      box.y_max = y + height;
    };
    for (PdfWord& word : added.words) move(word.box);
    move(added.box);
    added.block = turned_.blocks.size();
    turned_.blocks.push_back(added.box);
    turned_.num_words += added.words.size();
    turned_.lines.push_back(std::move(added));
  }

  void AddTier(const std::vector<VerticalLine>& lines, size_t index, double size) {
    const Tier tier = TierOf(lines, index);
    const VerticalLine* last = nullptr;
    for (const VerticalLine& line : lines) {
      if (line.tier != index) continue;
      const double y = page_.width - line.x;
      const PdfBox box{line.begin, y - line.size / 2, line.end, y + line.size / 2};
      if (last == nullptr || BeginsParagraph(*last, line, tier, size)) {
        turned_.blocks.push_back(box);
      }
      PdfBox& block = turned_.blocks.back();
      block.Cover(box);
      block.x_max = std::max(block.x_max, tier.end);  // a full last line goes on elsewhere
      turned_.lines.push_back({{{line.text, box}}, box, turned_.blocks.size() - 1});
      ++turned_.num_words;
      last = &line;
    }
  }

  PdfPage Take() { return std::move(turned_); }

 private:
  const PdfPage& page_;
  PdfPage turned_;
};

}  // namespace

std::optional<std::vector<double>> TurnVerticalText(PdfPage& page) {
  const std::vector<Glyph> wide = WideGlyphs(page);
  if (wide.empty()) return std::nullopt;
  std::vector<double> sizes;
  double top = wide.front().begin, bottom = top;
  for (const Glyph& glyph : wide) {
    sizes.push_back(glyph.size);
    top = std::min(top, glyph.begin - glyph.size / 2);
    bottom = std::max(bottom, glyph.begin + glyph.size / 2);
  }
  const double size = Median(std::move(sizes));
  std::vector<Glyph> glyphs;
  std::vector<const PdfLine*> heads, feet;
  for (const PdfLine& line : page.lines) {
    if (line.box.y_max < top || line.box.y_min > bottom) {
      (line.box.y_max < top ? heads : feet).push_back(&line);
      continue;
    }
    for (const PdfWord& word : line.words) glyphs.push_back(GlyphOf(word));
  }
  std::vector<VerticalLine> lines = VerticalLines(std::move(glyphs), size);
  const std::vector<double> gutters = TierGutters(lines, size);
  for (VerticalLine& line : lines) {
    line.tier = static_cast<size_t>(std::lower_bound(gutters.begin(), gutters.end(), line.begin) -
                                    gutters.begin());
  }
  TurnedPage turned(page);
  for (const PdfLine* line : heads) turned.AddHorizontal(*line, line->box.y_min);
  for (size_t i = 0; i <= gutters.size(); ++i) turned.AddTier(lines, i, size);
  for (const PdfLine* line : feet) {
    turned.AddHorizontal(*line, page.width + line->box.y_min - bottom);
  }
  page = turned.Take();
  return gutters;
}

}  // namespace lectern::tools
