#include "tools/ingest/extract/roff_text.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

constexpr std::pair<std::string_view, std::string_view> kCharacters[] = {
    {"em", "—"}, {"en", "–"}, {"hy", "-"},  {"bu", "•"},   {"lq", "“"}, {"rq", "”"},  {"oq", "‘"},
    {"cq", "’"}, {"aq", "'"}, {"dq", "\""}, {"co", "©"},   {"rg", "®"}, {"tm", "™"},  {"de", "°"},
    {"mu", "×"}, {"ua", "↑"}, {"da", "↓"},  {"<-", "←"},   {"->", "→"}, {"<=", "≤"},  {">=", "≥"},
    {"!=", "≠"}, {"+-", "±"}, {"ti", "~"},  {"ha", "^"},   {"ga", "`"}, {"rs", "\\"}, {"sl", "/"},
    {"ba", "|"}, {"or", "|"}, {"at", "@"},  {"sh", "#"},   {"Do", "$"}, {"lB", "["},  {"rB", "]"},
    {"lC", "{"}, {"rC", "}"}, {"la", "⟨"},  {"ra", "⟩"},   {"Fo", "«"}, {"Fc", "»"},  {"ss", "ß"},
    {":a", "ä"}, {":o", "ö"}, {":u", "ü"},  {":A", "Ä"},   {":O", "Ö"}, {":U", "Ü"},  {"'e", "é"},
    {"'a", "á"}, {"'i", "í"}, {"'o", "ó"},  {"'u", "ú"},   {"`a", "à"}, {"`e", "è"},  {"^e", "ê"},
    {"^a", "â"}, {"^o", "ô"}, {"^i", "î"},  {",c", "ç"},   {"~n", "ñ"}, {"oa", "å"},  {"oA", "Å"},
    {"ae", "æ"}, {"AE", "Æ"}, {"/o", "ø"},  {"/O", "Ø"},   {"mc", "µ"}, {"*m", "μ"},  {"*a", "α"},
    {"*b", "β"}, {"*p", "π"}, {"Po", "£"},  {"Eu", "€"},   {"eu", "€"}, {"Ye", "¥"},  {"sc", "§"},
    {"12", "½"}, {"14", "¼"}, {"34", "¾"},  {"..", "..."}, {"mi", "-"}, {"pl", "+"},  {"eq", "="},
    {"sq", "□"}, {"ci", "○"}, {"dg", "†"},  {"dd", "‡"},   {"ps", "¶"}, {"no", "¬"},  {"if", "∞"}};
// Strings that the macro packages define.
constexpr std::pair<std::string_view, std::string_view> kStrings[] = {
    {"lq", "“"}, {"rq", "”"}, {"Lq", "“"}, {"Rq", "”"}, {"R", "®"},  {"Tm", "™"},
    {"Ba", "|"}, {"Ge", "≥"}, {"Le", "≤"}, {"Ne", "≠"}, {"Am", "&"}, {"Px", "POSIX"}};

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

// The name behind an escape's letter: one character, "(xx" or "[…]"; moves `at` behind it.
std::string_view TakeName(std::string_view line, size_t& at) {
  if (at >= line.size()) return "";
  size_t begin = at, length = 1;
  if (line[at] == '(') {
    begin = at + 1;
    length = 2;
    at += 3;
  } else if (line[at] == '[') {
    begin = at + 1;
    length = std::min(line.find(']', begin), line.size()) - begin;
    at = begin + length + 1;
  } else {
    ++at;
  }
  at = std::min(at, line.size());
  return begin > line.size() ? "" : line.substr(begin, length);
}

void AppendCharacter(std::string_view name, std::string& out) {
  for (const auto& [known, text] : kCharacters) {
    if (known == name) {
      out += text;
      return;
    }
  }
  uint32_t code = 0;
  const bool is_hex = name.starts_with("u") && name.size() >= 5;
  const bool is_decimal = name.starts_with("char");
  if (!is_hex && !is_decimal) return;
  const std::string_view digits = name.substr(is_hex ? 1 : 4);
  std::from_chars(digits.data(), digits.data() + digits.size(), code, is_hex ? 16 : 10);
  if (code > 0 && code <= 0x10FFFF) AppendUtf8(code, out);
}

// Skips the part in delimiters behind \h, \v and the like.
void SkipDelimited(std::string_view line, size_t& at) {
  if (at >= line.size()) return;
  const size_t end = line.find(line[at], at + 1);
  at = std::min(end, line.size() - 1) + 1;
}

class Expander {
 public:
  explicit Expander(const RoffStrings& strings) : strings_(strings) {}

  void Expand(std::string_view line, int depth, std::string& out) {
    for (size_t at = 0; at < line.size();) {
      if (line[at] != '\\') {
        out += line[at++];
        continue;
      }
      if (++at == line.size()) break;
      const char c = line[at++];
      if (c == '"' || c == '#') return;  // a comment
      Escape(c, line, at, depth, out);
    }
  }

 private:
  void Escape(char c, std::string_view line, size_t& at, int depth, std::string& out) {
    // Characters, as pairs of the letter and its text.
    constexpr std::string_view kPrinted = "--e\\E\\\\\\  ~ 0 t ''``..";
    // Letters with a name behind them, and letters with a part in delimiters.
    constexpr std::string_view kNamed = "fFgkmMnVY", kDelimited = "AbBDhHlLNoSvwxXZ";
    for (size_t i = 0; i + 1 < kPrinted.size(); i += 2) {
      if (kPrinted[i] == c) out += kPrinted[i + 1];
    }
    if (c == '(' || c == '[') {
      AppendCharacter(TakeName(line, --at), out);
    } else if (c == 'C') {
      Delimited(line, at, out);
    } else if (c == '*') {
      String(TakeName(line, at), depth, out);
    } else if (c == 's') {
      Size(line, at);
    } else if (kNamed.find(c) != std::string_view::npos) {
      if (c == 'n' && at < line.size() && (line[at] == '+' || line[at] == '-')) ++at;
      TakeName(line, at);
    } else if (kDelimited.find(c) != std::string_view::npos) {
      SkipDelimited(line, at);
    }  // \& \| \^ \: \/ \, \c \% \{ \} \d \u \p \z print nothing
  }
  void Delimited(std::string_view line, size_t& at, std::string& out) {
    const size_t begin = at + 1;
    SkipDelimited(line, at);
    if (begin < at) AppendCharacter(line.substr(begin, at - begin - 1), out);
  }
  void String(std::string_view name, int depth, std::string& out) {
    constexpr int kMostDepth = 10;
    constexpr size_t kMostBytes = 1 << 20;
    const auto found = strings_.find(name);
    if (found != strings_.end()) {
      if (depth < kMostDepth && out.size() < kMostBytes) Expand(found->second, depth + 1, out);
      return;
    }
    for (const auto& [known, text] : kStrings) {
      if (known == name) out += text;
    }
  }
  static void Size(std::string_view line, size_t& at) {
    if (at < line.size() && (line[at] == '+' || line[at] == '-')) ++at;
    if (at < line.size() && (line[at] == '(' || line[at] == '[')) {
      TakeName(line, at);
    } else if (at < line.size() && line[at] == '\'') {
      SkipDelimited(line, at);
    } else {
      while (at < line.size() && line[at] >= '0' && line[at] <= '9') ++at;
    }
  }

  const RoffStrings& strings_;
};

// The word at the start of a request's arguments; cuts it off.
std::string_view TakeWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(" \t"));
  text.remove_prefix(word.size());
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return word;
}

// Handles definitions and conditions while the lines of a page go by.
class LineFilter {
 public:
  explicit LineFilter(RoffStrings& strings) : strings_(strings) {}

  void Take(std::string_view line) {
    if (!definition_end_.empty()) {
      if (line.starts_with(definition_end_)) definition_end_.clear();
      return;
    }
    if (num_skipped_ > 0) {
      num_skipped_ += Braces(line);
      if (num_skipped_ < 0) num_skipped_ = 0;
      return;
    }
    if (line.empty() || (line[0] != '.' && line[0] != '\'')) {
      lines_.emplace_back(line);
      return;
    }
    std::string_view rest = line.substr(1);
    const std::string_view name = TakeWord(rest);
    if (name.starts_with("\\\"") || name.starts_with("\\}")) return;
    if (name == "de" || name == "de1" || name == "am" || name == "ig") {
      TakeWord(rest);
      definition_end_ = "." + (rest.empty() || name == "ig" ? "." : std::string(TakeWord(rest)));
    } else if (name == "ds" || name == "as") {
      const std::string key(TakeWord(rest));
      if (rest.starts_with('"')) rest.remove_prefix(1);
      if (name == "ds") strings_[key].clear();
      if (strings_[key].size() < kMostStringBytes) strings_[key] += rest;
    } else if (name == "if" || name == "ie" || name == "el") {
      Condition(name, rest);
    } else {
      lines_.emplace_back(line);
    }
  }
  std::vector<std::string> Finish() { return std::move(lines_); }

 private:
  static constexpr size_t kMostStringBytes = 4096;

  static int Braces(std::string_view line) {
    int depth = 0;
    for (size_t at = line.find('\\'); at != std::string_view::npos && at + 1 < line.size();
         at = line.find('\\', at + 2)) {
      depth += line[at + 1] == '{' ? 1 : line[at + 1] == '}' ? -1 : 0;
    }
    return depth;
  }

  // A page is read as for a terminal: "n" holds, and nothing else is known.
  void Condition(std::string_view name, std::string_view rest) {
    bool holds = name == "el" && !last_held_;
    if (name != "el") {
      const std::string_view condition = TakeWord(rest);
      holds = condition == "n" || condition == "!t";
      if (name == "ie") last_held_ = holds;
    }
    if (!holds) {
      num_skipped_ = std::max(0, Braces(rest));
      return;
    }
    if (rest.starts_with("\\{")) rest.remove_prefix(2);
    if (rest.starts_with('\\') && rest.size() == 1) return;
    constexpr int kMostNested = 20;
    if (rest.empty() || nesting_ >= kMostNested) return;
    ++nesting_;
    Take(rest);
    --nesting_;
  }

  RoffStrings& strings_;
  std::vector<std::string> lines_;
  std::string definition_end_;  // of the macro that is skipped
  int num_skipped_ = 0;         // open braces of a condition that does not hold
  int nesting_ = 0;
  bool last_held_ = false;
};

}  // namespace

std::string RoffText(std::string_view line, const RoffStrings& strings) {
  std::string out;
  Expander(strings).Expand(line, 0, out);
  return out;
}

std::vector<std::string> RoffArguments(std::string_view line) {
  std::vector<std::string> arguments;
  for (size_t at = 0;;) {
    while (at < line.size() && IsBlank(line[at])) ++at;
    if (at >= line.size() || line.substr(at).starts_with("\\\"")) return arguments;
    std::string argument;
    const bool is_quoted = line[at] == '"';
    if (is_quoted) ++at;
    while (at < line.size()) {
      if (line[at] == '\\' && at + 1 < line.size()) {
        argument += line.substr(at, 2);
        at += 2;
      } else if (is_quoted && line[at] == '"') {
        if (at + 1 >= line.size() || line[at + 1] != '"') break;
        argument += '"';
        at += 2;
      } else if (!is_quoted && IsBlank(line[at])) {
        break;
      } else {
        argument += line[at++];
      }
    }
    if (is_quoted) ++at;
    arguments.push_back(std::move(argument));
  }
}

std::vector<std::string> RoffLines(std::string_view page, RoffStrings& strings) {
  LineFilter filter(strings);
  std::string joined;  // lines that "\" at their end joins
  while (!page.empty()) {
    std::string_view line = page.substr(0, page.find('\n'));
    page.remove_prefix(std::min(page.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t last = line.find_last_not_of('\\');
    const size_t num_slashes = line.size() - (last == std::string_view::npos ? 0 : last + 1);
    if (num_slashes % 2 == 1 && !page.empty()) {
      joined += line.substr(0, line.size() - 1);
      continue;
    }
    joined += line;
    filter.Take(joined);
    joined.clear();
  }
  return filter.Finish();
}

}  // namespace lectern::tools
