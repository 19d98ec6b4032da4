#include "tools/ingest/page_layout.h"

#include <utf8proc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <string_view>
#include <utility>

#include "tools/ingest/characters.h"
#include "tools/ingest/column_headings.h"
#include "tools/ingest/column_order.h"
#include "tools/ingest/column_sections.h"
#include "tools/ingest/drop_capitals.h"
#include "tools/ingest/leader_lines.h"
#include "tools/ingest/letter_forms.h"
#include "tools/ingest/letter_marks.h"
#include "tools/ingest/line_markers.h"
#include "tools/ingest/line_tails.h"
#include "tools/ingest/marked_words.h"
#include "tools/ingest/monospaced_text.h"
#include "tools/ingest/sideways_page.h"
#include "tools/ingest/spaced_lines.h"
#include "tools/ingest/table_layout.h"
#include "tools/ingest/vertical_text.h"
#include "tools/ingest/visual_order.h"

namespace lectern::tools {
namespace {

constexpr double kSmallerText = 0.93;  // a footnote's height in that of the page's text, at most
constexpr double kSameLine = 0.5;      // of the lower of two lines that are one, in its height
constexpr double kFootnoteArea = 0.5;  // footnotes stand below this share of the page

// Where tables take words from the lines of a page.
class TakenWords {
 public:
  TakenWords(const PdfPage& page, const std::vector<PdfTable>& tables)
      : tables_(page.lines.size()) {
    for (size_t i = 0; i < tables.size(); ++i) {
      for (const auto& row : tables[i].rows) {
        for (const TableCell& cell : row) {
          for (const WordRun& run : cell)
            tables_[run.line].push_back({run.first, run.num_words, i});
        }
      }
    }
    for (auto& taken : tables_) std::sort(taken.begin(), taken.end());
  }

  struct Taken {
    size_t first, num_words, table;
    auto operator<=>(const Taken&) const = default;
  };
  // By the first word.
  const std::vector<Taken>& Of(size_t line) const { return tables_[line]; }

 private:
  std::vector<std::vector<Taken>> tables_;
};

LetterCounts LettersOf(const PdfPage& page, size_t first_line, size_t end_line) {
  LetterCounts counts;
  for (size_t i = first_line; i < end_line; ++i) {
    for (const PdfWord& word : page.lines[i].words) CountLetters(word.text, counts);
  }
  return counts;
}

// The height of most of the page's text: the median over its words; 0 without any.
double TextHeight(const PdfPage& page) {
  std::vector<double> heights;
  heights.reserve(page.num_words);
  for (const PdfLine& line : page.lines) {
    heights.insert(heights.end(), line.words.size(), line.box.Height());
  }
  if (heights.empty()) return 0;
  const auto middle = heights.begin() + static_cast<ptrdiff_t>(heights.size() / 2);
  std::nth_element(heights.begin(), middle, heights.end());
  return *middle;
}

bool BeginsFootnote(std::string_view word) {
  constexpr std::string_view kMarks[] = {"*", "∗", "†", "‡", "§", "¶", "[", "¹",
                                         "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
  if (!word.empty() && word[0] >= '0' && word[0] <= '9') return true;
  return std::any_of(std::begin(kMarks), std::end(kMarks),
                     [&](std::string_view mark) { return word.starts_with(mark); });
}

// Marks the blocks that hold a column's footnotes: small text that begins with a footnote's mark,
// or continues such a block, at the end of a column, below all other text there.
std::vector<bool> FootnoteBlocks(const PdfPage& page, double text_height) {
  std::vector<bool> is_footnote(page.blocks.size());
  std::vector<double> heights(page.blocks.size());
  std::vector<bool> begins(page.blocks.size());
  for (const PdfLine& line : page.lines) {
    if (heights[line.block] == 0) begins[line.block] = BeginsFootnote(line.words.front().text);
    heights[line.block] = std::max(heights[line.block], line.box.Height());
  }
  for (size_t i = 0; i < page.blocks.size(); ++i) {
    const PdfBox& block = page.blocks[i];
    const bool continues = i > 0 && is_footnote[i - 1] && block.y_min >= page.blocks[i - 1].y_min;
    if (heights[i] == 0 || heights[i] > kSmallerText * text_height || !(begins[i] || continues) ||
        block.y_min < kFootnoteArea * page.height) {
      continue;
    }
    // Looks at the neighbours alone, so that the time stays linear: the next block of the column is
    // the next in reading order.
    const bool is_last = i + 1 == page.blocks.size() || page.blocks[i + 1].y_min < block.y_min ||
                         heights[i + 1] <= kSmallerText * text_height ||
                         page.blocks[i + 1].y_min > 0.88 * page.height;
    is_footnote[i] = is_last;
  }
  return is_footnote;
}

bool HasMarksBehind(const PdfPage& page) {
  MarkCounts counts;
  for (const PdfLine& line : page.lines) CountMarks(line.words, counts);
  return counts.AreBehind();
}

// Puts the columns of a page, or else those of its sections, one after the other, the first one
// from the left. Returns the gutters of OrderColumns.
std::vector<double> OrderText(PdfPage& page) {
  std::vector<double> gutters = OrderColumns(page);
  if (gutters.empty()) OrderSections(page);
  return gutters;
}

// OrderText for pages whose first column is the one at the right.
std::vector<double> OrderTextFromRight(PdfPage& page) {
  const auto mirror = [&](PdfBox& box) {
    box = {page.width - box.x_max, box.y_min, page.width - box.x_min, box.y_max};
  };
  const auto mirror_page = [&] {
    for (PdfLine& line : page.lines) {
      mirror(line.box);
      for (PdfWord& word : line.words) mirror(word.box);
      std::reverse(line.words.begin(), line.words.end());
    }
    for (PdfBox& block : page.blocks) mirror(block);
  };
  mirror_page();
  std::vector<double> gutters = OrderText(page);
  mirror_page();
  for (double& gutter : gutters) gutter = page.width - gutter;
  std::reverse(gutters.begin(), gutters.end());
  return gutters;
}

// Whether two neighbouring lines of pdftotext are one: they stand beside or within each other.
bool IsOneLine(const PdfLine& a, const PdfLine& b) {
  const double height = std::min(a.box.Height(), b.box.Height());
  const double overlap = std::min(a.box.y_max, b.box.y_max) - std::max(a.box.y_min, b.box.y_min);
  const double gap = std::max(a.box.x_min, b.box.x_min) - std::min(a.box.x_max, b.box.x_max);
  return overlap > kSameLine * height && gap < kSameLine * height;
}

// Appends line `line` of `page` to `whole`, the first lines of its block being whole.lines[first]
// and those behind it: as a line of its own, or to the line whose part it is.
void AppendPart(const PdfPage& page, const PdfLine& line, size_t first, PdfPage& whole) {
  constexpr size_t kPartsLookedAt = 16;  // lines of a block; bounds the time of hostile pages
  for (size_t i = whole.lines.size(); i-- > first && whole.lines.size() - i <= kPartsLookedAt;) {
    PdfLine& last = whole.lines[i];
    if (!IsOneLine(last, line)) continue;
    last.words.insert(last.words.end(), line.words.begin(), line.words.end());
    last.box.Cover(line.box);
    whole.blocks[last.block].Cover(page.blocks[line.block]);
    return;
  }
  whole.lines.push_back(line);
}

// The page with the lines put together that pdftotext takes apart because vowel points and the
// letters of some right-to-left fonts are drawn at places of their own.
PdfPage WithWholeLines(const PdfPage& page) {
  PdfPage whole = page;
  whole.lines.clear();
  for (size_t begin = 0, end = 0; begin < page.lines.size(); begin = end) {
    while (end < page.lines.size() && page.lines[end].block == page.lines[begin].block) ++end;
    // The parts of a line come in any order; from the left, each one touches those before it.
    std::vector<size_t> parts(end - begin);
    std::iota(parts.begin(), parts.end(), begin);
    std::sort(parts.begin(), parts.end(), [&](size_t a, size_t b) {
      return std::pair(page.lines[a].box.x_min, a) < std::pair(page.lines[b].box.x_min, b);
    });
    const size_t first = whole.lines.size();
    for (const size_t i : parts) AppendPart(page, page.lines[i], first, whole);
    const auto lines = whole.lines.begin() + static_cast<ptrdiff_t>(first);
    std::stable_sort(lines, whole.lines.end(), [](const PdfLine& a, const PdfLine& b) {
      return a.box.CenterY() < b.box.CenterY();
    });
    // A block of its own may hold the rest of the line above.
    if (first > 0 && IsOneLine(whole.lines[first - 1], *lines)) {
      PdfLine& last = whole.lines[first - 1];
      last.words.insert(last.words.end(), lines->words.begin(), lines->words.end());
      last.box.Cover(lines->box);
      whole.blocks[last.block].Cover(whole.blocks[lines->block]);
      whole.lines.erase(lines);
    }
  }
  for (PdfLine& line : whole.lines) {
    std::stable_sort(line.words.begin(), line.words.end(),
                     [](const PdfWord& a, const PdfWord& b) { return a.box.x_min < b.box.x_min; });
  }
  return whole;
}

// Puts short texts at the right margin into their lines, but those of tables.
void JoinTailsOfText(const std::vector<double>& gutters, PdfPage& page) {
  const std::vector<LineTail> tails = TailsOf(page);
  if (tails.empty()) return;
  std::vector<bool> is_taken(page.lines.size());
  for (const PdfTable& table : FindTables(page, gutters)) {
    for (const auto& row : table.rows) {
      for (const TableCell& cell : row) {
        for (const WordRun& run : cell) is_taken[run.line] = true;
      }
    }
  }
  JoinTails(tails, is_taken, page);
}

class PageWriter {
 public:
  // `gutters`: between columns of text, as OrderColumns returns them. `has_marks_behind`:
  // LineDirection's.
  PageWriter(const PdfPage& page, const std::vector<double>& gutters, bool has_marks_behind)
      : page_(page),
        text_height_(TextHeight(page)),
        tables_(FindTables(page, gutters)),
        taken_(page, tables_),
        is_written_(tables_.size()),
        is_footnote_(FootnoteBlocks(page, text_height_)),
        has_marks_behind_(has_marks_behind),
        monospaced_(page) {}

  std::vector<LaidOutLine> Write() {
    WriteBlocks(false);
    WriteBlocks(true);
    if (!lines_.empty()) lines_.front().before = LineBreak::kParagraph;
    return std::move(lines_);
  }

 private:
  void WriteBlocks(bool is_footnote) {
    for (size_t begin = 0, end = 0; begin < page_.lines.size(); begin = end) {
      const size_t block = page_.lines[begin].block;
      while (end < page_.lines.size() && page_.lines[end].block == block) ++end;
      if (is_footnote_[block] == is_footnote) WriteBlock(begin, end);
    }
  }

  void WriteBlock(size_t begin, size_t end) {
    was_right_to_left_ = is_right_to_left_;
    is_right_to_left_ = LettersOf(page_, begin, end).IsRightToLeft();
    is_program_text_ = monospaced_.HoldsLines(begin, end);
    has_short_lines_ = HoldsShortLines(begin, end);
    const PdfBox& block = page_.blocks[page_.lines[begin].block];
    const bool continues = ContinuesAbove(page_.lines[begin].box) || ContinuesSentence(begin, end);
    block_.Cover(block);
    if (!continues) block_ = block;
    next_ = continues ? LineBreak::kLine : LineBreak::kParagraph;
    for (size_t i = begin; i < end; ++i) {
      size_t first = 0;
      for (const auto& taken : taken_.Of(i)) {
        WriteWords(i, first, taken.first - first);
        first = taken.first + taken.num_words;
        if (!is_written_[taken.table]) WriteTable(taken.table);
      }
      WriteWords(i, first, page_.lines[i].words.size() - first);
    }
  }

  // Whether a line continues the last block: pdftotext parts the last, short line of a paragraph
  // from right to left, because its left end is elsewhere.
  bool ContinuesAbove(const PdfBox& line) const {
    if (lines_.empty() || !is_right_to_left_ || !was_right_to_left_) return false;
    if (lines_.back().is_in_table) return false;
    const double height = line.Height(), step = line.CenterY() - line_box_.CenterY();
    return std::abs(line_box_.Height() - height) < 0.1 * height && step > 0.5 * height &&
           step < 1.6 * height && std::abs(line.x_max - line_box_.x_max) < 0.5 * height;
  }

  // Whether lines [begin, end), which begin a block, go on with the sentence of the line above:
  // pdftotext parts a paragraph where a line begins in another font, such as that of a program's
  // name. They begin with a small letter below a line without a stop, as far down as their own
  // lines are apart, and as far to the left.
  bool ContinuesSentence(size_t begin, size_t end) const {
    if (lines_.empty() || is_right_to_left_ || was_right_to_left_ || is_program_text_ ||
        end - begin < 2 || lines_.back().is_in_table || !taken_.Of(begin).empty()) {
      return false;
    }
    const PdfBox &first = page_.lines[begin].box, &second = page_.lines[begin + 1].box;
    const std::string& above = lines_.back().text;
    const char next = page_.lines[begin].words.front().text.front();
    const double step = second.CenterY() - first.CenterY();
    return IsAsciiLower(next) && (IsAsciiLetter(above.back()) || above.back() == ',') &&
           std::abs(first.Height() - line_box_.Height()) < 0.1 * first.Height() && step > 0 &&
           std::abs(first.CenterY() - line_box_.CenterY() - step) < 0.1 * first.Height() &&
           std::abs(first.x_min - line_box_.x_min) < 0.1 * first.Height();
  }

  // Writes words of a line that are in no table.
  void WriteWords(size_t index, size_t first, size_t num_words) {
    if (num_words == 0) return;
    const PdfLine& line = page_.lines[index];
    const std::vector<PdfWord> words(
        line.words.begin() + static_cast<ptrdiff_t>(first),
        line.words.begin() + static_cast<ptrdiff_t>(first + num_words));
    LaidOutLine out;
    out.text = LogicalText(words, {is_right_to_left_, has_marks_behind_});
    if (out.text.empty()) return;
    if (is_program_text_ && first == 0) out.text.insert(0, Indent(words.front()), ' ');
    out.box = words.front().box;
    for (const PdfWord& word : words) out.box.Cover(word.box);
    out.is_footnote = is_footnote_[line.block];
    out.before = next_;
    const bool begins_item = BeginsItem(words.front().text);
    const bool was_entry = std::exchange(is_entry_, line.is_entry);
    if (next_ == LineBreak::kLine) {
      const bool is_line =
          begins_item || is_program_text_ || is_entry_ || was_entry || has_short_lines_;
      out.before = is_line ? LineBreak::kLine : BreakBefore(words);
      lines_.back().is_full = out.before == LineBreak::kWrap;
    }
    line_box_ = num_words == line.words.size() ? line.box : out.box;
    out.is_full = !has_short_lines_ && !Fits(kWordWidth * out.box.Height());
    next_ = LineBreak::kLine;
    lines_.push_back(std::move(out));
  }

  // Whether lines [begin, end), which are a block, are lines of their own: addresses, people,
  // telephone numbers, items without bullets. All of them are short, none begins with a small
  // letter, and one is so short that the next word would have fitted behind it.
  bool HoldsShortLines(size_t begin, size_t end) const {
    constexpr double kTitleHeight = 1.25;  // of larger letters, in that of the page's text
    constexpr size_t kLeastShort = 3, kMostShort = 20, kMostBytes = 48;
    if (is_right_to_left_ || end - begin < kLeastShort || end - begin > kMostShort) return false;
    const PdfBox& block = page_.blocks[page_.lines[begin].block];
    bool has_gap = false, has_text = false;
    for (size_t i = begin; i < end; ++i) {
      const PdfLine& line = page_.lines[i];
      size_t num_bytes = 0;
      for (const PdfWord& word : line.words) {
        num_bytes += word.text.size() + 1;
        // Titles may be in capitals alone.
        has_text = has_text || std::any_of(word.text.begin(), word.text.end(), [](char c) {
                     return IsAsciiLower(c) || IsAsciiDigit(c);
                   });
      }
      if (num_bytes > kMostBytes || BeginsSmall(line.words.front().text) ||
          line.words.back().text.ends_with('-') || !taken_.Of(i).empty() ||
          line.box.Height() > kTitleHeight * text_height_ ||
          std::abs(line.box.x_min - page_.lines[begin].box.x_min) > line.box.Height()) {
        return false;
      }
      if (i == begin) continue;
      const PdfBox& last = page_.lines[i - 1].box;
      has_gap = has_gap || block.x_max - last.x_max > WidthWithSpace(line.words.front());
      if (line.box.CenterY() - last.CenterY() < kSameLine * line.box.Height()) return false;
    }
    return has_gap && has_text;
  }

  // Whether a word begins with a small letter, or with one of a script without capitals.
  static bool BeginsSmall(const std::string& word) {
    const std::vector<uint32_t> characters = CodePoints(word.substr(0, 4));
    if (characters.empty()) return false;
    const int category = utf8proc_category(static_cast<utf8proc_int32_t>(characters.front()));
    return category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LM ||
           category == UTF8PROC_CATEGORY_LO;
  }

  // How wide a word is with a space before it, which is about as wide as one of its characters.
  // Bytes are counted as characters, which is near enough.
  static double WidthWithSpace(const PdfWord& word) {
    const auto num_characters = static_cast<double>(word.text.size());
    return word.box.Width() * (num_characters + 1) / num_characters;
  }

  // How many characters a line of program text is indented in its block.
  size_t Indent(const PdfWord& word) const {
    constexpr double kMostIndented = 80;
    const double width = MonospacedText::CharacterWidth(word);
    const double indent = width > 0 ? std::round((word.box.x_min - block_.x_min) / width) : 0;
    return static_cast<size_t>(std::clamp(indent, 0.0, kMostIndented));
  }

  // Whether a line begins an item of a list: with a bullet, or with the number behind that of the
  // item before. Other numbers may begin a line of prose.
  bool BeginsItem(std::string_view word) {
    if (!IsListMarker(word)) return false;
    uint32_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc()) return static_cast<uint8_t>(word[0]) >= 0x80;  // "(a)" may be prose
    const bool is_next = number == 1 || number == item_number_ + 1;
    if (is_next || next_ != LineBreak::kLine) item_number_ = number;
    return is_next;
  }

  // How much room the last line left in the block that it belongs to.
  bool Fits(double width) const {
    const double room =
        is_right_to_left_ ? line_box_.x_min - block_.x_min : block_.x_max - line_box_.x_max;
    return width > 0 && room > width;
  }

  // Whether the first of `words` would have fitted behind the last line in its block.
  LineBreak BreakBefore(const std::vector<PdfWord>& words) const {
    PdfWord word = is_right_to_left_ ? words.back() : words.front();
    for (size_t i = words.size(); is_right_to_left_ && i-- > 1 && Touch(words[i - 1], words[i]);) {
      word.text += words[i - 1].text;  // letters may be words of their own
      word.box.Cover(words[i - 1].box);
    }
    return Fits(WidthWithSpace(word)) ? LineBreak::kLine : LineBreak::kWrap;
  }

  void WriteTable(size_t index) {
    is_written_[index] = true;
    LetterCounts counts;
    for (const auto& row : tables_[index].rows) {
      for (const TableCell& cell : row) {
        for (const WordRun& run : cell) CountLetters(WordsOf(run).front().text, counts);
      }
    }
    const bool is_right_to_left = counts.IsRightToLeft();
    next_ = LineBreak::kParagraph;
    if (tables_[index].is_by_column) return WriteByColumn(tables_[index], is_right_to_left);
    LineBreak next = LineBreak::kParagraph;
    for (auto row : tables_[index].rows) {
      if (is_right_to_left) std::reverse(row.begin(), row.end());
      while (!row.empty() && row.back().empty()) row.pop_back();
      const bool is_program_text = tables_[index].is_program_text;
      for (const TableCell& cell : row) {
        if (is_program_text && cell.empty()) continue;
        WriteCell(cell, next, is_right_to_left);
        next = is_program_text ? LineBreak::kWrap : LineBreak::kCell;
      }
      next = LineBreak::kLine;
    }
  }

  void WriteByColumn(const PdfTable& table, bool is_right_to_left) {
    const size_t num_columns = table.rows.front().size();
    for (size_t i = 0; i < num_columns; ++i) {
      LineBreak next = LineBreak::kParagraph;
      for (const auto& row : table.rows) {
        const TableCell& cell = row[is_right_to_left ? num_columns - 1 - i : i];
        if (cell.empty()) continue;
        WriteCell(cell, next, is_right_to_left);
        next = LineBreak::kLine;
      }
    }
  }

  void WriteCell(const TableCell& cell, LineBreak before, bool is_right_to_left) {
    if (cell.empty()) {
      LaidOutLine& out = lines_.emplace_back();
      out.before = before;
      out.is_in_table = true;
    }
    for (const WordRun& run : cell) {
      LaidOutLine out{.text = LogicalText(WordsOf(run), {is_right_to_left, has_marks_behind_}),
                      .before = before,
                      .box = run.box,
                      .is_in_table = true};
      lines_.push_back(std::move(out));
      before = LineBreak::kWrap;
    }
  }

  std::vector<PdfWord> WordsOf(const WordRun& run) const {
    const auto first = page_.lines[run.line].words.begin() + static_cast<ptrdiff_t>(run.first);
    return {first, first + static_cast<ptrdiff_t>(run.num_words)};
  }

  // A word that might have followed a full line, in heights of the line: about three letters.
  static constexpr double kWordWidth = 2.0;

  const PdfPage& page_;
  const double text_height_;
  const std::vector<PdfTable> tables_;
  const TakenWords taken_;
  std::vector<bool> is_written_;   // by table
  std::vector<bool> is_footnote_;  // by block
  const bool has_marks_behind_;    // LineDirection's
  const MonospacedText monospaced_;
  std::vector<LaidOutLine> lines_;
  // The state of the block that is being written:
  bool is_right_to_left_ = false, was_right_to_left_ = false;  // the second: the block before
  bool is_program_text_ = false;
  bool has_short_lines_ = false;
  bool is_entry_ = false;  // its last line is PdfLine::is_entry
  PdfBox block_;           // with the blocks that it continues
  LineBreak next_ = LineBreak::kParagraph;
  PdfBox line_box_;           // of its last line
  uint32_t item_number_ = 0;  // of the last item of a list, also of another block
};

}  // namespace

std::vector<LaidOutLine> LayOutPage(PdfPage page) {
  std::vector<double> gutters;
  bool has_marks_behind = false;
  TurnSidewaysPage(page);
  if (auto tiers = TurnVerticalText(page)) {
    gutters = std::move(*tiers);
  } else if (const auto letters = LettersOf(page, 0, page.lines.size());
             letters.right_to_left > 0) {
    page = WithWholeLines(page);
    has_marks_behind = HasMarksBehind(page);
    JoinMarkedWords(has_marks_behind, page);
    if (letters.IsRightToLeft()) gutters = OrderTextFromRight(page);
  } else {
    std::vector<PdfLine> stamps = TakeSidewaysStamps(page);
    JoinDropCapitals(page);
    JoinLeaderLines(page);
    JoinMarkers(page);
    gutters = OrderText(page);
    MoveHeadings(page);
    JoinSpacedLines(page);
    JoinTailsOfText(gutters, page);
    InsertStamps(std::move(stamps), page);
  }
  return PageWriter(page, gutters, has_marks_behind).Write();
}

}  // namespace lectern::tools
