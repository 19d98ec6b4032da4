// LaTeX (latexref.xyz): titles and sections, lists, tables by row, code. Commands that only say how
// a text looks are taken off it; formulas stay as they are written.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/extract/latex_names.h"
#include "tools/ingest/extract/markup_lines.h"
#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/text_builder.h"
#include "tools/ingest/letter_forms.h"

namespace lectern::tools {
namespace {

// Reads a text once from its start to its end. Arguments of footnotes and titles are read by
// readers of their own, to a depth.
class LatexReader {
 public:
  LatexReader(std::string_view text, int depth)
      : whole_(text), rest_(text), braces_(Braces(text)), depth_(depth) {}

  Extracted ReadDocument() {
    // A chapter of a book has none, and may show one as an example.
    constexpr std::string_view kBegin = "\\begin{document}";
    const size_t begin = FindCommand(kBegin);
    const auto is_before = [&](std::string_view section) { return FindCommand(section) < begin; };
    has_preamble_ = begin != rest_.npos && std::ranges::none_of(kLatexSections, is_before);
    if (has_preamble_) {
      const std::string_view preamble = rest_.substr(0, begin);
      for (const std::string_view name : {"\\title", "\\author", "\\date"})
        Preamble(preamble, name);
      rest_.remove_prefix(begin + kBegin.size());
    }
    Read();
    return writer_.Finish();
  }

  // The text in one line.
  std::string ReadLine() {
    is_one_line_ = true;
    Read();
    return CollapseSpace(line_, false);
  }

 private:
  static constexpr int kMostDepth = 8;

  // The place of a command that no comment holds.
  size_t FindCommand(std::string_view command) const {
    for (size_t at = rest_.find(command); at != rest_.npos;) {
      const size_t line = rest_.substr(0, at).find_last_of("\r\n") + 1;  // 0 where there is none
      if (rest_.substr(line, at - line).find('%') == rest_.npos) return at;
      at = rest_.find(command, std::min(rest_.find_first_of("\r\n", at), rest_.size()));
    }
    return rest_.npos;
  }

  // Each brace that opens with the one that closes it, or the text's end; ascending.
  static std::vector<std::pair<size_t, size_t>> Braces(std::string_view text) {
    std::vector<std::pair<size_t, size_t>> all;
    std::vector<size_t> open;  // indexes of `all`
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '{') {
        open.push_back(all.size());
        all.emplace_back(i, text.size());
      } else if (text[i] == '}' && !open.empty()) {
        all[open.back()].second = i;
        open.pop_back();
      }
    }
    return all;
  }

  void Preamble(std::string_view preamble, std::string_view command) {
    LatexReader reader(preamble, depth_);  // its braces are those of the preamble
    const size_t at = reader.FindCommand(command);
    if (at == preamble.npos) return;
    reader.rest_.remove_prefix(at + command.size());
    reader.SkipOptional();
    const std::string text = Inner(reader.Argument());
    if (command == "\\title") {
      writer_.Heading(1, text);
    } else if (!text.empty()) {
      writer_.Line(text);
      writer_.Line("");
    }
  }

  // An argument's text, in one line.
  std::string Inner(std::string_view argument) const {
    return depth_ < kMostDepth ? LatexReader(argument, depth_ + 1).ReadLine()
                               : std::string(argument);
  }

  void Read() {
    while (!rest_.empty() && !is_ended_) {
      const char c = rest_[0];
      if (c == '\\') {
        Command();
      } else if (c == '%') {
        Comment();
      } else if (c == '$') {
        Formula();
      } else if (c == '\n' || c == '\r') {
        LineEnd();
      } else if (c == '{' || c == '}') {
        rest_.remove_prefix(1);
      } else if (c == '~') {
        Put(" ", 1);
      } else if (c == '&' && table_depth_ > 0) {
        Put(" | ", 1);
      } else if (rest_.starts_with("---")) {
        Put("—", 3);
      } else if (rest_.starts_with("--")) {
        Put("–", 2);
      } else if (rest_.starts_with("``")) {
        Put("“", 2);
      } else if (rest_.starts_with("''")) {
        Put("”", 2);
      } else if (c == '`') {
        Put("‘", 1);
      } else {
        const size_t end = rest_.find_first_of("\\%$\n\r{}~&-`'", 1);
        Put(rest_.substr(0, end), std::min(end, rest_.size()));
      }
    }
    if (!is_one_line_) EndLine();
  }

  void Put(std::string_view text, size_t num_taken) {
    line_ += text;
    rest_.remove_prefix(num_taken);
  }
  // Ends a line of the text; an empty one ends a paragraph.
  void EndLine() {
    if (is_one_line_) {
      line_ += ' ';
      return;
    }
    writer_.Line(CollapseSpace(line_, false));
    line_.clear();
  }
  void Gap() {
    if (!is_one_line_ && !line_.empty()) EndLine();
    if (!is_one_line_) writer_.Line("");
  }

  void LineEnd() {
    rest_.remove_prefix(rest_.starts_with("\r\n") ? 2 : 1);
    if (table_depth_ > 0) {
      line_ += ' ';
      return;
    }
    const bool is_gap = line_.find_first_not_of(" \t") == line_.npos;
    // A line of commands alone, whose text is none, divides nothing.
    if (is_gap && had_command_) {
      line_.clear();
    } else {
      EndLine();
    }
    had_command_ = false;
  }

  // To the end of the line, which is no space then, nor are those at the start of the next one.
  void Comment() {
    const size_t end = std::min(rest_.find_first_of("\r\n"), rest_.size());
    rest_.remove_prefix(end);
    rest_.remove_prefix(rest_.starts_with("\r\n") ? 2 : std::min<size_t>(rest_.size(), 1));
    rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size()));
  }

  // A formula with its marks: they tell it from the words around.
  void Formula() {
    const std::string_view mark = rest_.starts_with("$$") ? "$$" : "$";
    size_t end = rest_.find(mark, mark.size());
    while (end != rest_.npos && rest_[end - 1] == '\\') end = rest_.find(mark, end + 1);
    const bool is_closed = end != rest_.npos && rest_.substr(0, end).find("\n\n") == rest_.npos;
    if (!is_closed) return Put("$", 1);
    Verbatim(end + mark.size());
  }
  // Takes so many bytes as they are, but for line ends.
  void Verbatim(size_t size) {
    for (const char c : rest_.substr(0, size)) line_ += c == '\n' || c == '\r' ? ' ' : c;
    rest_.remove_prefix(size);
  }

  void SkipSpaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t"), rest_.size())); }
  // The place of the brace that closes the one at a place of the whole text; npos: nothing does.
  size_t CloseOf(size_t brace) const {
    const auto found =
        std::lower_bound(braces_.begin(), braces_.end(), std::pair(brace, size_t{0}));
    const bool is_closed =
        found != braces_.end() && found->first == brace && found->second < whole_.size();
    return is_closed ? found->second : whole_.npos;
  }
  // The text in braces, which are taken; empty where the next character is no brace, or nothing
  // closes it.
  std::string_view Braced() {
    if (!rest_.starts_with('{')) return {};
    const size_t at = whole_.size() - rest_.size(), close = CloseOf(at);
    rest_.remove_prefix(1);
    if (close == whole_.npos) return {};
    rest_ = whole_.substr(close + 1);
    return whole_.substr(at + 1, close - at - 1);
  }
  // The text in brackets, likewise, of the same paragraph. Brackets in braces are text.
  std::string_view Bracketed() {
    constexpr size_t kMostBytes = 4096;
    if (!rest_.starts_with('[')) return {};
    const size_t begin = whole_.size() - rest_.size();
    if (next_bracket_ < begin) next_bracket_ = std::min(whole_.find(']', begin), whole_.size());
    if (next_bracket_ - begin > kMostBytes) return {};
    for (size_t i = begin + 1; i < std::min(whole_.size(), begin + kMostBytes); ++i) {
      if (whole_[i] == '\\') {
        ++i;
      } else if (whole_[i] == '{') {
        i = CloseOf(i);
        if (i == whole_.npos) break;
      } else if (whole_[i] == ']') {
        rest_ = whole_.substr(i + 1);
        return whole_.substr(begin + 1, i - begin - 1);
      } else if (whole_[i] == '\n' && whole_.substr(i + 1).starts_with('\n')) {
        break;
      }
    }
    return {};
  }
  void SkipOptional() {
    for (size_t before = 0; rest_.size() != before;) {
      before = rest_.size();
      (void)Bracketed();
    }
  }
  // The text in braces, or the next character or command.
  std::string_view Argument() {
    SkipSpaces();
    if (rest_.starts_with('{')) return Braced();
    size_t size = std::min<size_t>(rest_.size(), 1);
    if (rest_.starts_with('\\')) {
      size = 1 + std::max<size_t>(1, NameSize(rest_.substr(1)));
    } else {
      while (size < rest_.size() && (static_cast<uint8_t>(rest_[size]) & 0xC0) == 0x80) ++size;
    }
    size = std::min(size, rest_.size());
    const std::string_view argument = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return argument;
  }
  static size_t NameSize(std::string_view text) {
    const auto is_letter = [](char c) { return IsAsciiLetter(c) || c == '@'; };
    return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_letter) -
                               text.begin());
  }

  void Command() {
    rest_.remove_prefix(1);
    const size_t size = NameSize(rest_);
    if (size == 0) return Sign();
    const std::string_view name = rest_.substr(0, size);
    rest_.remove_prefix(size);
    if (name.size() == 1) {
      const uint32_t mark = LatexAccent(name[0]);
      if (mark != 0 && (rest_.starts_with('{') || rest_.starts_with(' '))) return Accented(mark);
    }
    if (const std::string_view text = LatexCharacters(name); !text.empty()) {
      SkipSpaces();
      if (rest_.starts_with("{}")) rest_.remove_prefix(2);
      return Put(text, 0);
    }
    if (rest_.starts_with('*')) rest_.remove_prefix(1);
    had_command_ = true;
    if (const int level = LatexLevel(name)) return Section(level);
    if (name == "begin") return Begin(std::string(Argument()));
    if (name == "end") return End(std::string(Argument()));
    Named(name);
  }

  void Section(int level) {
    SkipSpaces();
    SkipOptional();
    const std::string title = Inner(Argument());
    if (is_one_line_) return Put(title, 0);
    if (!line_.empty()) EndLine();
    writer_.Heading(level, title);
  }

  // A command that is no letter: an accent, a space, or the letter itself.
  void Sign() {
    if (rest_.empty()) return;
    const char sign = rest_[0];
    rest_.remove_prefix(1);
    if (const uint32_t mark = LatexAccent(sign)) return Accented(mark);
    if (sign == '\\') {
      if (rest_.starts_with('*')) rest_.remove_prefix(1);
      SkipOptional();
      had_command_ = true;
      return EndLine();
    }
    if (sign == '(' || sign == '[') {
      const std::string_view close = sign == '(' ? "\\)" : "\\]";
      const size_t end = std::min(rest_.find(close), rest_.size());
      line_ += '$';
      Verbatim(end);
      line_ += '$';
      return rest_.remove_prefix(std::min(close.size(), rest_.size()));
    }
    if (sign == '-' || sign == '/' || sign == '!' || sign == ')' || sign == ']') return;
    const bool is_space = sign == ' ' || sign == ',' || sign == ';' || sign == ':' || sign == '>';
    line_ += is_space || sign == '\n' || sign == '\r' ? ' ' : sign;
  }

  void Accented(uint32_t mark) {
    const std::string letter = Inner(Argument());
    std::vector<uint32_t> characters = CodePoints(letter == "ı"   ? "i"
                                                  : letter == "ȷ" ? "j"
                                                                  : letter);
    characters.insert(characters.begin() + std::min<ptrdiff_t>(1, std::ssize(characters)), mark);
    if (!letter.empty()) line_ += PlainLetters(characters);
  }

  void Named(std::string_view name) {
    if (name == "par") return Gap();
    if (name == "newline" || name == "linebreak" || name == "tabularnewline") return EndLine();
    if (name == "item") {
      SkipSpaces();
      const std::string label = Inner(Bracketed());
      if (line_.find_last_not_of(" \t") != line_.npos) EndLine();
      if (!is_one_line_) line_.clear();
      line_ += "- " + label + (label.empty() ? "" : ": ");
    } else if (name == "footnote" || name == "thanks") {
      SkipOptional();
      Put(" (" + Inner(Argument()) + ")", 0);
    } else if (name == "caption") {
      SkipOptional();
      Gap();
    } else if (name == "verb" || name == "lstinline") {
      if (rest_.empty()) return;
      const size_t end = rest_.find(rest_[0] == '{' ? '}' : rest_[0], 1);
      if (end == rest_.npos) return;
      Put(rest_.substr(1, end - 1), end + 1);
    } else if (name == "url" || name == "path" || name == "nolinkurl") {
      Put(Argument(), 0);
    } else if (name == "href") {
      const std::string_view address = Argument();
      const std::string text = Inner(Argument());
      Put(text + (text.find(address) == text.npos ? " (" + std::string(address) + ")" : ""), 0);
    } else if (name == "bibitem") {
      SkipOptional();
      Gap();
      Put("[" + std::string(Argument()) + "] ", 0);
    } else if (name.find("cite") != name.npos || name.ends_with("ref")) {
      SkipOptional();
      Put("[" + std::string(Argument()) + "]", 0);
    } else if (const std::optional<int> num_arguments = LatexArgumentsLeftOut(name)) {
      SkipOptional();
      if (name == "cmidrule" && rest_.starts_with('('))
        rest_.remove_prefix(std::min(rest_.find(')'), rest_.size() - 1) + 1);
      for (int i = 0; i < *num_arguments; ++i) {
        (void)Argument();
        if (i + 1 < *num_arguments) SkipOptional();
      }
    } else if (name == "ExplSyntaxOn") {  // a part of a program, up to its end
      const size_t end = rest_.find("\\ExplSyntaxOff");
      if (end != rest_.npos) rest_.remove_prefix(end);
    } else if (name == "def" || name == "let" || name == "gdef" || name == "edef") {
      const size_t end = rest_.find_first_of("{\n");
      rest_.remove_prefix(std::min(end, rest_.size()));
      (void)Braced();
    } else {
      // A name of a font, a size or of the author's own: the text in its braces stays. One space
      // behind a name only ends it.
      SkipOptional();
      if (rest_.starts_with(' ')) rest_.remove_prefix(1);
    }
  }

  // Takes the text up to the end of an environment, with the command that ends it.
  std::string_view Environment(const std::string& name) {
    const std::string end = "\\end{" + name + "}";
    const size_t at = rest_.find(end);
    const std::string_view text = rest_.substr(0, at);
    rest_.remove_prefix(at == rest_.npos ? rest_.size() : at + end.size());
    return text;
  }

  void Begin(const std::string& name) {
    // Arguments of a table may be on both sides of what is in brackets.
    for (int i = LatexEnvironmentArguments(name); i-- > 0;) {
      SkipOptional();
      (void)Argument();
    }
    SkipOptional();
    if (IsLatexCode(name)) {
      std::string_view text = Environment(name);
      if (is_one_line_) return Put(text, 0);
      if (!line_.empty()) EndLine();
      text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
      writer_.Code(MarkupLines(text));
    } else if (name == "comment") {
      (void)Environment(name);
    } else if (IsLatexFormula(name)) {
      Gap();
      for (const char c : Environment(name)) line_ += c == '\n' || c == '\r' ? ' ' : c;
      Gap();
    } else {
      Gap();
      if (IsLatexTable(name)) ++table_depth_;
      if (name == "abstract" && !is_one_line_) writer_.Heading(2, "Abstract");
    }
  }
  void End(const std::string& name) {
    if (IsLatexTable(name) && table_depth_ > 0) --table_depth_;
    if (name == "document" && has_preamble_) is_ended_ = true;
    Gap();
  }

  const std::string_view whole_;
  std::string_view rest_;  // of it
  const std::vector<std::pair<size_t, size_t>> braces_;
  size_t next_bracket_ = 0;  // the first one that closes, behind the last one that opened
  const int depth_;
  MarkupWriter writer_;
  std::string line_;  // the one that is written
  int table_depth_ = 0;
  bool is_one_line_ = false, has_preamble_ = false, is_ended_ = false;
  bool had_command_ = false;  // in the line that is read
};

}  // namespace

api::Result<Extracted> ReadLatex(std::string_view bytes) {
  const std::string clean = CleanUtf8(bytes).text;
  Extracted extracted = LatexReader(clean, 0).ReadDocument();
  if (!extracted.text.empty()) return extracted;
  // Definitions alone, or another text of this name: it is taken as it is written.
  TextBuilder writer;
  writer.Verbatim(clean);
  return writer.Finish(0, "");
}

}  // namespace lectern::tools
