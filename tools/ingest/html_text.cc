#include "tools/ingest/html_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string_view>
#include <utility>

#include "tools/ingest/alt_text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/html_lists.h"
#include "tools/ingest/html_math.h"
#include "tools/ingest/list_numbers.h"

namespace lectern::tools {
namespace {

// Text as it grows. Breaks, spaces and markers wait until a character follows them, so that none is
// left at the end of a line, of a block or of the text.
class TextWriter {
 public:
  // Asks for at least so many newlines before the next text: 1 ends a line, 2 leave one empty.
  void Break(int newlines) {
    newlines_ = std::max(newlines_, newlines);
    gap_.clear();
  }
  // The marker of a list item or a heading. It stands before the next text, after its break and in
  // the place of spaces.
  void SetMarker(std::string marker) {
    marker_ = std::move(marker);
    num_bars_ = 0;
  }
  // Parts the next text from the cell before it; once more for each cell without text between them.
  void AddBar() { ++num_bars_; }

  bool EndsIn(char c) const { return text_.ends_with(c); }
  // Whether nothing stands in the line since a break was asked for.
  bool is_at_line_begin() const { return newlines_ > 0; }
  // Whether the next text would follow a character without a space.
  bool is_behind_text() const {
    return !text_.empty() && gap_.empty() && newlines_ == 0 && marker_.empty() && num_bars_ == 0;
  }
  size_t size() const { return text_.size(); }
  std::string_view Since(size_t begin) const { return std::string_view(text_).substr(begin); }

  // Adds text: white space runs become one space, unless `keeps_spaces` (pre). No-break spaces
  // count as spaces here, because they are used for layout.
  void Add(std::string_view text, bool keeps_spaces) {
    while (!text.empty()) {
      const size_t skipped = SkippedBytes(text);
      const bool is_nbsp = text.starts_with("\xC2\xA0");
      const char c = is_nbsp ? ' ' : text.front();
      text.remove_prefix(skipped > 0 ? skipped : is_nbsp ? 2 : 1);
      if (skipped > 0) continue;
      if (!IsHtmlSpace(c)) {
        Put(c);
      } else if (keeps_spaces) {
        gap_ += c;
      } else if (gap_.empty() && newlines_ == 0) {
        gap_ = ' ';
      }
    }
  }

  // Moves the text out.
  std::string Finish() {
    if (!text_.empty()) text_ += '\n';
    return std::move(text_);
  }

 private:
  // Length of the invisible character that `text` begins with: a soft hyphen, a zero-width space, a
  // byte order mark or a control; 0: it begins with none.
  static size_t SkippedBytes(std::string_view text) {
    if (text.starts_with("\xC2\xAD")) return 2;
    if (text.starts_with("\xE2\x80\x8B") || text.starts_with(kByteOrderMark)) return 3;
    const auto byte = static_cast<uint8_t>(text.front());
    return (byte < 0x20 && !IsHtmlSpace(text.front())) || byte == 0x7F ? 1 : 0;
  }

  // Writes one byte of a visible character, after what waits before it.
  void Put(char c) {
    const bool is_new_line = newlines_ > 0 || text_.empty();
    if (is_new_line) BeginLine();
    for (; num_bars_ > 0; --num_bars_) {
      if (!is_new_line || gap_.empty()) text_ += is_new_line && text_.ends_with('\n') ? "" : " ";
      text_ += num_bars_ == 1 ? "| " : "|";
      gap_.clear();
    }
    text_ += marker_.empty() ? gap_ : marker_;
    text_ += c;
    marker_.clear();
    gap_.clear();
  }

  // Newlines of pre count as those of its break; what follows the last of them indents.
  void BeginLine() {
    const auto newlines = std::count(gap_.begin(), gap_.end(), '\n');
    if (!text_.empty())
      text_.append(std::max(static_cast<size_t>(newlines_), static_cast<size_t>(newlines)), '\n');
    gap_.erase(0, gap_.rfind('\n') + 1);  // nothing where there is none
    newlines_ = 0;
  }

  std::string text_;
  std::string gap_;  // spaces since the last character or break
  std::string marker_;
  size_t num_bars_ = 0;  // between the cells of a row
  int newlines_ = 0;
};

// Writes the text of the items, with the breaks and markers that elements ask for. One use.
class Renderer {
 public:
  Renderer(const std::vector<HtmlItem>& items, bool marks_headings)
      : items_(items), marks_headings_(marks_headings) {}

  std::string Run(size_t root) {
    repeated_left_ = kLeastRepeated + 4 * items_[root].shown;
    tables_.emplace_back();  // the root may be a part of one
    for (size_t i = root; i < items_[root].end;) {
      while (!open_.empty() && items_[open_.back().item].end <= i) Close();
      const HtmlItem& item = items_[i];
      if (item.is_boilerplate || item.part == HtmlItem::Part::kMarker) {
        if (!item.is_boilerplate) MarkItem(i);
        i = item.end;
        continue;
      }
      if (item.node->type != GUMBO_NODE_ELEMENT) {
        Text(item.node->v.text.text);
      } else if (IsWhole(item.node)) {
        Whole(i);
      } else {
        BeginElement(i);
      }
      ++i;
    }
    while (!open_.empty()) Close();
    return writer_.Finish();
  }

 private:
  struct Open {
    size_t item;
    int count = 0, step = 1;  // of the items of an ol
    NumberStyle style = NumberStyle::kDecimal;
    size_t text_begin = 0, column = 0;  // of a cell
  };
  // A cell that goes on in the rows below.
  struct Span {
    int num_rows;  // that it still goes on for
    int num_columns;
    std::string text;
  };
  // A cell that is to be said again in the columns that it spans, if the row has another one.
  struct Repeat {
    int count = 0;
    std::string text;
  };
  struct Table {
    std::map<size_t, Span> spans;  // by column
    size_t column = 0;             // of the next cell of the row
    bool has_cells = false;        // in the row
    Repeat repeat;                 // of the cell before
  };
  // Bytes of cells that are written again, beyond four times the text: a page may ask for any
  // number.
  static constexpr uint64_t kLeastRepeated = 1 << 16;
  static constexpr uint64_t kSpanCost = 16;  // of looking at one, in bytes

  void Text(std::string_view text) {
    if (num_raised_ > 0 && writer_.is_behind_text() && !writer_.EndsIn('[')) {
      if (const std::string raised = Superscript(text); !raised.empty())
        return writer_.Add(raised, false);
    }
    writer_.Add(text, num_pre_ > 0);
  }

  // An image, a drawing or a formula.
  void Whole(size_t i) {
    const GumboNode* const node = items_[i].node;
    if (TagOf(node) == GUMBO_TAG_MATH) return writer_.Add(MathText(node), false);
    const std::string text = DescriptionOf(node);
    const bool is_apart = text.starts_with(kImageBegin);
    // One word of a link is a button ("Next").
    const bool is_button =
        is_apart && items_[i].in_link && text.find(' ', kImageBegin.size()) == std::string::npos;
    if (text.empty() || is_button || (is_apart && IsSaidNearby(i, text))) return;
    if (is_apart) writer_.Add(" ", false);
    writer_.Add(text, false);
    if (is_apart) writer_.Add(" ", false);
  }

  // Images that are ornaments have the role, an empty text, or the size of an icon.
  static std::string DescriptionOf(const GumboNode* node) {
    constexpr int kIcon = 20;  // pixels; a choice
    const std::string_view role = HtmlAttribute(node, "role");
    if (role == "presentation" || role == "none") return "";
    const bool is_drawing = TagOf(node) == GUMBO_TAG_SVG;
    const bool has_alt = gumbo_get_attribute(&node->v.element.attributes, "alt") != nullptr;
    const std::string text = ImageText("", HtmlAttribute(node, is_drawing ? "aria-label"
                                                               : has_alt  ? "alt"
                                                                          : "title"));
    const bool is_icon = NumberAttribute(node, "width", kIcon + 1) <= kIcon &&
                         NumberAttribute(node, "height", kIcon + 1) <= kIcon;
    return is_icon && text.starts_with(kImageBegin) ? "" : text;
  }

  // Whether the figure, row or element that the image is in says the same in words, as captions and
  // links do. `text`: of ImageText, in its brackets.
  bool IsSaidNearby(size_t i, const std::string& text) const {
    constexpr int kMostLevels = 4;
    constexpr size_t kMostItems = 200, kMostBytes = 4096;  // that are looked at
    const std::string_view said =
        std::string_view(text).substr(kImageBegin.size(), text.size() - kImageBegin.size() - 1);
    size_t around = items_[i].parent;
    for (size_t at = around, level = 0; level < kMostLevels; ++level, at = items_[at].parent) {
      const GumboTag tag = items_[at].tag;
      if (tag == GUMBO_TAG_FIGURE || tag == GUMBO_TAG_TR) around = at;
    }
    std::string nearby;
    const size_t end = std::min(items_[around].end, around + kMostItems);
    for (size_t at = around; at < end && nearby.size() < kMostBytes; ++at) {
      if (!IsText(items_[at].node)) continue;
      const std::string_view piece = items_[at].node->v.text.text;
      for (const char c : piece.substr(0, kMostBytes)) {
        if (!IsHtmlSpace(c)) {
          nearby += c;
        } else if (!nearby.ends_with(' ')) {
          nearby += ' ';
        }
      }
    }
    return nearby.find(said) != std::string::npos;
  }

  void BeginElement(size_t i) {
    const GumboNode* const node = items_[i].node;
    const GumboTag tag = items_[i].tag;
    // Two line breaks leave an empty line, where lines are not kept together.
    const bool is_empty_line = tag == GUMBO_TAG_BR && writer_.is_at_line_begin() &&
                               num_lists_ == 0 && num_cells_ == 0 && num_headings_ == 0;
    is_empty_line ? writer_.Break(2) : BreakAround(tag);
    if (marks_headings_ && HeadingLevel(tag) > 0) {
      ++num_headings_;
      writer_.SetMarker(std::string(HeadingLevel(tag), '#') + " ");
    }
    Open open = {.item = i};
    if (tag == GUMBO_TAG_LI) writer_.SetMarker(ListMarker(node));
    if (tag == GUMBO_TAG_OL) BeginNumbers(node, open);
    BeginTablePart(i, open);
    if (items_[i].is_data) ++num_cells_;
    if (KeepsSpaces(node)) ++num_pre_;
    if (tag == GUMBO_TAG_UL || tag == GUMBO_TAG_OL) ++num_lists_;
    if (IsRaised(node, tag)) ++num_raised_;
    if (tag == GUMBO_TAG_Q) writer_.Add("“", false);
    open_.push_back(open);
  }

  void Close() {
    const Open open = open_.back();
    const HtmlItem& item = items_[open.item];
    const GumboTag tag = item.tag;
    if (item.is_data) {
      --num_cells_;
      EndCell(item, open);
    } else if (tag == GUMBO_TAG_TD || tag == GUMBO_TAG_TH) {
      writer_.Break(1);
      is_first_cell_ = true;  // the next one begins a line
    }
    if (tag == GUMBO_TAG_TR) EndRow();
    if (tag == GUMBO_TAG_TABLE && tables_.size() > 1) tables_.pop_back();
    open_.pop_back();
    if (marks_headings_ && HeadingLevel(tag) > 0) {
      --num_headings_;
      writer_.SetMarker("");
    }
    if (tag == GUMBO_TAG_UL || tag == GUMBO_TAG_OL) --num_lists_;
    BreakAround(tag);
    if (tag == GUMBO_TAG_LI || tag == GUMBO_TAG_TR || tag == GUMBO_TAG_TABLE) writer_.SetMarker("");
    if (KeepsSpaces(item.node)) --num_pre_;
    if (IsRaised(item.node, tag)) --num_raised_;
    if (tag == GUMBO_TAG_Q) writer_.Add("”", false);
  }

  static bool IsRaised(const GumboNode* node, GumboTag tag) {
    return tag == GUMBO_TAG_SUP || IsNoteReference(node);
  }

  // Breaks before and after an element. Inside a list, paragraphs are lines: items stay together.
  // Inside a cell of data they are words: a row stays one line, and so does a heading that is
  // marked.
  void BreakAround(GumboTag tag) {
    if (!IsBlock(tag)) return;
    if (num_cells_ > 0 || num_headings_ > 0) return writer_.Add(" ", false);
    writer_.Break(Paragraphs().Has(tag) && num_lists_ == 0 ? 2 : 1);
  }

  // --- lists

  // How an ol counts: start, type and reversed, and the type as old style sheets inside of it say
  // it.
  static void BeginNumbers(const GumboNode* node, Open& open) {
    constexpr std::pair<std::string_view, NumberStyle> kStyles[] = {
        {"lower-alpha", NumberStyle::kLowerLetter}, {"lower-latin", NumberStyle::kLowerLetter},
        {"upper-alpha", NumberStyle::kUpperLetter}, {"upper-latin", NumberStyle::kUpperLetter},
        {"lower-roman", NumberStyle::kLowerRoman},  {"upper-roman", NumberStyle::kUpperRoman}};
    const std::string_view type = HtmlAttribute(node, "type");
    open.style = type == "a"   ? NumberStyle::kLowerLetter
                 : type == "A" ? NumberStyle::kUpperLetter
                 : type == "i" ? NumberStyle::kLowerRoman
                 : type == "I" ? NumberStyle::kUpperRoman
                               : NumberStyle::kDecimal;
    const std::string css = Lower(HtmlAttribute(node, "style"));
    for (const auto& [name, style] : kStyles) {
      if (css.find(name) != std::string::npos) open.style = style;
    }
    int first = 1;
    if (gumbo_get_attribute(&node->v.element.attributes, "reversed")) {
      open.step = -1;
      const GumboVector& children = node->v.element.children;
      const auto num_items =
          std::count_if(children.data, children.data + children.length, [](const void* child) {
            return TagOf(static_cast<const GumboNode*>(child)) == GUMBO_TAG_LI;
          });
      first = static_cast<int>(std::min<ptrdiff_t>(num_items, 999'999));
    }
    open.count = NumberAttribute(node, "start", first) - open.step;
  }

  // The marker of the next item, indented in lists inside of others.
  std::string ListMarker(const GumboNode* node) {
    constexpr int kMostIndented = 8;
    const std::string indent(2 * static_cast<size_t>(std::clamp(num_lists_ - 1, 0, kMostIndented)),
                             ' ');
    if (open_.empty() || items_[open_.back().item].tag != GUMBO_TAG_OL) return indent + "- ";
    Open& list = open_.back();
    list.count = NumberAttribute(node, "value", list.count + list.step);
    return indent + NumberText(list.count, list.style) + ". ";
  }

  // A marker from a cell of its own. A row without one goes on with the item before.
  void MarkItem(size_t cell) {
    const std::string marker = MarkerText(items_, cell);
    if (!marker.empty()) writer_.SetMarker(marker + " ");
  }

  // --- tables

  void BeginTablePart(size_t i, Open& open) {
    const GumboTag tag = items_[i].tag;
    if (tag == GUMBO_TAG_TABLE) tables_.emplace_back();
    Table& table = tables_.back();
    if (tag == GUMBO_TAG_THEAD || tag == GUMBO_TAG_TBODY || tag == GUMBO_TAG_TFOOT) {
      table.spans.clear();
    } else if (tag == GUMBO_TAG_TR) {
      table.column = 0;
      table.has_cells = false;
      table.repeat = {};
    } else if (tag == GUMBO_TAG_TD || tag == GUMBO_TAG_TH) {
      if (items_[i].begins_row) {
        EndRow();
        table = {};
        writer_.SetMarker("");
        writer_.Break(1);
      }
      if (!items_[i].is_data) return writer_.Break(1);
      if (table.column == 0 && !table.has_cells) table.has_cells = true, is_first_cell_ = true;
      WriteSpans(table.column);
      BarBeforeCell();
      open.text_begin = writer_.size();
      open.column = table.column;
      table.column += static_cast<size_t>(WidthOf(items_[i]));
    }
  }

  static int WidthOf(const HtmlItem& cell) {
    constexpr int kMost = 1000;  // HTML Standard, "Forming a table"
    return std::clamp(NumberAttribute(cell.node, "colspan", 1), 1, kMost);
  }

  void BarBeforeCell() {
    if (std::exchange(is_first_cell_, false)) return;
    WriteRepeat();
    writer_.AddBar();
  }

  // Says the cell before in the other columns that it spans. A long one leaves them empty.
  void WriteRepeat() {
    constexpr size_t kMostRepeated = 100;  // bytes, as in TextBuilder::Row
    Repeat repeat = std::exchange(tables_.back().repeat, {});
    const uint64_t cost = kSpanCost + repeat.text.size();
    for (; repeat.count > 0 && cost <= repeated_left_; --repeat.count) {
      repeated_left_ -= cost;
      writer_.AddBar();
      if (repeat.text.size() <= kMostRepeated) writer_.Add(repeat.text, false);
    }
  }

  // Remembers a cell that goes on downwards or to the right.
  void EndCell(const HtmlItem& item, const Open& open) {
    const int num_rows = NumberAttribute(item.node, "rowspan", 1) - 1, width = WidthOf(item);
    if (num_rows <= 0 && width == 1) return;
    std::string_view text = writer_.Since(open.text_begin);
    text.remove_prefix(std::min(text.find_first_not_of(" |\n"), text.size()));
    tables_.back().repeat = {width - 1, std::string(text)};
    if (num_rows > 0) tables_.back().spans[open.column] = {num_rows, width, std::string(text)};
  }

  // A row's only cell, such as a title over the table, is said once.
  void EndRow() {
    WriteSpans(std::string::npos);
    Table& table = tables_.back();
    if (table.column > static_cast<size_t>(table.repeat.count) + 1) WriteRepeat();
  }

  // Says the cells from above that stand at `column` and right behind it; npos: at the row's end,
  // all that are left. A row without cells of its own says none.
  void WriteSpans(size_t column) {
    Table& table = tables_.back();
    const bool is_end = column == std::string::npos;
    for (auto span = table.spans.lower_bound(is_end ? table.column : column);
         span != table.spans.end() && (is_end || span->first == table.column);) {
      const uint64_t cost = kSpanCost + span->second.text.size();
      if (cost > repeated_left_) return table.spans.clear();
      repeated_left_ -= cost;
      if (table.has_cells) {
        BarBeforeCell();
        writer_.Add(span->second.text, false);
        table.repeat = {span->second.num_columns - 1, span->second.text};
      }
      table.column = span->first + static_cast<size_t>(span->second.num_columns);
      span = --span->second.num_rows <= 0 ? table.spans.erase(span) : std::next(span);
    }
  }

  const std::vector<HtmlItem>& items_;
  std::vector<Open> open_;
  std::vector<Table> tables_;  // inside of each other; never empty
  TextWriter writer_;
  const bool marks_headings_;
  bool is_first_cell_ = false;
  uint64_t repeated_left_ = 0;
  int num_pre_ = 0, num_lists_ = 0, num_headings_ = 0, num_cells_ = 0, num_raised_ = 0;
};

}  // namespace

std::string HtmlText(const std::vector<HtmlItem>& items, size_t root, bool marks_headings) {
  return Renderer(items, marks_headings).Run(root);
}

}  // namespace lectern::tools
