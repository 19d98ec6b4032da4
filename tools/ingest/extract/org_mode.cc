// Org (orgmode.org/worg/org-syntax.html): its headlines and blocks of code. Comments, settings and
// drawers, which no reader is shown, are left out.
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

std::string_view Trimmed(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
}

// The number of stars of a headline, "** Title"; 0: the line is none.
size_t NumStars(std::string_view line) {
  const size_t stars = std::min(line.find_first_not_of('*'), line.size());
  return stars < line.size() && line[stars] == ' ' ? stars : 0;
}

class OrgReader {
 public:
  explicit OrgReader(std::string_view text) : lines_(MarkupLines(text)) {}

  Extracted Read() {
    for (size_t i = 0; i < lines_.size();) i = Take(i);
    return writer_.Finish();
  }

 private:
  // Takes a headline, block or drawer, or line i alone; returns the next line.
  size_t Take(size_t i) {
    const std::string_view line = lines_[i], text = Trimmed(line);
    if (const size_t stars = NumStars(line)) {
      // Headlines stand below the title of the document.
      writer_.Heading(static_cast<int>(std::min<size_t>(stars, 6)) + has_title_,
                      line.substr(stars));
      return i + 1;
    }
    if (text.starts_with("#+")) return Keyword(i);
    if (text.starts_with("# ") || text == "#") return i + 1;
    const std::string lower = text.starts_with(':') ? Lower(text) : "";
    if (lower == ":properties:" || lower == ":logbook:") {
      if (const size_t end = EndOf(i, ":end:"); end < lines_.size()) return end + 1;
    }
    writer_.Line(line);
    return i + 1;
  }

  size_t Keyword(size_t i) {
    constexpr std::string_view kTitle = "#+title:", kBegin = "#+begin_", kEnd = "#+end_";
    const std::string_view text = Trimmed(lines_[i]);
    const std::string lower = Lower(text);
    if (lower.starts_with(kTitle)) {
      writer_.Heading(1, text.substr(kTitle.size()));
      has_title_ = true;
      return i + 1;
    }
    for (const std::string_view name : {"src", "example"}) {
      const std::string begin = std::string(kBegin) + std::string(name);
      if (!lower.starts_with(begin) || lower.substr(begin.size(), 1).find_first_not_of(' ') == 0)
        continue;
      const size_t end = EndOf(i, std::string(kEnd) + std::string(name));
      if (end == lines_.size()) break;
      writer_.Code(std::span(lines_).subspan(i + 1, end - i - 1));
      return end + 1;
    }
    // Titles of figures and tables are shown, and who wrote the text.
    for (const std::string_view shown : {"#+caption:", "#+author:", "#+date:", "#+subtitle:"}) {
      if (lower.starts_with(shown)) writer_.Line(Trimmed(text.substr(shown.size())));
    }
    return i + 1;
  }

  // The line behind line i that ends its block or drawer, before the next headline; the number of
  // lines where there is none.
  size_t EndOf(size_t i, const std::string& mark) {
    // A mark that was looked for in vain is not looked for again up to the headline.
    size_t& known = none_until_[mark];
    if (i < known) return lines_.size();
    size_t end = i + 1;
    for (; end < lines_.size() && NumStars(lines_[end]) == 0; ++end) {
      if (Lower(Trimmed(lines_[end])) == mark) return end;
    }
    known = end;
    return lines_.size();
  }

  const std::vector<std::string_view> lines_;
  MarkupWriter writer_;
  bool has_title_ = false;
  std::map<std::string, size_t> none_until_;  // by mark: the line up to which there is none
};

}  // namespace

api::Result<Extracted> ReadOrg(std::string_view bytes) {
  const std::string clean = CleanUtf8(bytes).text;
  return OrgReader(clean).Read();
}

}  // namespace lectern::tools
