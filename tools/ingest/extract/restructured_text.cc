// reStructuredText (docutils.sourceforge.io/docs/ref/rst/restructuredtext.html): its titles, which
// lines of signs mark.
#include <map>
#include <string>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/extract/markup_lines.h"
#include "tools/ingest/extract/readers.h"

namespace lectern::tools {
namespace {

// The sign that a line repeats from its first column on; '\0': it is no such line.
char AdornmentOf(std::string_view line) {
  if (line.empty() || line.find_first_not_of(line[0]) != line.npos) return '\0';
  const char sign = line[0];
  const bool is_sign = sign > ' ' && sign < 0x7F && !IsAsciiLetter(sign) && !IsAsciiDigit(sign);
  return is_sign ? sign : '\0';
}

// Whether a line of signs can mark a title. One that is shorter must have four signs, as docutils
// takes it with a warning. "::" and ".." announce other things.
bool CanMark(std::string_view adornment, std::string_view title) {
  const bool is_other = (adornment[0] == ':' || adornment[0] == '.') && adornment.size() < 3;
  return !is_other && (adornment.size() >= 4 || adornment.size() >= NumCharacters(title));
}

// A title as it is shown: without roles (":mod:`os`") and the marks around literal text ("``x``").
std::string ShownTitle(std::string_view title) {
  std::string shown;
  for (size_t at = 0; at < title.size(); ++at) {
    const size_t end = title[at] == ':' ? title.find(":`", at + 1) : title.npos;
    const std::string_view role = end == title.npos ? "" : title.substr(at + 1, end - at - 1);
    const bool is_role = !role.empty() && role.find_first_of(" `") == role.npos;
    if (is_role) at = end + 1;  // at the mark behind it
    if (!is_role && title[at] != '`') shown += title[at];
  }
  return shown;
}

class RestructuredTextReader {
 public:
  explicit RestructuredTextReader(std::string_view text) : lines_(MarkupLines(text)) {}

  Extracted Read() {
    for (size_t i = 0; i < lines_.size();) i = Take(i);
    return writer_.Finish();
  }

 private:
  std::string_view Line(size_t i) const { return i < lines_.size() ? lines_[i] : ""; }

  // Takes a title, or line i alone; returns the next line.
  size_t Take(size_t i) {
    const std::string_view line = lines_[i];
    const char over = AdornmentOf(line), under = AdornmentOf(Line(i + 1));
    const bool has_both =
        over != '\0' && AdornmentOf(Line(i + 2)) == over && under == '\0' && !Line(i + 1).empty();
    if (has_both && CanMark(line, CollapseSpace(Line(i + 1), false)) &&
        CanMark(Line(i + 2), CollapseSpace(Line(i + 1), false))) {
      return Title(over, true, Line(i + 1), i + 3);
    }
    if (over == '\0' && under != '\0' && BeginsBlock(i) && CanMark(Line(i + 1), line))
      return Title(under, false, line, i + 2);
    writer_.Line(line);
    return i + 1;
  }

  // Whether line i is the first one of a block of text, and no item, directive or quoted prompt.
  bool BeginsBlock(size_t i) const {
    const std::string_view line = lines_[i];
    if (line.empty() || line[0] == ' ' || line[0] == '\t') return false;
    for (const std::string_view mark : {"- ", "* ", "+ ", ".. ", ">>> ", "| "}) {
      if (line.starts_with(mark)) return false;
    }
    if (i == 0 || i == behind_title_) return true;
    const std::string_view before = lines_[i - 1];
    return before.empty() || before[0] == ' ' || before[0] == '\t' || before.starts_with(".. ");
  }

  // Levels are those of the order in which the signs appear.
  size_t Title(char sign, bool has_overline, std::string_view title, size_t next) {
    const int new_level = static_cast<int>(levels_.size()) + 1;
    const int level = levels_.emplace(std::pair(sign, has_overline), new_level).first->second;
    writer_.Heading(level, ShownTitle(title));
    behind_title_ = next;
    return next;
  }

  const std::vector<std::string_view> lines_;
  MarkupWriter writer_;
  std::map<std::pair<char, bool>, int> levels_;  // by sign, and whether it stands above, too
  size_t behind_title_ = 0;                      // the line behind the last title
};

}  // namespace

api::Result<Extracted> ReadRestructuredText(std::string_view bytes) {
  const std::string clean = CleanUtf8(bytes).text;
  return RestructuredTextReader(clean).Read();
}

}  // namespace lectern::tools
