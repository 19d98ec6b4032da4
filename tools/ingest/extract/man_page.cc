// Manual pages with the macros man (man(7), groff_man(7)); those with mdoc are in mdoc.h.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/extract/mdoc.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/roff_text.h"

namespace lectern::tools {
namespace {

// Writes a page line by line.
class ManReader {
 public:
  explicit ManReader(RoffStrings strings) : strings_(std::move(strings)) {}

  Extracted Read(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (!line.empty() && (line[0] == '.' || line[0] == '\'')) {
        Macro(line);
      } else {
        Text(line);
      }
    }
    EndBlock();
    return writer_.Finish(0, "");
  }

 private:
  enum class Wants { kNothing, kHeading, kSubheading, kTag };

  std::string Printed(std::string_view line) const { return RoffText(line, strings_); }

  // A line of text, which a heading or a tag may have waited for.
  void Text(std::string_view line) {
    if (in_table_) return TableLine(line);
    if (in_equation_) return;
    Add(Printed(line));
  }
  void Add(const std::string& text) {
    if (is_verbatim_) {
      block_ += text + "\n";
    } else if (wants_ == Wants::kTag) {
      AddTag(text);
    } else if (wants_ != Wants::kNothing) {
      writer_.Heading(wants_ == Wants::kHeading ? 2 : 3, text);
      wants_ = Wants::kNothing;
    } else if (text.find_first_not_of(" \t") == std::string::npos) {
      EndBlock();
    } else {
      // A line that begins with a space begins a new line of output.
      if (!block_.empty()) block_ += text[0] == ' ' ? '\n' : ' ';
      block_ += text;
    }
  }
  void AddTag(const std::string& text) {
    tag_ += (tag_.empty() ? "" : ", ") + text;
    wants_ = Wants::kNothing;
  }

  // Writes the paragraph or the item that was collected.
  void EndBlock() {
    if (is_verbatim_) {
      writer_.Code(block_);
    } else if (!tag_.empty()) {
      const bool ends = tag_.ends_with(':') || block_.empty();
      if (!is_in_items_) writer_.Gap();
      is_in_items_ = true;
      writer_.Item(tag_depth_ < 0 ? depth_ : tag_depth_, "- ", tag_ + (ends ? " " : ": ") + block_);
      tag_depth_ = -1;
    } else if (!marker_.empty()) {
      if (!is_in_items_) writer_.Gap();
      is_in_items_ = true;
      writer_.Item(depth_, marker_, block_);
    } else {
      is_in_items_ &= block_.find_first_not_of(" \n") == std::string::npos;
      writer_.Paragraph(block_);
    }
    block_.clear();
    tag_.clear();
    marker_.clear();
  }

  void Macro(std::string_view line) {
    line.remove_prefix(1);
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    const std::string_view name = line.substr(0, line.find_first_of(" \t"));
    const std::string_view rest = line.substr(name.size());
    if (in_table_ && name != "TE") {
      in_table_form_ |= name == "T&";
      const bool is_font = name == "B" || name == "I" || name == "BR" || name == "IR";
      if (in_text_block_ && is_font)
        cells_.back() += " " + Joined(rest, name.size() == 1 ? " " : "");
      return;
    }
    if (in_equation_ && name != "EN") return;
    if (Structure(name, rest) || Fonts(name, rest) || Modes(name)) return;
    if (name == "UR" || name == "MT") {
      link_ = Joined(rest, " ");
    } else if (name == "UE" || name == "ME") {
      if (!link_.empty()) Add(link_);
      link_.clear();
    } else if (name == "SY" || name == "OP" || name == "MR" || name == "YS" || name == "TQ") {
      Synopsis(name, rest);
    }
  }

  bool Structure(std::string_view name, std::string_view rest) {
    if (name == "TH") {
      const auto arguments = RoffArguments(rest);
      if (arguments.size() > 1)
        writer_.Heading(1, Printed(arguments[0]) + "(" + Printed(arguments[1]) + ")");
    } else if (name == "SH" || name == "SS") {
      EndBlock();
      depth_ = 0;
      is_in_items_ = false;
      wants_ = name == "SH" ? Wants::kHeading : Wants::kSubheading;
      if (const std::string title = Joined(rest, " "); !title.empty()) Add(title);
    } else if (name == "PP" || name == "P" || name == "LP" || name == "HP" || name == "sp") {
      if (is_verbatim_ && name == "sp") {
        block_ += '\n';
      } else if (!is_verbatim_ && !(name == "sp" && wants_ == Wants::kTag)) {
        EndBlock();
      }
    } else if (name == "TP") {
      EndBlock();
      wants_ = Wants::kTag;
    } else if (name == "IP") {
      EndBlock();
      const auto arguments = RoffArguments(rest);
      Mark(arguments.empty() ? "" : Printed(arguments[0]));
    } else if (name == "RS" || name == "RE") {
      const bool is_term = name == "RS" && IsTerm(RoffArguments(rest));
      if (is_term) {
        tag_ = std::exchange(block_, "");
      } else if (!is_verbatim_) {
        EndBlock();
      }
      tag_depth_ = is_term ? depth_ : -1;
      depth_ = std::max(0, depth_ + (name == "RS" ? 1 : -1));
    } else if (name == "br") {
      if (!is_verbatim_ && !block_.empty()) block_ += '\n';
    } else {
      return false;
    }
    return true;
  }

  // Whether the paragraph before an indented one is the term that this explains. DocBook's style
  // sheets and Asciidoctor write options so: a paragraph, and ".RS 4" right behind it.
  bool IsTerm(const std::vector<std::string>& arguments) const {
    constexpr size_t kMostTermBytes = 200;  // a choice: longer ones are prose
    return arguments.size() == 1 && arguments[0] == "4" && !is_verbatim_ && tag_.empty() &&
           marker_.empty() && !block_.empty() && block_.size() <= kMostTermBytes &&
           !block_.ends_with(':') && !(block_.ends_with('.') && !block_.ends_with("..."));
  }

  // The tag of .IP: a bullet, a number, or a term.
  void Mark(const std::string& tag) {
    const bool is_bullet = tag == "•" || tag == "*" || tag == "-" || tag == "o" || tag == "·" ||
                           tag == "○" || tag == "□" || tag == "—" || tag == "–";
    const bool is_number =
        tag.size() >= 2 && tag.size() <= 4 && (tag.back() == '.' || tag.back() == ')') &&
        std::all_of(tag.begin(), tag.end() - 1, [](char c) { return c >= '0' && c <= '9'; });
    if (is_bullet) {
      marker_ = "- ";
    } else if (is_number) {
      marker_ = tag + " ";
    } else {
      tag_ = tag;
    }
  }

  bool Fonts(std::string_view name, std::string_view rest) {
    const bool is_spaced =
        name == "B" || name == "I" || name == "SM" || name == "SB" || name == "R" || name == "CW";
    const bool is_mixed = name == "BR" || name == "RB" || name == "IR" || name == "RI" ||
                          name == "BI" || name == "IB";
    if (!is_spaced && !is_mixed) return false;
    if (const std::string text = Joined(rest, is_spaced ? " " : ""); !text.empty()) Add(text);
    return true;
  }

  bool Modes(std::string_view name) {
    if (name == "nf" || name == "EX" || name == "Vb") {
      if (is_verbatim_) return true;
      EndBlock();
      is_verbatim_ = true;
    } else if (name == "fi" || name == "EE" || name == "Ve") {
      if (is_verbatim_) EndBlock();
      is_verbatim_ = false;
    } else if (name == "TS" || name == "TE") {
      EndBlock();
      writer_.Gap();
      in_table_ = name == "TS";
      in_table_form_ = true;
      if (!cells_.empty()) EndRow();
      in_text_block_ = false;
      table_tab_ = '\t';
    } else if (name == "EQ" || name == "EN") {
      in_equation_ = name == "EQ";
    } else {
      return false;
    }
    return true;
  }

  void Synopsis(std::string_view name, std::string_view rest) {
    const auto arguments = RoffArguments(rest);
    if (name == "SY") {
      EndBlock();
      Add(Joined(rest, " "));
    } else if (name == "YS") {
      EndBlock();
    } else if (name == "OP") {
      Add("[" + Joined(rest, " ") + "]");
    } else if (name == "TQ") {
      wants_ = Wants::kTag;
    } else if (arguments.size() > 1) {
      Add(Printed(arguments[0]) + "(" + Printed(arguments[1]) + ")" +
          (arguments.size() > 2 ? Printed(arguments[2]) : ""));
    }
  }

  // tbl(1): options that end with ";", the form of the columns up to a ".", then rows. "T{" begins
  // a cell of more lines, which "T}" ends.
  void TableLine(std::string_view line) {
    if (in_table_form_) {
      if (const size_t tab = line.find("tab(");
          tab != std::string_view::npos && tab + 4 < line.size())
        table_tab_ = line[tab + 4];
      in_table_form_ = !line.ends_with('.');
      return;
    }
    if (line == "_" || line == "=") return;
    if (in_text_block_) {
      if (!line.starts_with("T}")) {
        cells_.back() += " " + Printed(line);
        return;
      }
      in_text_block_ = false;
      line.remove_prefix(std::min(line.size(), size_t{3}));  // and the tab behind it
      if (line.empty()) return EndRow();
    }
    for (size_t begin = 0; begin <= line.size();) {
      const size_t end = std::min(line.find(table_tab_, begin), line.size());
      const std::string_view cell = line.substr(begin, end - begin);
      in_text_block_ = cell == "T{" && end == line.size();
      cells_.push_back(in_text_block_ || cell == "\\^" ? "" : Printed(cell));
      begin = end + 1;
    }
    if (!in_text_block_) EndRow();
  }
  void EndRow() {
    writer_.Row(cells_);
    cells_.clear();
  }

  std::string Joined(std::string_view rest, const char* between) const {
    std::string text;
    for (const std::string& argument : RoffArguments(rest)) {
      if (!text.empty()) text += between;
      text += Printed(argument);
    }
    return text;
  }

  RoffStrings strings_;
  TextBuilder writer_;
  std::string block_;         // the paragraph, or the body of an item
  std::string tag_, marker_;  // of the item
  std::string link_;          // of .UR
  Wants wants_ = Wants::kNothing;
  int depth_ = 0, tag_depth_ = -1;  // of a tag that is outside of its explanation; -1: it is not
  bool is_verbatim_ = false, is_in_items_ = false;
  bool in_table_ = false, in_table_form_ = false, in_text_block_ = false, in_equation_ = false;
  std::vector<std::string> cells_;  // of the table's row
  char table_tab_ = '\t';
};

}  // namespace

api::Result<Extracted> ReadManPage(std::string_view bytes) {
  const std::string page = CleanUtf8(bytes).text;
  RoffStrings strings;
  const std::vector<std::string> lines = RoffLines(page, strings);
  const bool is_mdoc = std::any_of(lines.begin(), lines.end(), [](const std::string& line) {
    return line.starts_with(".Dd") || line.starts_with(".Sh ");
  });
  for (const std::string& line : lines) {
    if (!line.starts_with(".so ") || lines.size() > 5) continue;
    return api::Error{LECTERN_EMPTY_DOCUMENT,
                      "only refers to the page " + line.substr(4) + "; give that one", "file"};
  }
  return is_mdoc ? ReadMdoc(lines, strings) : ManReader(std::move(strings)).Read(lines);
}

}  // namespace lectern::tools
