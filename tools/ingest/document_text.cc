#include "tools/ingest/document_text.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "tools/ingest/characters.h"
#include "tools/ingest/divided_address.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/outline_headings.h"
#include "tools/ingest/scripts.h"

namespace lectern::tools {
namespace {

constexpr size_t kMarginRows = 3;                   // at the head and at the foot of a page
constexpr size_t kMaxMarginRows = size_t{1} << 20;  // of a document, to bound the memory
constexpr size_t kMaxRecurring = 100;               // of PagedText
// In heights of the text, at most: of a running head, and of one that is on most pages.
constexpr float kHeadHeight = 1.2F;
constexpr float kLargeHead = 2.0F;
constexpr float kHeadStep = 3;         // between two lines of a running head, in heights, at most
constexpr float kLargeHeight = 1.6F;   // of a watermark, at least
constexpr float kSameHeight = 0.1F;    // of the lines of a paragraph, relative
constexpr size_t kMinCharacters = 20;  // below them a page is not called garbage
// One control character in so many is too much: pdftotext prints the numbers of glyphs where a font
// has no Unicode values, and 3 is most often the space, one character in six. TeX's older fonts
// have accents, ligatures and quotes at such numbers, which a French text has one of in 20
// characters.
constexpr size_t kControlsOfGarbage = 10;
// Half of the characters are signs where a font's codes are numbers that count from 33 ("!"): below
// this many characters, a page may be a figure or a list of operators.
constexpr size_t kMinCharactersOfSigns = 100;
constexpr size_t kHyphensOfDocument = 5;
constexpr size_t kMinFullLine = 20;  // bytes of a line that a paragraph goes on behind, elsewhere

bool EndsInSpace(const std::string& text) {
  return text.empty() || text.back() == ' ' || text.back() == '\n';
}

// Small letters of ASCII, and characters beyond ASCII without a table of which are small.
bool IsSmallLetter(char c) { return (c >= 'a' && c <= 'z') || static_cast<uint8_t>(c) >= 0x80; }

// The last character of valid UTF-8, and the first one; 0: the text is empty.
uint32_t LastCharacter(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && (static_cast<uint8_t>(text[--begin]) & 0xC0) == 0x80) {
  }
  const auto characters = CodePoints(text.substr(begin));
  return characters.empty() ? 0 : characters.back();
}
uint32_t FirstCharacter(std::string_view text) {
  const auto characters = CodePoints(text.substr(0, 4));
  return characters.empty() ? 0 : characters.front();
}

// Whether a sentence may go on behind `text`: it ends in a letter, a comma or a hyphen.
bool IsUnfinished(std::string_view text) {
  constexpr uint32_t kStops[] = {U'。', U'．', U'！', U'？', U'…', U'؟',
                                 U'۔',  U'।',  U'॥',  U'»',  U'”'};
  if (text.empty()) return false;
  const char last = text.back();
  if (std::ranges::find(kStops, LastCharacter(text)) != std::end(kStops)) return false;
  return IsSmallLetter(last) || (last >= 'A' && last <= 'Z') || last == ',' || last == '-';
}

// Lines that stand beside each other, from the top; each row from the left. Tables have none.
std::vector<std::vector<size_t>> RowsOf(const std::vector<LaidOutLine>& lines) {
  std::vector<size_t> order(lines.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(lines[a].box.CenterY(), a) < std::pair(lines[b].box.CenterY(), b);
  });
  std::vector<std::vector<size_t>> rows;
  double bottom = -std::numeric_limits<double>::infinity();
  for (const size_t i : order) {
    const PdfBox& box = lines[i].box;
    if (lines[i].is_in_table) continue;
    if (rows.empty() || box.CenterY() > bottom) {
      rows.emplace_back();
      bottom = -std::numeric_limits<double>::infinity();
    }
    rows.back().push_back(i);
    bottom = std::max(bottom, box.y_max - 0.25 * box.Height());
  }
  for (auto& row : rows) {
    std::stable_sort(row.begin(), row.end(),
                     [&](size_t a, size_t b) { return lines[a].box.x_min < lines[b].box.x_min; });
  }
  return rows;
}

// Whether a line ends in a word's first part, however short the line is: a hyphen between letters
// or digits.
bool EndsInPart(std::string_view text, std::string_view next) {
  const size_t hyphen_size = EndingHyphen(text);
  if (hyphen_size == 0 || next.empty()) return false;
  const auto is_word = [](char c) {
    return IsSmallLetter(c) || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return is_word(text[text.size() - hyphen_size - 1]) && is_word(next.front());
}

// Gives the text's pages their labels. None are kept where no page of the text has one.
void LabelPages(const std::vector<PageLabel>& labels, PagedText& paged) {
  std::vector<std::string> texts(paged.pages.size());
  bool has_label = false;
  size_t next = 0;
  for (const PageLabel& label : labels) {
    while (next < paged.pages.size() && paged.pages[next].page < label.page) ++next;
    if (next == paged.pages.size() || paged.pages[next].page != label.page) continue;
    texts[next] = label.text;
    has_label = true;
  }
  if (has_label) paged.page_labels = std::move(texts);
}

}  // namespace

void DocumentText::Add(PdfPage page) {
  if (page.num_words == 0) return;
  if (pages_with_words_.empty() || pages_with_words_.back() != page.number) {
    pages_with_words_.push_back(page.number);
  }
  const bool is_garbage = 2 * page.num_unmapped > page.num_characters ||
                          kControlsOfGarbage * page.num_controls > page.num_characters ||
                          (page.num_characters >= kMinCharactersOfSigns &&
                           2 * page.num_rare_signs > page.num_characters);
  // Below some characters in words of signs, a page may only have a line of a program.
  const size_t num_unmapped =
      page.num_unmapped + (page.num_sign_words >= kMinCharacters ? page.num_sign_words : size_t{0});
  const auto note = [&page](std::vector<uint64_t>& pages) {
    if (pages.empty() || pages.back() != page.number) pages.push_back(page.number);
  };
  if (page.num_characters >= kMinCharacters && is_garbage) {
    note(unmapped_pages_);
  } else if (num_unmapped > 0) {
    note(partly_unmapped_pages_);
    num_unmapped_ += num_unmapped;
  }
  const auto number = static_cast<uint32_t>(page.number);
  const std::vector<LaidOutLine> lines = LayOutPage(std::move(page));
  const size_t first = lines_.size();
  for (const LaidOutLine& laid_out : lines) {
    Line& line = lines_.emplace_back();
    line.begin = text_.size();
    line.x = static_cast<float>((laid_out.box.x_min + laid_out.box.x_max) / 2);
    line.y = static_cast<float>(laid_out.box.CenterY());
    line.height = static_cast<float>(std::min(laid_out.box.Height(), laid_out.text.size() > 2
                                                                         ? laid_out.box.Width()
                                                                         : laid_out.box.Height()));
    line.page = number;
    line.before = laid_out.before;
    line.is_full = laid_out.is_full;
    line.is_footnote = laid_out.is_footnote;
    line.is_in_table = laid_out.is_in_table;
    CountHyphens(laid_out.text);
    text_ += laid_out.text;
  }
  MarkMargins(lines, first);
}

// Counts the hyphens within a line: ordinary ones and soft ones.
void DocumentText::CountHyphens(std::string_view text) {
  text.remove_suffix(EndingHyphen(text));
  for (size_t i = 1; i + 1 < text.size(); ++i) {
    num_hyphens_ += text[i] == '-' && IsSmallLetter(text[i - 1]) && IsSmallLetter(text[i + 1]);
    num_soft_hyphens_ += text.substr(i).starts_with(kSoftHyphen);
  }
}

// Notes the page's first and last rows, which may be running heads and page numbers.
void DocumentText::MarkMargins(const std::vector<LaidOutLine>& lines, size_t first) {
  const auto rows = RowsOf(lines);
  for (size_t i = 0; i < rows.size() && rows_.size() < kMaxMarginRows; ++i) {
    if (i >= kMarginRows && i + kMarginRows < rows.size()) continue;
    MarginRow row;
    std::string text;
    for (const size_t line : rows[i]) {
      text += (text.empty() ? "" : " ") + lines[line].text;
      row.height = std::max(row.height, lines_[first + line].height);
      lines_[first + line].row = static_cast<uint32_t>(rows_.size());
    }
    row.page = lines_[first].page;
    row.y = lines_[first + rows[i].front()].y;
    row.hashes = HashesOf(text, row.page);
    row.is_outermost = i == 0 || i + 1 == rows.size();
    rows_.push_back(row);
  }
}

std::string_view DocumentText::TextOf(size_t line) const {
  const uint64_t end = line + 1 < lines_.size() ? lines_[line + 1].begin : text_.size();
  return std::string_view(text_).substr(lines_[line].begin, end - lines_[line].begin);
}

// The height of the larger letters of the text, without headings: 85 of 100 bytes are no higher.
float DocumentText::TextHeight() const {
  std::map<int, uint64_t> bytes_by_height;  // in quarters of a point
  for (size_t i = 0; i < lines_.size(); ++i) {
    const float quarters = std::clamp(lines_[i].height * 4, 0.0F, 4000.0F);
    bytes_by_height[static_cast<int>(quarters)] += TextOf(i).size();
  }
  uint64_t below = 0;
  for (const auto& [quarters, bytes] : bytes_by_height) {
    below += bytes;
    if (100 * below >= 85 * text_.size()) return static_cast<float>(quarters + 1) / 4;
  }
  return 0;
}

// Leaves out the rows of margins that recur, then large lines at the same place (watermarks).
void DocumentText::LeaveOutRecurring(PagedText& paged) {
  const float height = TextHeight();
  std::vector<LinePlace> places;
  for (size_t i = 0; i < rows_.size(); ++i) {
    const MarginRow& row = rows_[i];
    if (row.height > kLargeHead * height) continue;
    const bool is_likely =
        row.is_outermost && (row.hashes.is_number || row.height <= kHeadHeight * height);
    LinePlace place{row.hashes.whole, row.page, 0, row.y, i, false, is_likely};
    if (!row.hashes.is_number) places.push_back(place);
    place.is_number = row.hashes.is_number;
    for (const uint64_t hash : row.hashes.with_distance) {
      place.hash = hash;
      if (hash != 0) places.push_back(place);
    }
  }
  std::vector<std::vector<size_t>> lines_of_rows(rows_.size());
  std::vector<std::vector<size_t>> large_lines;
  std::vector<LinePlace> large;
  for (size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    if (line.row != kNoRow) lines_of_rows[line.row].push_back(i);
    if (line.height < kLargeHeight * height || line.is_in_table) continue;
    large.push_back({HashesOf(TextOf(i), line.page).whole, line.page, line.x, line.y,
                     large_lines.size(), false, true});
    large_lines.push_back({i});
  }
  LeaveOut(places, lines_of_rows, false, paged);
  LeaveOut(large, large_lines, true, paged);
}

// Takes rows out of groups that have a row of the text, or much space, between them and the first
// or last row of the page.
void DocumentText::KeepInnerRows(const std::vector<LinePlace>& places,
                                 std::vector<std::vector<size_t>>& groups) const {
  std::vector<uint8_t> recurs(rows_.size()), is_margin(rows_.size());
  for (const auto& group : groups) {
    for (const size_t i : group) recurs[places[i].row] = 1;
  }
  const auto is_edge = [&](size_t i, size_t outer) {
    if (outer >= rows_.size() || rows_[outer].page != rows_[i].page) return true;
    return is_margin[outer] == 1 &&
           std::abs(rows_[outer].y - rows_[i].y) <= kHeadStep * rows_[i].height;
  };
  for (size_t i = 0; i < rows_.size(); ++i) is_margin[i] = recurs[i] != 0 && is_edge(i, i - 1);
  const std::vector<uint8_t> is_head = is_margin;
  std::fill(is_margin.begin(), is_margin.end(), uint8_t{0});
  for (size_t i = rows_.size(); i-- > 0;) is_margin[i] = recurs[i] != 0 && is_edge(i, i + 1);
  for (auto& group : groups) {
    std::erase_if(group, [&](size_t i) {
      return is_head[places[i].row] == 0 && is_margin[places[i].row] == 0;
    });
    if (group.size() < kMinRecurringPages) group.clear();
  }
}

// Marks lines that recur. If more than half of the pages had no other text, they are the text.
void DocumentText::LeaveOut(const std::vector<LinePlace>& places,
                            const std::vector<std::vector<size_t>>& lines_of_rows, bool same_x,
                            PagedText& paged) {
  auto groups = FindRecurring(places, paged.num_pages, same_x);
  if (!same_x) KeepInnerRows(places, groups);
  std::vector<uint8_t> is_left_out(lines_.size());
  for (const auto& group : groups) {
    for (const size_t i : group) {
      for (const size_t line : lines_of_rows[places[i].row]) is_left_out[line] = 1;
    }
  }
  if (!KeepsPages(is_left_out)) return;
  for (const auto& group : groups) {
    RecurringLine recurring;
    for (const size_t i : group) {
      bool is_new = false;
      for (const size_t line : lines_of_rows[places[i].row]) {
        is_new |= !lines_[line].is_left_out;
        lines_[line].is_left_out = true;
        if (i == group.front()) {
          recurring.text += (recurring.text.empty() ? "" : " ") + std::string(TextOf(line));
        }
      }
      recurring.num_pages += is_new;
    }
    if (recurring.num_pages > 0 && paged.recurring.size() < kMaxRecurring) {
      paged.recurring.push_back(std::move(recurring));
    }
  }
}

bool DocumentText::KeepsPages(const std::vector<uint8_t>& is_left_out) const {
  size_t num_kept = 0;
  uint32_t last_page = 0;
  for (size_t i = 0; i < lines_.size(); ++i) {
    if (is_left_out[i] != 0 || lines_[i].is_left_out || lines_[i].page == last_page) continue;
    last_page = lines_[i].page;
    ++num_kept;
  }
  return 2 * num_kept >= pages_with_words_.size();
}

// Whether a paragraph goes on from one block to the next one, in another column or on another page.
bool DocumentText::IsOneParagraph(const Line& line, const Line& next, std::string_view text,
                                  std::string_view next_text) const {
  const bool is_same_kind = !line.is_in_table && !next.is_in_table && !line.is_footnote &&
                            !next.is_footnote &&
                            std::abs(line.height - next.height) <= kSameHeight * line.height;
  const bool is_elsewhere = line.page != next.page || next.y < line.y - 2 * line.height;
  return is_same_kind && is_elsewhere && line.is_full && text.size() >= kMinFullLine &&
         IsUnfinished(text) && !next_text.empty() && IsSmallLetter(next_text.front());
}

// Learns from the whole document which words it divides.
HyphenJudge DocumentText::JudgeHyphens() const {
  HyphenJudge judge;
  size_t last = lines_.size();
  for (size_t i = 0; i < lines_.size(); ++i) {
    if (lines_[i].is_left_out) continue;
    if (last < i && EndingHyphen(TextOf(last)) > 0) judge.Want(TextOf(last), TextOf(i));
    last = i;
  }
  for (size_t i = 0; i < lines_.size(); ++i) {
    if (!lines_[i].is_left_out) judge.Count(TextOf(i));
  }
  return judge;
}

// A line's text as it is shown: without soft hyphens, or, where the document has no other hyphens,
// with hyphens for them; without the hyphen that ends it, whose size in bytes is `hyphen_size`.
std::string DocumentText::Shown(std::string_view text, size_t hyphen_size) const {
  text.remove_suffix(hyphen_size);
  std::string shown;
  for (size_t found; (found = text.find(kSoftHyphen)) != std::string_view::npos;) {
    shown += text.substr(0, found);
    if (SoftHyphensAreHyphens()) shown += '-';
    text.remove_prefix(found + kSoftHyphen.size());
  }
  return shown += text;
}

// Some fonts call their hyphen a soft one. A soft hyphen within a line is a hyphen where the
// document has several of them and no others.
bool DocumentText::SoftHyphensAreHyphens() const {
  return num_soft_hyphens_ >= kHyphensOfDocument && num_hyphens_ == 0;
}

// Appends what stands between a line and the line before it, which ends in `hyphen_size` bytes of
// hyphen that are not in the text yet.
void DocumentText::AppendBreak(LineBreak before, std::string_view last_text, std::string_view text,
                               const HyphenJudge& judge, std::string& out) const {
  constexpr std::string_view kBreaks[] = {"\n\n", "\n", " ", " | "};
  if (before == LineBreak::kLine || before == LineBreak::kWrap) {
    const std::string_view hyphen = EndingHyphen(last_text) == 1 ? "-" : "";
    out += hyphen;
    if (AddressGoesOn(out, text)) return;
    out.resize(out.size() - hyphen.size());
  }
  if (before == LineBreak::kLine && EndsInPart(last_text, text)) before = LineBreak::kWrap;
  if (before == LineBreak::kWrap && EndingHyphen(last_text) > 0) {
    const HyphenEnd end = judge.Decide(last_text, text);
    if (end != HyphenEnd::kDrop) out += end == HyphenEnd::kKeepSpace ? "- " : "-";
    return;
  }
  AppendHyphen(last_text, out);
  if (before == LineBreak::kWrap && !last_text.empty() && !text.empty() &&
      WrapsWithoutSpace(LastCharacter(last_text), FirstCharacter(text))) {
    return;
  }
  std::string_view gap = kBreaks[static_cast<size_t>(before)];
  if (gap.front() == ' ' && EndsInSpace(out)) gap.remove_prefix(1);
  out += gap;
}

// Appends the hyphen that ends a line with nothing behind it that could be its word's other part.
void DocumentText::AppendHyphen(std::string_view text, std::string& out) const {
  const bool is_shown = !text.ends_with(kSoftHyphen) || SoftHyphensAreHyphens();
  if (is_shown) out += text.substr(text.size() - EndingHyphen(text));
}

// Marks the lines that are titles of the outline.
void DocumentText::MarkHeadings(const std::vector<OutlineItem>& outline) {
  if (outline.empty()) return;
  std::vector<OutlineLine> candidates(lines_.size());
  for (size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    const bool goes_on = line.before == LineBreak::kWrap && i > 0 &&
                         std::abs(lines_[i - 1].height - line.height) <= kSameHeight * line.height;
    const bool may_belong = !line.is_left_out && !line.is_in_table && !line.is_footnote;
    candidates[i] = {TextOf(i), line.page, line.height, may_belong && !goes_on, may_belong};
  }
  for (const OutlineHeading& heading : FindOutlineHeadings(outline, candidates)) {
    lines_[heading.begin].heading = static_cast<uint8_t>(std::min(heading.level, 6U));
    for (size_t i = heading.begin + 1; i < heading.end; ++i) lines_[i].is_heading_rest = true;
  }
}

// Returns the break between two lines of the text that follow each other.
LineBreak DocumentText::BreakBetween(const Line& last, const Line& line, std::string_view last_text,
                                     std::string_view text) const {
  if (line.is_heading_rest) return LineBreak::kWrap;
  if (line.heading > 0 || last.heading > 0 || last.is_heading_rest) return LineBreak::kParagraph;
  const LineBreak before = last.page != line.page ? LineBreak::kParagraph : line.before;
  const bool is_one =
      before == LineBreak::kParagraph && IsOneParagraph(last, line, last_text, text);
  return is_one ? LineBreak::kWrap : before;
}

void DocumentText::Assemble(PagedText& paged) {
  const HyphenJudge judge = JudgeHyphens();
  std::string& out = paged.text;
  out.reserve(text_.size() + text_.size() / 8);
  const Line* last = nullptr;
  std::string_view last_text;
  for (size_t i = 0; i < lines_.size(); ++i) {
    const Line& line = lines_[i];
    const std::string_view text = TextOf(i);
    const std::string shown = Shown(text, EndingHyphen(text));
    if (line.is_left_out || (shown.empty() && !line.is_in_table)) continue;
    if (last != nullptr) {
      AppendBreak(BreakBetween(*last, line, last_text, text), last_text, text, judge, out);
    }
    if (paged.pages.empty() || paged.pages.back().page != line.page) {
      paged.pages.push_back({out.size(), line.page});
    }
    if (line.heading > 0) out += std::string(line.heading, '#') + ' ';
    out += shown;
    last = &line;
    last_text = text;
  }
  AppendHyphen(last_text, out);
  if (!out.empty()) out += '\n';
}

PagedText DocumentText::Finish(uint64_t num_pages, const PdfStructure& structure) {
  PagedText paged;
  paged.num_pages = num_pages;
  LeaveOutRecurring(paged);
  MarkHeadings(structure.outline);
  Assemble(paged);
  LabelPages(structure.labels, paged);
  for (uint64_t page = 1, i = 0; page <= num_pages; ++page) {
    while (i < pages_with_words_.size() && pages_with_words_[i] < page) ++i;
    const bool has_words = i < pages_with_words_.size() && pages_with_words_[i] == page;
    if (!has_words) paged.pages_without_text.push_back(page);
  }
  paged.unmapped_pages = std::move(unmapped_pages_);
  paged.partly_unmapped_pages = std::move(partly_unmapped_pages_);
  paged.num_unmapped = num_unmapped_;
  *this = DocumentText();
  return paged;
}

}  // namespace lectern::tools
