#include "engine/document/sentence_marks.h"

#include <algorithm>
#include <iterator>

#include "engine/document/abbreviations.h"
#include "engine/document/sentence_breaks.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

bool IsDigitByte(char c) { return c >= '0' && c <= '9'; }

bool IsLetterKind(TextStart start) {
  return start == TextStart::kSmallLetter || start == TextStart::kCapital ||
         start == TextStart::kOtherLetter;
}

size_t NumDigits(std::string_view text) {
  return std::min(text.find_first_not_of("0123456789"), text.size());
}

// Takes "5. " from the end of a text: returns its digits, and leaves what stands before them.
// Empty: it does not end so.
std::string_view TakeNumberBack(std::string_view* text) {
  constexpr size_t kMostSpaces = 2;
  size_t end = text->size(), spaces = 0;
  while (end > 0 && (*text)[end - 1] == ' ' && spaces < kMostSpaces) --end, ++spaces;
  if (end == 0 || (*text)[end - 1] != '.') return {};
  size_t begin = --end;
  while (begin > 0 && IsDigitByte((*text)[begin - 1]) && end - begin < 5) --begin;
  const std::string_view digits = text->substr(begin, end - begin);
  *text = text->substr(0, begin);
  return digits;
}

// The digits of a script at the head of a text, in bytes; at most three of them.
size_t NumberLength(std::string_view text) {
  constexpr size_t kMostDigits = 3;
  size_t end = 0;
  for (size_t i = 0; i < kMostDigits && end < text.size(); ++i) {
    if (StartOf(text.substr(end)) != TextStart::kDigit) break;
    size_t length = 1;
    (void)DecodeChar(text, end, &length);
    end += length;
  }
  return end;
}

bool IsDayOrMonth(std::string_view digits) { return digits.size() == 1 || digits.size() == 2; }

}  // namespace

bool IsRoman(std::string_view word) {
  return !word.empty() && word.size() <= 7 &&
         (word.find_first_not_of("IVXLC") == word.npos ||
          word.find_first_not_of("ivxlc") == word.npos);
}
bool IsNumber(std::string_view word) { return !word.empty() && NumDigits(word) == word.size(); }

bool AreInitials(std::string_view word) {
  constexpr uint32_t kFirstCjk = 0x2E80;
  bool wants_letter = true;
  size_t num_letters = 0;
  for (size_t at = 0; at < word.size();) {
    size_t length = 1;
    const uint32_t c = DecodeChar(word, at, &length);
    const bool is_cjk = c >= kFirstCjk && IsWithoutSpaces(c);
    const bool is_letter = IsLetterKind(StartOf(word.substr(at, length))) && !is_cjk;
    if (wants_letter ? !is_letter : c != '.' && c != '-') return false;
    num_letters += wants_letter;
    wants_letter = !wants_letter;
    at += length;
  }
  return num_letters > 0 && !wants_letter;
}
bool AreDoubled(std::string_view word) {
  return word.size() == 2 && word[0] == word[1] && word[0] >= 'A' && word[0] <= 'Z';
}

bool IsListMark(std::string_view text) {
  constexpr size_t kLongest = 12;
  text.remove_prefix(SpaceAfter(text, 0));
  for (const std::string_view name :
       {"Section ", "Article ", "Clause ",  "Rule ",    "Artikel ",  "Chapter ",   "Example ",
        "Figure ",  "Table ",   "Step ",    "Kapitel ", "Beispiel ", "Abbildung ", "Tabelle ",
        "Schritt ", "Exemple ", "Tableau ", "Ejemplo ", "Figura ",   "Tabla ",     "Esempio ",
        "Пример ",  "Рисунок ", "Таблица ", "Статья ",  "Стаття "}) {
    if (!text.starts_with(name)) continue;
    text.remove_prefix(name.size());
    if (text.empty() || !IsDigitByte(text[0])) return false;
    break;
  }
  if (text.empty() || text.size() > kLongest) return false;
  if (text.ends_with("a.m") || text.ends_with("p.m")) {  // "9:00 a.m. Opening", in a programme
    const size_t hours = NumDigits(text);
    return hours > 0 && NumDigits(text.substr(std::min(hours + 1, text.size()))) == 2;
  }
  if (text.starts_with("§")) text.remove_prefix(std::min(SpaceAfter(text, 2), text.size()));
  if (text.starts_with('(') || text.starts_with('[')) text.remove_prefix(1);
  if (text.ends_with(')') || text.ends_with(']')) text.remove_suffix(1);
  if (IsRoman(text)) return true;
  const TextStart start = StartOf(text);
  if (text.size() == 2 && text[0] == text[1] && start == TextStart::kSmallLetter) return true;
  size_t length = 1;
  if (!text.empty()) (void)DecodeChar(text, 0, &length);
  if (text.size() <= 2 && length == text.size() && IsLetterKind(start)) return true;
  // "B.2.5": of an appendix
  if (text.size() > 2 && text[0] >= 'A' && text[0] <= 'Z' && text[1] == '.') text.remove_prefix(2);
  if (!text.empty() && NumberLength(text) == text.size()) return true;  // "१", "١", "１"
  size_t num_digits = 0;
  for (const char c : text) {
    if (c == '.') {
      num_digits = 0;
    } else if (!IsDigitByte(c) || ++num_digits > 3) {
      return false;
    }
  }
  return !text.empty() && text.front() != '.';
}

size_t FootnoteLength(std::string_view text) {
  constexpr size_t kMostDigits = 3, kLongestName = 24;
  if (text.empty()) return 0;
  if (text.starts_with("[^")) {  // of Markdown
    const size_t end = text.substr(0, kLongestName).find_first_of("] \n", 2);
    return end != std::string_view::npos && end > 2 && text[end] == ']' ? end + 1 : 0;
  }
  const size_t digits = NumDigits(text.substr(1)), close = 1 + digits;
  if (digits == 0 || digits > kMostDigits || close >= text.size()) return 0;
  if (text[0] == '[') return text[close] == ']' ? close + 1 : 0;
  if (text[0] != '(' || text[close] != ')') return 0;
  return close + 1 == text.size() || SpaceAfter(text, close + 1) > close + 1 ? close + 1 : 0;
}

bool IsRaisedMark(uint32_t c) {
  return c == 0xB9 || c == 0xB2 || c == 0xB3 || (c >= 0x2070 && c <= 0x2079) || c == 0x2020 ||
         c == 0x2021;
}

bool IsInDate(std::string_view before, std::string_view after) {
  constexpr size_t kFarthest = 16;
  if (before.size() > kFarthest) before.remove_prefix(before.size() - kFarthest);
  after = after.substr(0, kFarthest);
  const std::string_view last = TakeNumberBack(&before);
  const size_t next = NumDigits(after);
  const bool has_stop = next < after.size() && after[next] == '.';
  // The digits behind "5. "
  const size_t third =
      has_stop ? NumDigits(after.substr(std::min(SpaceAfter(after, next + 1), after.size()))) : 0;
  if (last.size() == 4) return IsDayOrMonth(after.substr(0, next)) && third > 0;  // 2019. | 5. 3.
  if (!IsDayOrMonth(last)) return false;
  const std::string_view previous = TakeNumberBack(&before);
  if (previous.size() == 4)  // 2019. 5. | 3.
    return IsDayOrMonth(after.substr(0, next)) && has_stop;
  if (IsDayOrMonth(previous)) {
    if (next == 4) return true;  // 1. 4. | 2020
    const std::string_view first = TakeNumberBack(&before);
    // 2019. 5. 3. | behind it a script without capitals goes on, as Korean does.
    return first.size() == 4 && StartOf(after) == TextStart::kOtherLetter;
  }
  return IsDayOrMonth(after.substr(0, next)) && third == 4;  // 1. | 4. 2020
}

bool IsBeforeSmallerUnit(std::string_view unit, std::string_view next) {
  struct Units {
    std::string_view unit, smaller;
  };
  static constexpr Units kUnits[] = {{"ft", "in"},   {"lb", "oz"},   {"lbs", "oz"}, {"yd", "ft"},
                                     {"hr", "min"},  {"hrs", "min"}, {"h", "min"},  {"min", "sec"},
                                     {"min", "s"},   {"st", "lb"},   {"gal", "qt"}, {"qt", "pt"},
                                     {"Std", "Min"}, {"Min", "Sek"}};
  const size_t digits = next.substr(0, 8).find_first_not_of("0123456789.,½¼");
  if (digits == std::string_view::npos || digits == 0) return false;
  const std::string_view word = next.substr(SpaceAfter(next, digits), 4);
  return std::ranges::any_of(kUnits, [&](const Units& units) {
    return unit == units.unit && word.starts_with(units.smaller) &&
           StartOf(word.substr(units.smaller.size())) == TextStart::kOther;
  });
}

bool TellsSpeaker(std::string_view text) {
  static constexpr std::string_view kVerbs[] = {
      "said",     "asked",    "cried",  "replied",  "answered", "whispered", "shouted", "exclaimed",
      "called",   "demanded", "added",  "inquired", "enquired", "murmured",  "thought", "yelled",
      "muttered", "wondered", "gasped", "screamed", "begged",   "snapped",   "laughed", "sighed"};
  constexpr size_t kFarthest = 48, kMostNames = 3;
  text = text.substr(0, kFarthest);
  for (size_t i = 0; i <= kMostNames; ++i) {
    const size_t end = std::min(text.find_first_of(" \n\r\t"), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(SpaceAfter(text, end), text.size()));
    while (!word.empty() && std::string_view(",.").find(word.back()) != std::string_view::npos)
      word.remove_suffix(1);
    if (i > 0 && std::ranges::find(kVerbs, word) != std::end(kVerbs)) return true;
    // "He said that" would not have a capital if it told who spoke.
    if (StartOf(word) != TextStart::kCapital || (i == 0 && word != "I" && BeginsSentences(word)))
      return false;
  }
  return false;
}

bool ContinuesChineseQuote(std::string_view text) {
  for (const std::string_view link : {"的", "中", "等", "里", "裡", "之"}) {
    if (text.starts_with(link)) return true;
  }
  static constexpr std::string_view kVerbs[] = {"说", "說", "道", "问", "問", "答", "喊", "叫"};
  static constexpr std::string_view kEnds[] = {"。", "，", "：", "！", "？", "；", "“", "「", "、"};
  constexpr size_t kMostChars = 10;
  std::string_view before;  // the character before
  for (size_t i = 0; i < kMostChars && !text.empty(); ++i) {
    size_t length = 1;
    (void)DecodeChar(text, 0, &length);
    const std::string_view c = text.substr(0, length);
    if (std::ranges::find(kEnds, c) != std::end(kEnds))
      return std::ranges::find(kVerbs, before) != std::end(kVerbs);
    before = c;
    text.remove_prefix(length);
  }
  return text.empty() && std::ranges::find(kVerbs, before) != std::end(kVerbs);
}

bool IsAnnouncedQuote(std::string_view text) {
  constexpr size_t kFarthest = 400;
  if (text.size() > kFarthest) text.remove_prefix(text.size() - kFarthest);
  size_t open = std::string_view::npos;
  for (const std::string_view mark : {"“", "「", "『"}) {
    const size_t at = text.rfind(mark);
    if (at != std::string_view::npos && (open == std::string_view::npos || at > open)) open = at;
  }
  if (open == std::string_view::npos) return false;
  const std::string_view before = text.substr(0, open);
  return before.ends_with("：") || before.ends_with(':');
}

size_t VerseNumberLength(std::string_view stop, std::string_view after) {
  constexpr std::string_view kDouble = "॥";
  if (!stop.starts_with(kDouble)) return 0;
  const size_t begin = SpaceAfter(after, 0), digits = NumberLength(after.substr(begin));
  const size_t end = SpaceAfter(after, begin + digits);
  return digits > 0 && after.substr(end).starts_with(kDouble) ? end + kDouble.size() : 0;
}

}  // namespace lectern
