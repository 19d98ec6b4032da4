#include "engine/document/line_forms.h"

#include <algorithm>
#include <array>
#include <string>

#include "engine/document/sentence_breaks.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

using View = std::string_view;

bool IsAsciiDigit(char c) { return c >= '0' && c <= '9'; }
bool IsAsciiLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool IsBlank(char c) { return c == ' ' || c == '\t'; }

size_t SpacesAt(View line, size_t at) {
  size_t end = at;
  while (end < line.size() && IsBlank(line[end])) ++end;
  return end - at;
}

bool StartsWithAny(View line, std::initializer_list<View> heads) {
  return std::any_of(heads.begin(), heads.end(), [&](View head) { return line.starts_with(head); });
}
bool ContainsAny(View line, std::initializer_list<View> parts) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](View part) { return line.find(part) != View::npos; });
}

// The value of a Roman number in small letters; 0: there is another letter. The order of the
// letters is not checked: "ill" is 99.
uint32_t RomanValue(View digits) {
  uint32_t value = 0, previous = 0;
  for (size_t i = digits.size(); i > 0; --i) {
    const size_t place = View("ivxlc").find(digits[i - 1]);
    if (place == View::npos) return 0;
    static constexpr uint32_t kValues[] = {1, 5, 10, 50, 100};
    value = kValues[place] < previous ? value - kValues[place] : value + kValues[place];
    previous = kValues[place];
  }
  return value;
}

// Reads "12", "a" or "iv" at `at`; returns how many bytes.
size_t ReadOrdinal(View line, size_t at, ItemNumber* number) {
  size_t end = at;
  while (end < line.size() && IsAsciiDigit(line[end])) ++end;
  if (end > at) {
    if (end - at > 3) return 0;
    number->kind = '1', number->value = 0;
    for (size_t i = at; i < end; ++i)
      number->value = number->value * 10 + static_cast<uint32_t>(line[i] - '0');
    return end - at;
  }
  while (end < line.size() && end - at < 6 && line[end] >= 'a' && line[end] <= 'z') ++end;
  const View letters = line.substr(at, end - at);
  if (letters.size() == 1 && letters != "i" && letters != "v" && letters != "x") {
    number->kind = 'a', number->value = static_cast<uint32_t>(letters[0] - 'a' + 1);
    return 1;
  }
  number->kind = 'i', number->value = letters.empty() ? 0 : RomanValue(letters);
  if (number->value > 0) return letters.size();
  // "A)" and "(A)"; "A." is an initial.
  if (at < line.size() && line[at] >= 'A' && line[at] <= 'Z' && at + 1 < line.size() &&
      line[at + 1] == ')') {
    number->kind = 'a', number->value = static_cast<uint32_t>(line[at] - 'A' + 1);
    return 1;
  }
  return 0;
}

// Whether two cells begin (or end) in the same columns, or one behind a wide gap.
bool HaveEqualEdges(const Cells& a, const Cells& b, uint16_t Cells::Cell::*edge) {
  size_t num_equal = 0, num_wide = 0;
  for (size_t i = 0, j = 0; i < a.num_cells && j < b.num_cells;) {
    const Cells::Cell &left = a.cells[i], &right = b.cells[j];
    if (left.*edge == right.*edge) {
      ++num_equal;
      num_wide += left.is_wide && right.is_wide;
    }
    const bool is_left_first = left.*edge <= right.*edge,
               is_right_first = right.*edge <= left.*edge;
    i += is_left_first;
    j += is_right_first;
  }
  return num_equal >= 2 || num_wide >= 1;
}

}  // namespace

bool HasWords(View line) {
  for (size_t at = 0; at < line.size();) {
    if (IsAsciiDigit(line[at]) || IsAsciiLetter(line[at])) return true;
    if (static_cast<unsigned char>(line[at]) < 0x80) {
      ++at;
      continue;
    }
    if (BeginsWithWordChar(line.substr(at))) return true;
    size_t length = 1;
    (void)DecodeChar(line, at, &length);
    at += length;
  }
  return false;
}

bool IsRule(View line) {
  if (line == "--") return true;  // above a mail's signature
  if (line.size() < 3 || HasWords(line)) return false;
  for (size_t at = 0; at < line.size();) {
    size_t length = 1;
    const uint32_t c = DecodeChar(line, at, &length);
    const bool is_line = c == 0x2014 || c == 0x2015 || c == 0x2212 || (c >= 0x2500 && c <= 0x257F);
    if (!is_line &&
        (c >= 0x80 || View("-=_*~+#.|:^`<> \t").find(static_cast<char>(c)) == View::npos))
      return false;
    at += length;
  }
  return true;
}

size_t FenceLength(View line) {
  if (line[0] != '`' && line[0] != '~') return 0;
  const size_t length = std::min(line.find_first_not_of(line[0]), line.size());
  if (length < 3) return 0;
  return line[0] == '`' && line.find('`', length) != View::npos ? 0 : length;  // ```code```
}

size_t BulletLength(View line) {
  static constexpr View kBullets[] = {"-", "*", "+", "•", "‣", "◦",  "▪", "●", "○", "■", "–",
                                      "—", "·", "∙", "✓", "o", "・", "◆", "◎", "★", "☆", "※"};
  for (const View bullet : kBullets) {
    if (!line.starts_with(bullet)) continue;
    const size_t spaces = SpacesAt(line, bullet.size());
    const size_t end = bullet.size() + spaces;
    if (end == line.size()) return 0;
    size_t length = 1;  // Chinese and Japanese have no space behind it
    if (spaces == 0 && (bullet.size() < 3 || bullet == "—" || bullet == "–" ||
                        !IsWithoutSpaces(DecodeChar(line, end, &length))))
      return 0;
    const View rest = line.substr(end);
    if (bullet == "o" && spaces < 2) return 0;  // as RFCs have it
    const bool is_task = StartsWithAny(rest, {"[ ] ", "[x] ", "[X] "});
    return is_task && rest.size() > 4 ? end + 4 : end;
  }
  return 0;
}

ItemNumber ReadItemNumber(View line) {
  ItemNumber number;
  if (line.starts_with("§")) {
    const size_t at = 2 + SpacesAt(line, 2);
    const size_t length = ReadOrdinal(line, at, &number);
    if (length == 0 || number.kind != '1') return {};
    size_t end = at + length;
    if (end < line.size() && (line[end] == '.' || line[end] == ':')) ++end;
    const size_t spaces = SpacesAt(line, end);
    number.kind = '\xA7';
    number.length = spaces > 0 && end + spaces < line.size() ? end + spaces : 0;
    return number.length > 0 ? number : ItemNumber();
  }
  const bool has_bracket = line[0] == '(';
  const size_t length = ReadOrdinal(line, has_bracket, &number);
  const size_t stop = has_bracket + length;
  if (length == 0 || stop >= line.size()) return {};
  if (has_bracket ? line[stop] != ')' : line[stop] != '.' && line[stop] != ')') return {};
  const size_t spaces = SpacesAt(line, stop + 1);
  if (spaces == 0 || stop + 1 + spaces >= line.size()) return {};
  number.length = stop + 1 + spaces;
  return number;
}

MarkedHeading ReadMarkedHeading(View line) {
  size_t level = 0;
  while (level < line.size() && line[level] == '#') ++level;
  if (level == 0 || level > 6 || level == line.size() || !IsBlank(line[level])) return {};
  MarkedHeading heading{.level = static_cast<uint8_t>(level),
                        .begin = level + SpacesAt(line, level),
                        .end = line.size()};
  // "# Title #"
  size_t end = heading.end;
  while (end > heading.begin && line[end - 1] == '#') --end;
  if (end > heading.begin && IsBlank(line[end - 1])) heading.end = end;
  while (heading.end > heading.begin && IsBlank(line[heading.end - 1])) --heading.end;
  return heading.end > heading.begin ? heading : MarkedHeading();
}

uint8_t UnderlineLevel(View line) {
  if (line.size() < 3 || line.find_first_not_of(line[0]) != View::npos) return 0;
  switch (line[0]) {
    case '=':
      return 1;
    case '-':
      return 2;
    case '~':
    case '^':
      return 3;
    default:
      return 0;
  }
}

uint8_t NamedHeadingLevel(View line) {
  struct Name {
    View word;
    uint8_t level;
  };
  static constexpr Name kNames[] = {
      {"chapter", 1},  {"part", 1},     {"book", 1},      {"appendix", 1}, {"annex", 1},
      {"section", 2},  {"article", 2},  {"clause", 2},    {"schedule", 1}, {"kapitel", 1},
      {"teil", 1},     {"anhang", 1},   {"abschnitt", 2}, {"artikel", 2},  {"chapitre", 1},
      {"partie", 1},   {"annexe", 1},   {"capítulo", 1},  {"parte", 1},    {"anexo", 1},
      {"sección", 2},  {"artículo", 2}, {"capitolo", 1},  {"sezione", 2},  {"articolo", 2},
      {"allegato", 1}, {"seção", 2},    {"artigo", 2},    {"§", 2}};
  if (line.size() > 90) return 0;
  if (line.starts_with("第")) {  // 第三章, 第2条
    for (const View unit : {"章", "编", "編", "篇", "部", "节", "節", "条", "條"}) {
      const size_t at = line.find(unit);
      if (at != View::npos && at <= 15) return unit == "章" || at == 0 ? 1 : 2;
    }
    return 0;
  }
  std::string small(line.substr(0, 12));
  for (char& c : small) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  for (const auto& [word, level] : kNames) {
    if (!small.starts_with(word)) continue;
    size_t at = word.size() + SpacesAt(line, word.size());
    if (at == word.size() && word != "§") continue;
    const size_t number = at;
    while (at < line.size() &&
           (IsAsciiDigit(line[at]) || (line[at] >= 'A' && line[at] <= 'Z') ||
            (line[at] == '.' && at + 1 < line.size() && IsAsciiDigit(line[at + 1])))) {
      ++at;
    }
    if (at == number || at - number > 7) return 0;
    if (at == line.size()) return level;
    if (std::string_view(".:)-").find(line[at]) != View::npos) return level;
    if (!IsBlank(line[at])) return 0;
    const TextStart start = StartOf(line.substr(at + SpacesAt(line, at)));
    return start == TextStart::kSmallLetter ? 0 : level;
  }
  return 0;
}

uint8_t NumberedHeadingLevel(View line) {
  size_t at = 0;
  uint8_t level = 0;
  while (true) {
    const size_t digits = at;
    while (at < line.size() && IsAsciiDigit(line[at])) ++at;
    if (at == digits || at - digits > 3) return 0;
    ++level;
    if (at + 1 >= line.size() || line[at] != '.' || !IsAsciiDigit(line[at + 1]) || level == 6)
      break;
    ++at;
  }
  if (at < line.size() && (line[at] == '.' || line[at] == ')' || line[at] == ':')) ++at;
  const size_t spaces = SpacesAt(line, at);
  if (spaces == 0 || at + spaces >= line.size()) return 0;
  const TextStart start = StartOf(line.substr(at + spaces));
  return start == TextStart::kCapital || start == TextStart::kOtherLetter ? level : 0;
}

size_t SectionNumberLength(View line) {
  const bool is_appendix = line.size() > 2 && line[0] >= 'A' && line[0] <= 'Z' && line[1] == '.' &&
                           IsAsciiDigit(line[2]);
  size_t at = is_appendix ? 2 : 0, num_parts = is_appendix;
  while (true) {
    const size_t digits = at;
    while (at < line.size() && IsAsciiDigit(line[at])) ++at;
    if (at == digits) break;
    if (at - digits > 3 || at == line.size() || line[at] != '.') return 0;
    ++num_parts;
    ++at;
  }
  const size_t spaces = SpacesAt(line, at);
  return num_parts >= 2 && spaces > 0 && at + spaces < line.size() ? at + spaces : 0;
}

bool IsAllCaps(View line) {
  size_t num_capitals = 0;
  for (size_t at = 0; at < line.size();) {
    const auto byte = static_cast<unsigned char>(line[at]);
    size_t length = 1;
    if (byte < 0x80) {
      if (line[at] >= 'a' && line[at] <= 'z') return false;
      num_capitals += line[at] >= 'A' && line[at] <= 'Z';
    } else {
      const uint32_t c = DecodeChar(line, at, &length);
      const TextStart kind = StartOf(line.substr(at, length));
      if (kind == TextStart::kSmallLetter || kind == TextStart::kOtherLetter) return false;
      num_capitals += LowerCase(c) != c;
    }
    at += length;
  }
  return num_capitals >= 3;
}

size_t CountWords(View line) {
  size_t num_words = 0;
  bool was_space = true;
  for (const char c : line) {
    num_words += was_space && !IsBlank(c);
    was_space = IsBlank(c);
  }
  return num_words;
}

bool IsKeyValue(View line) {
  constexpr size_t kLongestKey = 32;
  if (!BeginsWithWordChar(line)) return false;
  size_t colon = line.substr(0, kLongestKey + 3).find(':');
  size_t length = 1;
  if (colon == View::npos) {
    colon = line.substr(0, kLongestKey + 3).find("：");
    length = 3;
  }
  if (colon == View::npos || colon == 0) return false;
  const View key = line.substr(0, colon);
  if (CountWords(key) > 4 || key.find_first_of(".!?,;") != View::npos) return false;
  const View value = line.substr(colon + length);
  return value.empty() || length == 3 || IsBlank(value[0]) || value.starts_with("\xC2\xA0");
}

namespace {

// Reads a pattern at the beginning of a line, and returns how many bytes it matches; 0: none. In
// the pattern "0" is a digit, "a" an ASCII letter and "-" one of "-/."; others stand for
// themselves.
size_t MatchLength(View line, View pattern) {
  if (line.size() < pattern.size()) return 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char want = pattern[i], c = line[i];
    const bool fits = want == '0'   ? IsAsciiDigit(c)
                      : want == 'a' ? IsAsciiLetter(c)
                      : want == '-' ? c == '-' || c == '/' || c == '.'
                                    : c == want;
    if (!fits) return 0;
  }
  return pattern.size();
}

}  // namespace

bool BeginsWithTime(View line) {
  if (line.empty()) return false;
  const bool has_bracket = line[0] == '[' || line[0] == '<' || line[0] == '(';
  const View text = line.substr(has_bracket ? 1 + SpacesAt(line, 1) : 0);
  for (const View date : {"0000-00-00", "00-00-0000", "00-aaa-0000", "aaa  0", "aaa 00", "00-00-00",
                          "aaa aaa  0", "aaa aaa 00"}) {
    const size_t length = MatchLength(text, date);
    if (length == 0 || length == text.size()) continue;
    const View behind = text.substr(length);
    if (View("T :,").find(behind[0]) == View::npos) continue;
    const size_t at = behind[0] == 'T' || behind[0] == ':' ? 1 : behind.find_first_not_of(" ,");
    if (at != View::npos && MatchLength(behind.substr(at), "00:00") > 0) return true;
  }
  if (MatchLength(text, "00:00:00") > 0) return true;
  if (!has_bracket) {  // a web server's: 10.0.0.7 - anna [01/Mar/2024:08:15:02 +0000]
    const size_t open = line.substr(0, 80).find(" [");
    return open != View::npos && CountWords(line.substr(0, open)) == 3 &&
           MatchLength(line.substr(open + 2), "00-aaa-0000:00:00") > 0;
  }
  if (MatchLength(text, "00:00]") > 0 || MatchLength(text, "00:00>") > 0) return true;
  const size_t digits = text.find_first_not_of("0123456789");  // a kernel's seconds
  return digits != View::npos && digits > 0 && MatchLength(text.substr(digits), ".000000]") > 0;
}

bool LooksLikeCode(View line) {
  if (StartsWithAny(
          line,
          {"$ ",      "% ",       "//",         "/*",     "#include",  "#define",   "#!",
           "<?",      "def ",     "async def ", "elif ",  "import ",   "public ",   "private ",
           "static ", "void ",    "const ",     "let ",   "var ",      "function ", "fn ",
           "func ",   "package ", "namespace ", "using ", "template ", "template<", "try {",
           "try:",    "sudo ",    "echo ",      ">>> ",   "SELECT ",   "INSERT ",   "CREATE TABLE",
           "@",       "--",       "export "})) {
    if (!LooksLikeProse(line)) return true;
  }
  if (line.size() == 1 && (line[0] == '{' || line[0] == '}' || line[0] == ')' || line[0] == ']'))
    return true;
  if (LooksLikeProse(line)) return line.ends_with(';') && ContainsAny(line, {"(", "="});
  const char last = line.back();
  if (last == '{' || last == '}' || last == '\\' || line.ends_with(");") || line.ends_with("};"))
    return true;
  if (last == ';' && ContainsAny(line, {"=", "(", "->", " "})) return CountWords(line) <= 6;
  if (StartsWithAny(line, {"if (", "for (", "while (", "switch (", "return ", "} else", "else:"}))
    return true;
  if (last == ':' && StartsWithAny(line, {"if ", "for ", "while ", "class ", "with "})) return true;
  if (ContainsAny(line, {"==", "!=", "->", "=>", "::", "&&", "||", "()", "(\"", "('", "](", "</",
                         "/>", "+= "})) {
    return line.find("](") == View::npos;  // Markdown's links
  }
  const size_t equals = line.find(" = ");
  return equals != View::npos && CountWords(line.substr(0, equals)) <= 2;
}

bool LooksLikeProse(View line) {
  size_t num_letters = 0, num_words = 0, num_dense = 0;
  bool is_word = true, has_letter = false;
  const auto end_word = [&] {
    num_words += is_word && has_letter;
    is_word = true, has_letter = false;
  };
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool is_letter = IsAsciiLetter(c) || static_cast<unsigned char>(c) >= 0x80;
    size_t length = 1;
    // The first byte of a character of three: others of scripts without spaces are rare.
    if ((static_cast<unsigned char>(c) & 0xF0) == 0xE0)
      num_dense += IsWithoutSpaces(DecodeChar(line, i, &length));
    num_letters += is_letter || IsBlank(c);
    has_letter |= is_letter;
    if (IsBlank(c)) {
      end_word();
    } else if (!is_letter && View(".,;:'\"!?()-").find(c) == View::npos) {
      is_word = false;
    }
  }
  end_word();
  num_words += num_dense / 2;  // a word has two characters or so
  return num_words >= 5 && num_letters * 100 >= line.size() * 88;
}

size_t CountSeparators(View line, char mark) {
  size_t num_marks = 0;
  bool is_quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') is_quoted = !is_quoted;
    if (line[i] != mark || is_quoted) continue;
    if (i + 1 == line.size() || IsBlank(line[i + 1])) return 0;
    ++num_marks;
  }
  return num_marks;
}

Cells ReadCells(View line, size_t indent) {
  static constexpr View kPipes[] = {"|", "│", "┃", "║"};
  const auto has_pipe = [&](size_t at) {
    return std::ranges::any_of(kPipes,
                               [&](View pipe) { return line.substr(at).starts_with(pipe); });
  };
  Cells cells;
  cells.is_boxed = line.size() > 2 && has_pipe(0) &&
                   std::ranges::any_of(kPipes, [&](View pipe) { return line.ends_with(pipe); });
  size_t column = indent, gap = 0, num_dots = 0;
  char before = 0;  // the last one before the gap
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if ((static_cast<unsigned char>(c) & 0xC0) == 0x80) continue;
    cells.num_pipes += (c == '|' || c == '\xE2') && has_pipe(i);
    cells.num_tabs += c == '\t';
    if (c == ' ') {
      ++gap;
    } else {
      const bool is_sentence = gap == 2 && View(".!?:").find(before) != View::npos;
      const auto at = [](size_t place) {
        return static_cast<uint16_t>(std::min<size_t>(place, UINT16_MAX));
      };
      if (gap >= 2 && before != 0 && !is_sentence && cells.num_cells < Cells::kMost) {
        if (cells.num_cells > 0) cells.cells[cells.num_cells - 1].end = at(column - gap);
        cells.cells[cells.num_cells++] = {at(column), UINT16_MAX, gap >= 3};
        cells.widest_gap = std::max(cells.widest_gap, gap);
      }
      num_dots = c == '.' && gap <= 1 ? num_dots + 1 : num_dots;
      if (c != '.') {
        cells.has_leaders |= num_dots >= 4 && IsAsciiDigit(c);
        cells.has_dots |= num_dots >= 5;
        num_dots = 0;
      }
      gap = 0;
      before = c;
    }
    ++column;
  }
  if (cells.num_cells > 0) {
    cells.cells[cells.num_cells - 1].end =
        static_cast<uint16_t>(std::min<size_t>(column, UINT16_MAX));
  }
  cells.has_leaders &= IsAsciiDigit(line.back());
  if (cells.num_pipes == 1 && line.front() == '|')
    cells.num_pipes = 0;  // quotes mail in an old way
  return cells;
}

bool AreRows(const Cells& a, const Cells& b) {
  if (a.has_dots && b.has_dots) return true;
  if (a.num_pipes > 0 && b.num_pipes > 0 &&
      (a.num_pipes == b.num_pipes || (a.is_boxed && b.is_boxed)))
    return true;
  if (a.num_tabs > 0 && a.num_tabs == b.num_tabs) return true;
  return HaveEqualEdges(a, b, &Cells::Cell::begin) || HaveEqualEdges(a, b, &Cells::Cell::end);
}

}  // namespace lectern
