#include "tools/ingest/extract/mdoc.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

// Macros that put their line between two marks, or (with the two names) what stands between them.
struct Enclosure {
  std::string_view line, begin, end;  // the macro for a line, the two for more
  std::string_view left, right;
};
constexpr Enclosure kEnclosures[] = {
    {"Op", "Oo", "Oc", "[", "]"},    {"Aq", "Ao", "Ac", "<", ">"}, {"Bq", "Bo", "Bc", "[", "]"},
    {"Brq", "Bro", "Brc", "{", "}"}, {"Dq", "Do", "Dc", "“", "”"}, {"Pq", "Po", "Pc", "(", ")"},
    {"Qq", "Qo", "Qc", "\"", "\""},  {"Sq", "So", "Sc", "‘", "’"}, {"Ql", "", "", "‘", "’"},
    {"En", "Eo", "Ec", "", ""}};
// Macros that only choose a font, or name a kind of word.
constexpr std::string_view kWords[] = {"Ad", "An", "Ar", "Cd", "Cm", "Dv", "Em", "Er", "Ev",
                                       "Fa", "Fr", "Ft", "Ic", "Li", "Lb", "Ms", "Mt", "No",
                                       "Pa", "Sx", "Sy", "Tn", "Va", "Vt", "Lk", "Hf"};
// Names of systems that stand for themselves.
constexpr std::pair<std::string_view, std::string_view> kSystems[] = {
    {"Ux", "UNIX"},    {"Bx", "BSD"},       {"Fx", "FreeBSD"},
    {"Nx", "NetBSD"},  {"Ox", "OpenBSD"},   {"Dx", "DragonFly"},
    {"Bsx", "BSD/OS"}, {"At", "AT&T UNIX"}, {"St", "standard"}};

// Standards as groff_mdoc(7) prints them.
constexpr std::pair<std::string_view, std::string_view> kStandards[] = {
    {"-ansiC", "ANSI X3.159-1989 (“ANSI C89”)"},
    {"-isoC", "ISO/IEC 9899:1990 (“ISO C90”)"},
    {"-isoC-90", "ISO/IEC 9899:1990 (“ISO C90”)"},
    {"-isoC-99", "ISO/IEC 9899:1999 (“ISO C99”)"},
    {"-isoC-2011", "ISO/IEC 9899:2011 (“ISO C11”)"},
    {"-p1003.1", "IEEE Std 1003.1 (“POSIX.1”)"},
    {"-p1003.1-88", "IEEE Std 1003.1-1988 (“POSIX.1”)"},
    {"-p1003.1-90", "ISO/IEC 9945-1:1990 (“POSIX.1”)"},
    {"-p1003.1b-93", "IEEE Std 1003.1b-1993 (“POSIX.1”)"},
    {"-p1003.1-96", "ISO/IEC 9945-1:1996 (“POSIX.1”)"},
    {"-p1003.1-2001", "IEEE Std 1003.1-2001 (“POSIX.1”)"},
    {"-p1003.1-2004", "IEEE Std 1003.1-2004 (“POSIX.1”)"},
    {"-p1003.1-2008", "IEEE Std 1003.1-2008 (“POSIX.1”)"},
    {"-p1003.2", "IEEE Std 1003.2 (“POSIX.2”)"},
    {"-xpg4", "X/Open Portability Guide Issue 4 (“XPG4”)"},
    {"-susv2", "Version 2 of the Single UNIX Specification (“SUSv2”)"},
    {"-susv3", "Version 3 of the Single UNIX Specification (“SUSv3”)"}};

// The text of a line of .St, .Lb, .Bx or .At, and of its words up to `end`: a standard, a library,
// a system with its version.
std::string NamedByArgument(const std::vector<std::string>& words, size_t& end) {
  const std::string& macro = words[0];
  const std::string name = words.size() > 1 ? words[1] : "";
  end = std::min<size_t>(words.size(), 2);
  if (macro == "St") {
    for (const auto& [known, text] : kStandards) {
      if (known == name) return std::string(text);
    }
    return "standard " + name;
  }
  if (macro == "Lb") {
    constexpr std::pair<std::string_view, std::string_view> kLibraries[] = {
        {"libc", "Standard C Library (libc, -lc)"}, {"libm", "Math Library (libm, -lm)"}};
    for (const auto& [known, text] : kLibraries) {
      if (known == name) return std::string(text);
    }
    return "library “" + name + "”";
  }
  if (macro == "Bx") {
    const bool is_release = words.size() > 2 && !words[2].empty() && IsAsciiUpper(words[2].front());
    end += is_release;
    return name + "BSD" + (is_release ? "-" + words[2] : "");
  }
  if (name == "32v") return "Version 32V AT&T UNIX";
  if (name.starts_with('v')) return "Version " + name.substr(1) + " AT&T UNIX";
  if (name.starts_with("V.")) return "AT&T System V Release " + name.substr(2) + " UNIX";
  return "AT&T System " + name + " UNIX";
}

const Enclosure* Find(std::string_view name, std::string_view Enclosure::*which) {
  const auto* const found =
      std::find_if(std::begin(kEnclosures), std::end(kEnclosures),
                   [&](const Enclosure& e) { return !name.empty() && e.*which == name; });
  return found == std::end(kEnclosures) ? nullptr : found;
}

bool IsWord(std::string_view name) {
  return std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
}

bool IsClosing(std::string_view text) {
  return text.size() == 1 && std::string_view(".,:;)]?!").find(text[0]) != std::string_view::npos;
}

class MdocReader {
 public:
  explicit MdocReader(const RoffStrings& strings) : strings_(strings) {}

  Extracted Read(const std::vector<std::string>& lines) {
    for (const std::string& line : lines) {
      if (!line.empty() && (line[0] == '.' || line[0] == '\'')) {
        Macro(std::string_view(line).substr(1));
      } else if (is_verbatim_) {
        block_ += RoffText(line, strings_) + "\n";
      } else if (line.find_first_not_of(' ') == std::string::npos) {
        EndBlock();
      } else {
        AddWord(RoffText(line, strings_));
      }
    }
    EndBlock();
    return writer_.Finish(0, "");
  }

 private:
  struct List {
    bool is_enum = false, has_tags = false, is_columns = false;
    int number = 0;
  };

  // Adds a word to the block, behind a space unless it or the one before says otherwise.
  void AddWord(const std::string& text) {
    if (text.empty()) return;
    std::string& to = is_tag_ ? tag_ : block_;
    const bool is_joined = to.empty() || to.back() == '\n' || no_space_ || IsClosing(text);
    if (!is_joined) to += ' ';
    to += text;
    no_space_ = text == "(" || text == "[";
  }

  void EndBlock() {
    is_tag_ = false;
    no_space_ = false;
    const int depth = std::max(0, static_cast<int>(lists_.size()) - 1);
    if (is_verbatim_) {
      writer_.Code(block_);
    } else if (!lists_.empty() && lists_.back().is_columns) {
      writer_.Line(block_);
    } else if (!tag_.empty()) {
      writer_.Item(depth, "- ",
                   tag_ + (block_.empty() || tag_.ends_with(':') ? " " : ": ") + block_);
    } else if (!marker_.empty()) {
      writer_.Item(depth, marker_, block_);
    } else {
      writer_.Paragraph(block_);
    }
    block_.clear();
    tag_.clear();
    marker_.clear();
  }

  void Macro(std::string_view line) {
    std::vector<std::string> words = RoffArguments(line);
    if (words.empty()) return;
    const std::string name = words[0];
    if (Structure(name, words)) return;
    const bool has_argument = words.size() > 1 && words[1].size() > 1;
    if ((name == "St" || name == "Lb" || name == "Bx" || name == "At") && has_argument) {
      size_t end = 0;
      AddWord(NamedByArgument(words, end));
      Inline(words, end);
    } else if (name == "Fn" || name == "Fo") {
      Function(name, words);
    } else if (name == "Fc") {
      no_space_ = true;
      AddWord(")");
    } else if (name == "Nd") {
      AddWord("-");
      Inline(words, 1);
    } else if (name == "In") {
      if (words.size() > 1) AddWord("#include <" + RoffText(words[1], strings_) + ">");
      if (!is_tag_) block_ += '\n';
    } else if (name == "D1" || name == "Dl") {
      EndBlock();
      Inline(words, 1);
      EndBlock();
    } else if (name == "Rv" || name == "Ex") {
      Standard(name, words);
    } else if (name.starts_with('%')) {  // of a reference
      Inline(words, 1);
      AddWord(",");
    } else {
      Inline(words, 0);
    }
  }

  bool Structure(const std::string& name, const std::vector<std::string>& words) {
    const auto argument = [&](size_t i) {
      return i < words.size() ? RoffText(words[i], strings_) : std::string();
    };
    if (name == "Dt") {
      writer_.Heading(1, argument(1) + (words.size() > 2 ? "(" + argument(2) + ")" : ""));
    } else if (name == "Xc") {  // the end of a tag of several lines, which "It … Xo" begins
      is_tag_ = false;
      Inline(words, 1);
    } else if (name == "Dd" || name == "Os" || name == "Xo" || name == "Sm" || name == "Bk" ||
               name == "Ek" || name == "Rs" || name == "Bf" || name == "Ef") {
      return true;
    } else if (name == "Sh" || name == "Ss") {
      EndBlock();
      lists_.clear();
      Inline(words, 1);
      const std::string title = std::exchange(block_, "");
      writer_.Heading(name == "Sh" ? 2 : 3, title);
    } else if (name == "Pp" || name == "Lp" || name == "Re" || name == "sp") {
      // Inside of an item, a paragraph is a line of it.
      if (lists_.empty() || is_verbatim_) {
        if (!is_verbatim_) EndBlock();
      } else if (!block_.empty()) {
        block_ += '\n';
      }
    } else if (name == "Bd" || name == "Ed") {
      EndBlock();
      const bool is_literal = std::any_of(words.begin(), words.end(), [](const std::string& word) {
        return word == "-literal" || word == "-unfilled";
      });
      is_verbatim_ = name == "Bd" && is_literal;
    } else if (name == "Bl" || name == "El" || name == "It") {
      ListMacro(name, words);
    } else if (name == "br") {
      block_ += '\n';
    } else {
      return false;
    }
    return true;
  }

  void ListMacro(const std::string& name, const std::vector<std::string>& words) {
    EndBlock();
    const auto has = [&](std::string_view word) {
      return std::find(words.begin(), words.end(), word) != words.end();
    };
    if (name == "Bl") {
      writer_.Gap();
      lists_.push_back({.is_enum = has("-enum"),
                        .has_tags = has("-tag") || has("-hang") || has("-ohang") || has("-inset") ||
                                    has("-diag"),
                        .is_columns = has("-column")});
    } else if (name == "El") {
      if (!lists_.empty()) lists_.pop_back();
      writer_.Gap();
    } else if (!lists_.empty()) {
      List& list = lists_.back();
      if (list.is_enum) {
        marker_ = std::to_string(++list.number) + ". ";
      } else if (!list.has_tags && !list.is_columns) {
        marker_ = "- ";
      }
      is_tag_ = list.has_tags;
      Inline(words, 1);
      is_tag_ = list.has_tags && has("Xo");
      no_space_ = false;
    }
  }

  void Function(const std::string& name, const std::vector<std::string>& words) {
    std::string call = (words.size() > 1 ? RoffText(words[1], strings_) : "") + "(";
    std::string behind;
    for (size_t i = 2; i < words.size() && name == "Fn"; ++i) {
      const std::string word = RoffText(words[i], strings_);
      if (IsClosing(word)) {
        behind += word;
      } else {
        call += (call.ends_with('(') ? "" : ", ") + word;
      }
    }
    AddWord(call + (name == "Fn" ? ")" + behind : ""));
    no_space_ = name == "Fo";
  }

  // The sentences that .Rv and .Ex stand for.
  void Standard(const std::string& name, const std::vector<std::string>& words) {
    const std::string subject = words.size() > 2 ? RoffText(words[2], strings_) : name_;
    AddWord(name == "Rv"
                ? "The " + subject +
                      "() function returns the value 0 if successful; otherwise the value "
                      "-1 is returned and the global variable errno is set to indicate "
                      "the error."
                : "The " + subject + " utility exits 0 on success, and >0 if an error occurs.");
  }

  // Adds the words from `i` on, some of which are macros themselves.
  void Inline(const std::vector<std::string>& words, size_t i) {
    std::vector<std::string_view> closing;  // of enclosures up to the line's end
    bool is_flag = false;
    for (; i < words.size(); ++i) {
      const std::string& word = words[i];
      if (const Enclosure* const of_line = Find(word, &Enclosure::line)) {
        is_flag = false;
        AddWord(std::string(of_line->left));
        no_space_ = true;
        closing.push_back(of_line->right);
      } else if (const Enclosure* const begin = Find(word, &Enclosure::begin)) {
        is_flag = false;
        AddWord(std::string(begin->left));
        no_space_ = true;
      } else if (const Enclosure* const end = Find(word, &Enclosure::end)) {
        is_flag = false;
        no_space_ = true;
        AddWord(std::string(end->right));
      } else if (word == "Fl") {
        is_flag = true;
        if (i + 1 == words.size() || IsClosing(words[i + 1])) AddWord("-");
        if (i + 1 < words.size() && (IsWord(words[i + 1]) || words[i + 1] == "Ns")) {
          AddWord("-");
          no_space_ = true;
        }
      } else if (word == "Xo") {
        is_flag = false;
      } else if (word == "Ns") {
        is_flag = false;
        no_space_ = true;
      } else if (word == "Nm" && !(i + 1 < words.size() && SetsName(words[i + 1]))) {
        is_flag = false;
        AddWord(name_);
      } else if (word == "Xr" && i + 1 < words.size()) {
        is_flag = false;
        const bool has_section = i + 2 < words.size() && !IsClosing(words[i + 2]);
        AddWord(RoffText(words[i + 1], strings_) +
                (has_section ? "(" + RoffText(words[i + 2], strings_) + ")" : ""));
        i += has_section ? 2 : 1;
      } else if (word == "Fn") {
        Function(word,
                 std::vector<std::string>(words.begin() + static_cast<ptrdiff_t>(i), words.end()));
        break;
      } else if (word == "Ta") {
        AddWord("|");
      } else if (word == "Ap") {
        no_space_ = true;
        AddWord("'");
        no_space_ = true;
      } else if (!Word(word, words, i, is_flag)) {
        continue;
      }
    }
    Close(closing, !words.empty() && IsClosing(words.back()));
  }

  // Adds the right marks of a line's enclosures; a stop at the line's end stands behind them.
  void Close(const std::vector<std::string_view>& closing, bool ends_with_stop) {
    for (auto right = closing.rbegin(); right != closing.rend(); ++right) {
      std::string& to = is_tag_ ? tag_ : block_;
      const bool has_stop = ends_with_stop && !to.empty() && IsClosing(to.substr(to.size() - 1));
      const std::string stop = has_stop ? to.substr(to.size() - 1) : "";
      if (has_stop) to.pop_back();
      to += std::string(*right) + stop;
      no_space_ = false;
    }
  }

  // Whether the word behind "Nm" is a name: the page's own name may stay out later.
  bool SetsName(const std::string& word) {
    if (IsClosing(word) || IsWord(word) || Find(word, &Enclosure::line) || word == "Fl" ||
        word == "Ns")
      return false;
    if (name_.empty()) name_ = RoffText(word, strings_);
    return true;
  }

  // A word that is no special macro; false: nothing was added.
  bool Word(const std::string& word, const std::vector<std::string>& words, size_t i,
            bool& is_flag) {
    if (word == "Nm") return is_flag = false;
    if (IsWord(word)) {
      is_flag = false;
      if (word == "Ar" && (i + 1 == words.size() || IsClosing(words[i + 1]))) AddWord("file ...");
      return false;
    }
    for (const auto& [system, text] : kSystems) {
      if (word == system) {
        AddWord(std::string(text));
        return true;
      }
    }
    const std::string text = RoffText(word, strings_);
    AddWord(is_flag && !IsClosing(text) && text != "|" ? "-" + text : text);
    return true;
  }

  const RoffStrings& strings_;
  TextBuilder writer_;
  std::string block_, tag_, marker_;
  std::string name_;  // of the page's program
  std::vector<List> lists_;
  bool is_verbatim_ = false, no_space_ = false, is_tag_ = false;
};

}  // namespace

Extracted ReadMdoc(const std::vector<std::string>& lines, const RoffStrings& strings) {
  return MdocReader(strings).Read(lines);
}

}  // namespace lectern::tools
