// AsciiDoc (docs.asciidoctor.org/asciidoc): its titles, in one line or two, and its blocks of code.
#include <algorithm>
#include <map>
#include <span>
#include <string>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/extract/markup_lines.h"
#include "tools/ingest/extract/readers.h"

namespace lectern::tools {
namespace {

// The sign that a line of four or more repeats, if such lines stand around a block: "-" and "." for
// code, "/" for comments, "+" for other markup; '\0': it is no such line.
char BlockSign(std::string_view line) {
  constexpr std::string_view kSigns = "-./+`";
  const size_t least = line.starts_with('`') ? 3 : 4;
  if (line.size() < least || kSigns.find(line[0]) == kSigns.npos) return '\0';
  return line.find_first_not_of(line[0]) == line.npos ? line[0] : '\0';
}

class AsciiDocReader {
 public:
  explicit AsciiDocReader(std::string_view text) : lines_(MarkupLines(text)) {
    for (size_t i = 0; i < lines_.size(); ++i) {
      if (BlockSign(lines_[i]) != '\0') last_[lines_[i]] = i;
    }
  }

  Extracted Read() {
    for (size_t i = 0; i < lines_.size();) i = Take(i);
    return writer_.Finish();
  }

 private:
  // Takes a title, a block, or line i alone; returns the next line.
  size_t Take(size_t i) {
    const std::string_view line = lines_[i];
    if (const int level = MarkedLevel(line)) {
      std::string_view title = line.substr(static_cast<size_t>(level));
      const std::string mark = " " + std::string(line.substr(0, static_cast<size_t>(level)));
      if (title.ends_with(mark)) title.remove_suffix(mark.size());  // "== Title =="
      writer_.Heading(level, title);
      return i + 1;
    }
    if (const int level = UnderlinedLevel(i)) {
      writer_.Heading(level, line);
      return i + 2;
    }
    const char sign = BlockSign(line);
    // A block that nothing closes is text: its line may rule off.
    if (sign == '\0' || last_.find(line)->second == i) {
      writer_.Line(line);
      return i + 1;
    }
    size_t end = i + 1;
    while (lines_[end] != line) ++end;
    const std::span<const std::string_view> block = std::span(lines_).subspan(i + 1, end - i - 1);
    if (sign == '+') {
      for (const std::string_view inner : block) writer_.Line(inner);
    } else if (sign != '/') {
      writer_.Code(block);
    }
    return end + 1;
  }

  // "== Title", or as Markdown has it: the number of signs; 0: the line is no title.
  static int MarkedLevel(std::string_view line) {
    if (line.empty() || (line[0] != '=' && line[0] != '#')) return 0;
    const size_t level = std::min(line.find_first_not_of(line[0]), line.size());
    return level <= 6 && level < line.size() && line[level] == ' ' ? static_cast<int>(level) : 0;
  }

  // The level of a title with a line of signs below it that is as long, or two longer or shorter,
  // as AsciiDoc's first program takes it; 0: line i is none.
  int UnderlinedLevel(size_t i) const {
    constexpr std::string_view kSigns = "=-~^+";
    constexpr size_t kMostOff = 2;
    if (i + 1 >= lines_.size() || lines_[i].empty()) return 0;
    const std::string_view title = lines_[i], rule = lines_[i + 1];
    const bool is_block = i == 0 || lines_[i - 1].empty() || lines_[i - 1].ends_with(']') ||
                          lines_[i - 1].starts_with("//");
    if (rule.size() < 2 || rule.find_first_not_of(rule[0]) != rule.npos || !is_block) return 0;
    const size_t level = kSigns.find(rule[0]), width = NumCharacters(title);
    const bool is_as_long = rule.size() <= width + kMostOff && width <= rule.size() + kMostOff;
    const bool has_words = std::any_of(title.begin(), title.end(), [](char c) {
      return IsAsciiLetter(c) || IsAsciiDigit(c) || static_cast<uint8_t>(c) >= 0x80;
    });
    // "[source]" and ".Title" belong to the block below.
    const bool is_of_block = title[0] == '[' || (title[0] == '.' && rule[0] != '=');
    return level == kSigns.npos || !is_as_long || !has_words || is_of_block
               ? 0
               : static_cast<int>(level) + 1;
  }

  const std::vector<std::string_view> lines_;
  MarkupWriter writer_;
  std::map<std::string_view, size_t> last_;  // the last line of each delimiter of blocks
};

}  // namespace

api::Result<Extracted> ReadAsciiDoc(std::string_view bytes) {
  const std::string clean = CleanUtf8(bytes).text;
  return AsciiDocReader(clean).Read();
}

}  // namespace lectern::tools
