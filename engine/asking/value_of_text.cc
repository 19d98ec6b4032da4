#include "engine/asking/value_of_text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/asking/value_grammar.h"
#include "engine/asking/word_scan.h"
#include "engine/constraint/json_schema.h"
#include "engine/constraint/ordered_json.h"
#include "engine/model/formats/text.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

// Longer answers are read up to here; so are the words among which a run is looked for.
constexpr size_t kMostReadBytes = 4000, kMostRunWords = 64;

// A word in small letters, a number in ASCII digits with its points and commas, or one other
// character.
struct Lexeme {
  enum class Kind { kWord, kNumber, kMark };
  Kind kind = Kind::kMark;
  std::string text;
  bool is_apart = true;  // white space, or nothing, stands before it

  bool Is(std::string_view other) const { return kind != Kind::kNumber && text == other; }
};

std::vector<Lexeme> LexemesOf(std::string_view text) {
  std::vector<Lexeme> lexemes;
  bool is_apart = true;
  for (size_t at = 0, length; at < text.size();) {
    const uint32_t c = DecodeChar(text, at, &length);
    Lexeme one;
    if (DigitOf(c) >= 0) {
      one.kind = Lexeme::Kind::kNumber;
      TakeNumber(text, at, &one.text);
    } else if (IsOfWord(c)) {
      one.kind = Lexeme::Kind::kWord;
      TakeWord(text, at, &one.text);
    } else {
      AppendChar(c, &one.text);
      at += length;
    }
    one.is_apart = is_apart;
    is_apart = IsWhiteSpace(c);
    if (!is_apart) lexemes.push_back(std::move(one));
  }
  return lexemes;
}

// --- choices ------------------------------------------------------------------------------------

// Schemas deeper within a schema are not looked through for choices.
constexpr size_t kMostDepthOfChoices = 8;

// Appends the strings among which the schema chooses.
void AddChoices(const OrderedJson& root, const OrderedJson& schema, size_t depth,
                std::vector<std::string>& choices) {
  if (depth == 0) return;
  for (const auto& [key, value] : schema.members) {
    if (key == "const" && value.string()) choices.push_back(*value.string());
    if (key == "enum") {
      for (const OrderedJson& one : value.items) {
        if (one.string()) choices.push_back(*one.string());
      }
    }
    if (key == "anyOf" || key == "oneOf" || key == "allOf") {
      for (const OrderedJson& one : value.items) AddChoices(root, one, depth - 1, choices);
    }
    if (key == "$ref" && value.string()) {
      const std::string& to = *value.string();
      const size_t slash = to.find('/', std::min<size_t>(2, to.size()));
      if (!to.starts_with("#/") || slash == to.npos) continue;
      const OrderedJson* const defined = root.Find(to.substr(2, slash - 2));
      const OrderedJson* const next = defined ? defined->Find(to.substr(slash + 1)) : nullptr;
      if (next) AddChoices(root, *next, depth - 1, choices);
    }
  }
}

// The words of a text, or of a choice such as "VAR_GAMES", with one space around each.
std::string ComparedWords(std::string_view text) {
  std::string words(text);
  std::ranges::replace(words, '_', ' ');
  return SpacedWords(words);
}

std::string ChoiceIn(const std::vector<std::string>& choices, std::string_view text) {
  const std::string said = ComparedWords(text);
  struct Found {
    size_t begin, end;
    const std::string* choice;
  };
  std::vector<Found> found;
  std::vector<const std::string*> around;  // choices that have all words of the text
  for (const std::string& choice : choices) {
    const std::string words = ComparedWords(choice);
    if (words == " ") continue;
    const size_t at = said.find(words);
    if (at != said.npos) found.push_back({at, at + words.size(), &choice});
    if (said != " " && words.find(said) != words.npos) around.push_back(&choice);
  }
  if (found.empty()) return around.size() == 1 ? QuotedJson(*around[0]) : "";
  const auto longest =
      std::ranges::max_element(found, {}, [](const Found& one) { return one.end - one.begin; });
  const bool is_only = std::ranges::all_of(found, [&](const Found& one) {
    return one.begin >= longest->begin && one.end <= longest->end;
  });
  return is_only ? QuotedJson(*longest->choice) : "";
}

// --- yes and no ---------------------------------------------------------------------------------

constexpr std::array<std::string_view, 9> kYes = {"yes", "true", "ja",  "oui", "sí",
                                                  "sì",  "sim",  "tak", "да"};
constexpr std::array<std::string_view, 9> kNo = {"no",  "false", "nein", "non", "não",
                                                 "nee", "nie",   "нет",  "nej"};
constexpr std::array<std::string_view, 23> kNegations = {
    "not",   "never",  "cannot", "none",   "neither", "nor",     "nicht", "kein",
    "keine", "keinen", "keinem", "keiner", "nie",     "niemals", "pas",   "jamais",
    "nunca", "não",    "niet",   "geen",   "nooit",   "не",      "нет"};
// "No" is Portuguese for "in the": it negates nothing beside these words.
constexpr std::array<std::string_view, 6> kPortuguese = {"o", "é", "são", "um", "uma", "ao"};

template <size_t N>
bool HasOneOf(std::string_view spaced, const std::array<std::string_view, N>& words) {
  return std::ranges::any_of(words, [&](std::string_view word) {
    return spaced.find(" " + std::string(word) + " ") != spaced.npos;
  });
}
bool IsNegated(std::string_view text) {
  const std::string spaced = SpacedWords(text);
  return HasOneOf(spaced, kNegations) || text.find("n't") != text.npos ||
         text.find("n’t") != text.npos ||
         (spaced.find(" no ") != spaced.npos && !HasOneOf(spaced, kPortuguese));
}

// Whether a text affirms what the question asks; nothing: it has no words.
std::optional<bool> Affirms(std::string_view question, std::string_view text) {
  const std::string spaced = SpacedWords(text);
  if (spaced == " ") return std::nullopt;
  const std::string_view first = std::string_view(spaced).substr(1, spaced.find(' ', 1) - 1);
  if (std::ranges::find(kYes, first) != kYes.end()) return true;
  if (std::ranges::find(kNo, first) != kNo.end()) return false;
  return IsNegated(text) == IsNegated(question);
}

// The one of the choices "yes" and "no" that a text means which affirms, or denies; empty: there
// are no such choices.
std::string YesOrNo(const std::vector<std::string>& choices, std::optional<bool> affirms) {
  const auto find = [&](std::string_view word) {
    return std::ranges::find(choices, " " + std::string(word) + " ", ComparedWords);
  };
  const auto yes = find("yes"), no = find("no");
  if (!affirms || yes == choices.end() || no == choices.end()) return "";
  return QuotedJson(*affirms ? *yes : *no);
}

// --- numbers ------------------------------------------------------------------------------------

// A decimal number: digits, the last `scale` of them behind the point.
struct Decimal {
  std::string digits;
  size_t scale = 0;
  bool is_negative = false;

  void TimesTenTo(size_t power) {
    const size_t taken = std::min(power, scale);
    scale -= taken;
    digits.append(power - taken, '0');
  }
  std::string Json() const {
    std::string text = digits;
    if (text.size() <= scale) text.insert(0, scale + 1 - text.size(), '0');
    if (scale > 0) {
      text.insert(text.size() - scale, ".");
      while (text.back() == '0') text.pop_back();
      if (text.back() == '.') text.pop_back();
    }
    text.erase(0, std::min(text.find_first_not_of('0'), text.size()));
    if (text.empty() || text[0] == '.') text.insert(0, "0");
    return is_negative && text != "0" ? "-" + text : text;
  }
};

// "1,200,000": groups of three digits behind this mark.
bool IsGrouped(std::string_view number, char mark) {
  size_t at = number.find(mark);
  if (at == 0 || at > 3) return false;
  for (; at < number.size(); at += 4) {
    if (number[at] != mark || number.size() < at + 4) return false;
    if (number.substr(at + 1, 3).find_first_of(".,") != std::string_view::npos) return false;
  }
  return true;
}

// The readings of digits with points and commas, the likelier first: "1.200" is less likely 1200.
std::vector<Decimal> ReadingsOf(std::string_view number) {
  std::vector<Decimal> readings;
  const auto add = [&](std::string_view whole, std::string_view rest) {
    Decimal decimal;
    for (const char c : whole) {
      if (c != '.' && c != ',') decimal.digits += c;
    }
    decimal.digits += rest;
    decimal.scale = rest.size();
    readings.push_back(std::move(decimal));
  };
  const size_t last = number.find_last_of(".,");
  if (last == number.npos) {
    add(number, "");
    return readings;
  }
  const std::string_view whole = number.substr(0, last), rest = number.substr(last + 1);
  const char mark = number[last], other = mark == '.' ? ',' : '.';
  if (mark == ',' && IsGrouped(number, ',')) add(number, "");
  const bool is_plain = whole.find_first_of(".,") == whole.npos;
  if (is_plain || (whole.find(mark) == whole.npos && IsGrouped(whole, other))) add(whole, rest);
  if (mark == '.' && IsGrouped(number, '.')) add(number, "");
  return readings;
}

struct Scale {
  std::string_view word;
  size_t power;
};
constexpr std::array<Scale, 5> kScales = {
    {{"hundred", 2}, {"thousand", 3}, {"million", 6}, {"billion", 9}, {"trillion", 12}}};
constexpr std::array<std::string_view, 20> kUnits = {
    "zero",     "one",     "two",     "three",     "four",     "five",    "six",
    "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
    "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
constexpr std::array<std::string_view, 10> kTens = {
    "", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};
constexpr std::array<std::string_view, 11> kOrdinals = {"",       "first", "second", "third",
                                                        "fourth", "fifth", "sixth",  "seventh",
                                                        "eighth", "ninth", "tenth"};

template <size_t N>
std::optional<uint64_t> IndexIn(const std::array<std::string_view, N>& words,
                                std::string_view word) {
  const auto at = std::ranges::find(words, word);
  if (word.empty() || at == words.end()) return std::nullopt;
  return static_cast<uint64_t>(at - words.begin());
}
size_t PowerOf(const Lexeme& lexeme) {
  for (const auto& [word, power] : kScales) {
    if (lexeme.kind == Lexeme::Kind::kWord && lexeme.text == word) return power;
  }
  return 0;
}
uint64_t TenTo(size_t power) { return power == 0 ? 1 : 10 * TenTo(power - 1); }

// "a hundred" is a number, "several hundred" is none.
bool IsBehindA(const std::vector<Lexeme>& lexemes, size_t at) {
  return at > 0 && lexemes[at - 1].Is("a");
}

// Reads "nine hundred and twenty-three" at `at`, and moves `at` behind it.
std::optional<uint64_t> TakeNumberWords(const std::vector<Lexeme>& lexemes, size_t& at) {
  uint64_t sum = 0, part = 0;  // `part`: below the next scale
  bool is_begun = false, may_be_unit = true, may_be_ten = true;
  size_t next = at;
  for (; next < lexemes.size(); ++next) {
    const Lexeme& one = lexemes[next];
    if (one.kind == Lexeme::Kind::kMark) {
      if (is_begun && one.text == "-" && !one.is_apart) continue;
      break;
    }
    if (one.kind == Lexeme::Kind::kNumber) break;
    const auto unit = IndexIn(kUnits, one.text), ten = IndexIn(kTens, one.text);
    const size_t power = PowerOf(one);
    if (ten && may_be_ten) {
      part += 10 * *ten, may_be_ten = false, may_be_unit = true;
    } else if (unit && may_be_unit && (*unit < 10 || may_be_ten)) {
      part += *unit, may_be_unit = may_be_ten = false;
    } else if (power == 2 && is_begun && part < 100) {
      part = 100 * std::max<uint64_t>(part, 1), may_be_unit = may_be_ten = true;
    } else if (power > 2 && is_begun && sum < TenTo(15 - power)) {
      sum += std::max<uint64_t>(part, 1) * TenTo(power), part = 0;
      may_be_unit = may_be_ten = true;
    } else if (power > 0 && !is_begun && IsBehindA(lexemes, next)) {
      part = power == 2 ? 100 : 0, sum = power == 2 ? 0 : TenTo(power);
    } else if (!(one.text == "and" && is_begun && next + 1 < lexemes.size() &&
                 (IndexIn(kUnits, lexemes[next + 1].text) ||
                  IndexIn(kTens, lexemes[next + 1].text)) &&
                 (sum + part >= 100))) {
      break;
    }
    is_begun = true;
  }
  if (!is_begun) return std::nullopt;
  at = next;
  return sum + part;
}

// Numbers of a text in the order in which they count as its answer.
std::vector<std::string> NumbersIn(const std::vector<Lexeme>& lexemes) {
  std::vector<std::string> numbers, vague;  // `vague`: "one" and "second" have other senses, too
  for (size_t at = 0; at < lexemes.size();) {
    const Lexeme& one = lexemes[at];
    if (one.kind == Lexeme::Kind::kWord) {
      const size_t begin = at;
      if (const auto number = TakeNumberWords(lexemes, at)) {
        const bool is_dozens = at < lexemes.size() && lexemes[at].Is("dozen");
        const bool is_vague = at == begin + 1 && *number == 1 && !is_dozens;
        (is_vague ? vague : numbers).push_back(std::to_string(*number * (is_dozens ? 12 : 1)));
        at += is_dozens;
        continue;
      }
      if (one.text == "dozen" && IsBehindA(lexemes, at)) numbers.push_back("12");
      if (const auto order = IndexIn(kOrdinals, one.text)) vague.push_back(std::to_string(*order));
      ++at;
      continue;
    }
    if (one.kind == Lexeme::Kind::kMark) {
      ++at;
      continue;
    }
    // "Win7", "x86": digits of a name.
    const bool is_of_name = at > 0 && !one.is_apart && lexemes[at - 1].kind == Lexeme::Kind::kWord;
    const bool is_behind_sign =
        at > 0 && !one.is_apart && (lexemes[at - 1].text == "-" || lexemes[at - 1].text == "−");
    const bool is_negative = is_behind_sign && (at == 1 || lexemes[at - 1].is_apart ||
                                                lexemes[at - 2].kind == Lexeme::Kind::kMark);
    std::string digits = one.text;
    // "12 345 678"
    if (digits.size() <= 3) {
      while (at + 1 < lexemes.size() && lexemes[at + 1].kind == Lexeme::Kind::kNumber &&
             lexemes[at + 1].is_apart && lexemes[at + 1].text.size() == 3 &&
             lexemes[at + 1].text.find_first_of(".,") == std::string::npos) {
        digits += lexemes[++at].text;
      }
    }
    ++at;
    const bool has_k = at < lexemes.size() && lexemes[at].Is("k") && !lexemes[at].is_apart;
    const size_t power = at < lexemes.size() ? (has_k ? 3 : PowerOf(lexemes[at])) : 0;
    for (Decimal& reading : ReadingsOf(digits)) {
      reading.is_negative = is_negative;
      reading.TimesTenTo(power);
      (is_of_name ? vague : numbers).push_back(reading.Json());
    }
  }
  numbers.insert(numbers.end(), vague.begin(), vague.end());
  return numbers;
}

bool AsksForYear(std::string_view question) {
  const std::string words = SpacedWords(question);
  return std::ranges::any_of(
      std::array<std::string_view, 9>{" year ", " jahr ", " année ", " an ", " año ", " anno ",
                                      " ano ", " jaar ", " rok "},
      [&](std::string_view word) { return words.find(word) != words.npos; });
}
bool IsYearNumber(std::string_view number) {
  return number.size() == 4 && (number[0] == '1' || number.starts_with("20")) &&
         number.find_first_not_of("0123456789") == number.npos;
}

// --- dates --------------------------------------------------------------------------------------

// January to December; several names of a month stand for several languages or forms.
constexpr std::array<std::string_view, 12> kMonths = {
    "january jan januar janvier enero gennaio janeiro januari",
    "february feb februar février fevrier febrero febbraio fevereiro februari",
    "march mar märz mars marzo março marco maart",
    "april apr avril abril aprile",
    "may mai mayo maggio maio mei",
    "june jun juni juin junio giugno junho",
    "july jul juli juillet julio luglio julho",
    "august aug août aout agosto augustus",
    "september sep sept septembre septiembre settembre setembro",
    "october oct oktober okt octobre octubre ottobre outubro",
    "november nov novembre noviembre novembro",
    "december dec dezember dez décembre decembre diciembre dicembre dezembro"};

// 1 to 12; 0: it is no month.
int MonthOf(const Lexeme& lexeme) {
  if (lexeme.kind != Lexeme::Kind::kWord) return 0;
  for (size_t i = 0; i < kMonths.size(); ++i) {
    const std::string names = " " + std::string(kMonths[i]) + " ";
    if (names.find(" " + lexeme.text + " ") != names.npos) return static_cast<int>(i) + 1;
  }
  return 0;
}
// -1: it is no whole number of at most so many digits.
int NumberOf(const Lexeme& lexeme, size_t most_digits) {
  if (lexeme.kind != Lexeme::Kind::kNumber || lexeme.text.size() > most_digits ||
      lexeme.text.find_first_of(".,") != std::string::npos) {
    return -1;
  }
  return std::stoi(lexeme.text);
}

class DateFinder {
 public:
  explicit DateFinder(const std::vector<Lexeme>& lexemes) {
    // Words and marks that mean nothing within a date.
    for (const Lexeme& one : lexemes) {
      const auto is = [&](std::string_view word) { return one.Is(word); };
      const bool is_ordinal = !one.is_apart && (is("st") || is("nd") || is("rd") || is("th"));
      if (is_ordinal || is("of") || is("de") || is(",") || is("the")) continue;
      lexemes_.push_back(one);
    }
  }
  // "1993-08-16"; empty: there is none.
  std::string First() const {
    for (size_t i = 0; i < lexemes_.size(); ++i) {
      for (const std::string& date : {WithMonthName(i), WithMarks(i), WithDots(i)}) {
        if (!date.empty()) return date;
      }
    }
    return "";
  }

 private:
  static std::string Date(int year, int month, int day) {
    constexpr std::array<int, 12> kDays = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (year < 1000 || month < 1 || month > 12 || day < 1) return "";
    const bool is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    if (day > kDays[static_cast<size_t>(month - 1)] - (month == 2 && !is_leap)) return "";
    const auto two = [](int number) { return (number < 10 ? "0" : "") + std::to_string(number); };
    return std::to_string(year) + "-" + two(month) + "-" + two(day);
  }
  int NumberAt(size_t i, size_t most_digits) const {
    return i < lexemes_.size() ? NumberOf(lexemes_[i], most_digits) : -1;
  }
  bool IsAt(size_t i, std::string_view mark) const {
    return i < lexemes_.size() && lexemes_[i].Is(mark);
  }
  // "August 16 1993", "16 August 1993", "16. August 1993", "1993 August 16".
  std::string WithMonthName(size_t i) const {
    const int month = MonthOf(lexemes_[i]);
    if (month == 0) return "";
    const size_t behind = i + 1 + IsAt(i + 1, ".");
    const size_t before = i - (i > 0 && IsAt(i - 1, "."));
    const int next = NumberAt(behind, 4), second = NumberAt(behind + 1, 4);
    const int last = before > 0 ? NumberAt(before - 1, 4) : -1;
    if (next >= 1000) return Date(next, month, last);
    if (last >= 1000) return Date(last, month, next);
    return Date(second, month, next);
  }
  // "1993-08-16", "1993/8/16", "16/08/1993", "8/16/1993", 1993年8月16日.
  std::string WithMarks(size_t i) const {
    const int first = NumberAt(i, 4), second = NumberAt(i + 2, 2), third = NumberAt(i + 4, 4);
    if (first < 0 || second < 0 || third < 0) return "";
    if (IsAt(i + 1, "年") && IsAt(i + 3, "月")) return Date(first, second, third);
    const bool is_dash = IsAt(i + 1, "-") && IsAt(i + 3, "-");
    if (!is_dash && !(IsAt(i + 1, "/") && IsAt(i + 3, "/"))) return "";
    if (first >= 1000) return Date(first, second, third);
    if (is_dash || first > 12 || first == second) return Date(third, second, first);
    return second > 12 ? Date(third, first, second) : "";
  }
  // "16.08.1993", which is scanned as one number.
  std::string WithDots(size_t i) const {
    const std::string& text = lexemes_[i].text;
    const size_t dot = text.find('.'), last = text.rfind('.');
    if (lexemes_[i].kind != Lexeme::Kind::kNumber || dot == last || text.size() > 10 ||
        text.find(',') != text.npos || text.find('.', dot + 1) != last || dot > 2 ||
        last - dot > 3 || text.size() - last != 5) {
      return "";
    }
    return Date(std::stoi(text.substr(last + 1)), std::stoi(text.substr(dot + 1, last - dot - 1)),
                std::stoi(text.substr(0, dot)));
  }

  std::vector<Lexeme> lexemes_;
};

// --- other strings ------------------------------------------------------------------------------

// The longest run of words that is a string of the schema; marks at its ends are left out where the
// run is none with them.
std::string RunIn(const ValueGrammar& grammar, std::string_view text) {
  struct Word {
    size_t begin, end;
  };
  std::vector<Word> words;
  for (size_t at = SpaceAfter(text, 0); at < text.size() && words.size() < kMostRunWords;) {
    size_t end = at, length;
    while (end < text.size() && !IsWhiteSpace(DecodeChar(text, end, &length))) end += length;
    words.push_back({at, end});
    at = SpaceAfter(text, end);
  }
  constexpr std::string_view kMarks = ".,;:!?\"'()[]<>";
  for (size_t count = words.size(); count > 0; --count) {
    for (size_t first = 0; first + count <= words.size(); ++first) {
      std::string_view run =
          text.substr(words[first].begin, words[first + count - 1].end - words[first].begin);
      const std::string whole = QuotedJson(run);
      if (grammar.Has(whole)) return whole;
      while (!run.empty() && kMarks.find(run.front()) != kMarks.npos) run.remove_prefix(1);
      while (!run.empty() && kMarks.find(run.back()) != kMarks.npos) run.remove_suffix(1);
      const std::string bare = QuotedJson(run);
      if (!run.empty() && grammar.Has(bare)) return bare;
    }
  }
  return "";
}

}  // namespace

std::vector<std::string> ChoicesOf(std::string_view schema) {
  std::vector<std::string> choices;
  const auto json = ParseOrderedJson(schema);
  if (json.ok()) AddChoices(*json, *json, kMostDepthOfChoices, choices);
  return choices;
}

std::string ValueOfText(std::string_view schema, std::string_view question, std::string_view text) {
  const auto grammar = ValueGrammar::Of(schema);
  if (!grammar || !IsValidUtf8(text)) return "";
  text = text.substr(0, kMostReadBytes);
  while (!IsValidUtf8(text)) text.remove_suffix(1);  // the limit may divide a character
  text = TrimWhiteSpace(text);
  const std::vector<std::string> choices = ChoicesOf(schema);
  const std::optional<bool> affirms = Affirms(question, text);
  for (const std::string& choice : {ChoiceIn(choices, text), YesOrNo(choices, affirms)}) {
    if (!choice.empty() && grammar->Has(choice)) return choice;
  }
  const std::vector<Lexeme> lexemes = LexemesOf(text);
  const auto begins = [&](char byte) { return grammar->HasBeginning(std::string(1, byte)); };
  if (std::ranges::any_of(std::string_view("-0123456789"), begins)) {
    std::vector<std::string> numbers = NumbersIn(lexemes);
    std::erase_if(numbers, [&](const std::string& one) { return !grammar->Has(one); });
    if (AsksForYear(question)) {
      std::stable_partition(numbers.begin(), numbers.end(), IsYearNumber);
    }
    if (!numbers.empty()) return numbers.front();
  }
  if (grammar->Has("true") && grammar->Has("false")) {
    return !affirms ? "" : *affirms ? "true" : "false";
  }
  const std::string date = DateFinder(lexemes).First();
  if (!date.empty() && grammar->Has(QuotedJson(date))) return QuotedJson(date);
  return choices.empty() && grammar->HasBeginning("\"") ? RunIn(*grammar, text) : "";
}

}  // namespace lectern
