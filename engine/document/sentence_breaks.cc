#include "engine/document/sentence_breaks.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "engine/document/abbreviations.h"
#include "engine/document/sentence_marks.h"
#include "engine/document/sentence_terminators.h"
#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

bool IsCjk(uint32_t c) {
  return (c >= 0x2E80 && c <= 0x9FFF) || (c >= 0xA000 && c <= 0xA4CF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFF9F) ||
         (c >= 0x20000 && c <= 0x3FFFD);
}
bool IsHiragana(uint32_t c) { return c >= 0x3041 && c <= 0x309F; }
bool IsThaiOrLao(uint32_t c) { return c >= 0x0E01 && c <= 0x0EFF; }

// A character at a place of a text, or 0 at its end.
struct Char {
  uint32_t c = 0;
  size_t length = 0;
};
Char At(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) return {byte, 1};
  Char found;
  found.c = DecodeChar(text, at, &found.length);
  return found;
}
size_t Before(std::string_view text, size_t at) {
  size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) {
    --begin;
  }
  return begin;
}

bool IsDigit(uint32_t c) { return c >= '0' && c <= '9'; }
utf8proc_category_t Category(uint32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}
// Georgian letters are small ones by Unicode's category, but its texts have no capitals.
bool IsGeorgian(uint32_t c) { return c >= 0x10D0 && c <= 0x10FF; }
bool IsSmall(uint32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z';
  return Category(c) == UTF8PROC_CATEGORY_LL && !IsGeorgian(c);
}
bool IsCapital(uint32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z';
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
}
bool IsLetter(uint32_t c) {
  if (c < 0x80) return IsSmall(c) || IsCapital(c);
  switch (Category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}
bool IsOpener(uint32_t c) {
  if (c < 0x80)
    return c == '"' || c == '\'' || c == '(' || c == '[' || c == '{' || c == '*' || c == '_';
  if (c == 0xA1 || c == 0xBF) return true;  // the Spanish ¡ and ¿
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_PS || category == UTF8PROC_CATEGORY_PI ||
         category == UTF8PROC_CATEGORY_PF;
}
// Whether it may stand between a terminator and a space; '*', '_' and '`' are Markdown's.
bool IsCloser(uint32_t c) {
  if (c < 0x80)
    return c != 0 &&
           std::string_view("\"')]}*_`~").find(static_cast<char>(c)) != std::string_view::npos;
  const utf8proc_category_t category = Category(c);
  return category == UTF8PROC_CATEGORY_PE || category == UTF8PROC_CATEGORY_PF ||
         category == UTF8PROC_CATEGORY_PI || IsRaisedMark(c);
}
// A sentence goes on before these, as UAX #29's SContinue.
bool IsContinuation(uint32_t c) {
  if (c < 0x80)
    return c != 0 &&
           std::string_view(",;:-.!?%=+<>/&|").find(static_cast<char>(c)) != std::string_view::npos;
  return c == 0x2013 || c == 0x2014 || c == 0x2026 || c == 0x3001 || c == 0xFF0C || c == 0xFF1A ||
         c == 0xFF1B || c == 0x060C || c == 0x061B;
}

enum class Stop { kNone, kFullStop, kMark, kEllipsis, kWide };
// kWide needs no space behind it.
Stop StopAt(uint32_t c) {
  if (c == '.') return Stop::kFullStop;
  if (c == '!' || c == '?') return Stop::kMark;
  if (c < 0x37E) return Stop::kNone;
  if (c == 0x2026) return Stop::kEllipsis;
  if (c == 0x2024) return Stop::kFullStop;
  if (c > 0x3002 && c < 0xA4FF) return Stop::kNone;
  return IsSentenceTerminator(c) ? Stop::kWide : Stop::kNone;
}

bool IsArmenian(uint32_t c) { return c >= 0x531 && c <= 0x587; }
bool IsGreek(uint32_t c) { return (c >= 0x370 && c <= 0x3FF) || (c >= 0x1F00 && c <= 0x1FFF); }

// The stop at a place of a text and its bytes. Beside StopAt's there are three that only their
// neighbours tell: ";" behind a Greek letter asks, ":" behind an Armenian one is a full stop, and
// so are two Ethiopic word spaces.
struct StopHere {
  Stop stop = Stop::kNone;
  size_t length = 0;
};
StopHere StopIn(std::string_view text, size_t at) {
  constexpr uint32_t kEthiopicSpace = 0x1361;
  const Char c = At(text, at);
  // Armenian texts without its own stop end sentences with the colon, which looks alike.
  if (c.c == ':' && at > 0 && IsArmenian(At(text, Before(text, at)).c) &&
      text.find("։") == std::string_view::npos)
    return {Stop::kMark, 1};
  if (c.c == ';' && at > 0 && IsGreek(At(text, Before(text, at)).c)) return {Stop::kMark, 1};
  if (c.c == kEthiopicSpace && At(text, at + c.length).c == kEthiopicSpace) {
    return {Stop::kWide, 2 * c.length};
  }
  return {StopAt(c.c), c.length};
}

size_t SkipSpace(std::string_view text, size_t at) {
  for (Char next = At(text, at); next.length > 0 && IsWhiteSpace(next.c); next = At(text, at)) {
    at += next.length;
  }
  return at;
}

// The word that ends at `end`: back to white space, an opening bracket or quote, or a dash.
std::string_view WordBefore(std::string_view text, size_t begin, size_t end) {
  constexpr size_t kLongest = 40;
  size_t at = end;
  while (at > begin && end - at < kLongest) {
    const size_t previous = Before(text, at);
    const Char c = At(text, previous);
    if (IsWhiteSpace(c.c) || (IsOpener(c.c) && c.c != '\'') || c.c == 0x2013 || c.c == 0x2014 ||
        c.c == ',' || c.c == '/' || c.c == '>') {
      break;
    }
    at = previous;
  }
  return text.substr(at, end - at);
}
// The word at `at`: letters alone.
std::string_view WordAt(std::string_view text, size_t at) {
  size_t end = at;
  for (Char next = At(text, end); next.length > 0 && IsLetter(next.c); next = At(text, end)) {
    end += next.length;
    if (end - at > 40) break;
  }
  return text.substr(at, end - at);
}

// Runs over one paragraph.
class SentenceFinder {
 public:
  SentenceFinder(std::string_view text, std::vector<size_t>* ends)
      : text_(text),
        ends_(ends),
        has_thai_stops_(text.ends_with('.') && text.size() > 1 &&
                        IsThaiOrLao(At(text, Before(text, text.size() - 1)).c)) {}

  void Run() {
    while (at_ < text_.size()) {
      const auto byte = static_cast<unsigned char>(text_[at_]);
      if (byte < 0x80 && byte != '.' && byte != '!' && byte != '?' && byte != ' ' && byte != ';' &&
          byte != ':') {
        if (byte == '(') ++num_open_;
        if (byte == ')' && num_open_ > 0) --num_open_;
        ++at_;
        continue;
      }
      Step(At(text_, at_));
    }
    if (begin_ < text_.size()) ends_->push_back(text_.size());
  }

 private:
  void Step(Char c) {
    if (c.c == ' ') {
      StepSpace();
    } else if (IsCjk(c.c) && StepBracket(c)) {
      return;
    } else if (const Stop stop = StopIn(text_, at_).stop; stop != Stop::kNone) {
      StepStop(stop);
    } else {
      if (IsThaiOrLao(c.c)) {
        is_thai_ = true;
        if (IsLetter(c.c)) ++num_thai_;
      }
      at_ += c.length;
    }
  }

  void End(size_t at) {
    ends_->push_back(at);
    begin_ = at_ = at;
    num_thai_ = num_open_ = 0;
    is_thai_ = false;
  }

  // Thai: a space is a stop where both what stands before it and the run behind it are long.
  // Shorter runs are names, numbers and the words around them.
  void StepSpace() {
    constexpr size_t kLeastBefore = 20, kLeastAfter = 12;
    ++at_;
    if (!is_thai_ || num_thai_ < kLeastBefore || has_thai_stops_) return;
    const size_t next = SkipSpace(text_, at_);
    if (!IsThaiOrLao(At(text_, next).c) || EndsWithShortNumber(at_ - 1) ||
        ContinuesThai(text_.substr(begin_, at_ - 1 - begin_), text_.substr(next)))
      return;
    size_t num_letters = 0;
    for (size_t at = next; at < text_.size() && num_letters < kLeastAfter;) {
      const Char c = At(text_, at);
      if (IsWhiteSpace(c.c)) break;
      num_letters += IsThaiOrLao(c.c) && IsLetter(c.c);
      at += c.length;
    }
    if (num_letters >= kLeastAfter) End(at_);
  }

  // "บ้านเลขที่ 12": what the number counts or names stands around it; years have four digits.
  bool EndsWithShortNumber(size_t end) const {
    constexpr size_t kLongest = 3;
    size_t num_digits = 0;
    for (size_t at = end; at > begin_ && num_digits <= kLongest; ++num_digits) {
      at = Before(text_, at);
      if (Category(At(text_, at).c) != UTF8PROC_CATEGORY_ND) break;
    }
    return num_digits > 0 && num_digits <= kLongest;
  }

  // A CJK bracket is passed with all that it holds, if it closes soon. Returns whether it was one.
  bool StepBracket(Char open) {
    static constexpr struct {
      uint32_t open, close;
    } kPairs[] = {
        {0x300C, 0x300D}, {0x300E, 0x300F}, {0xFF08, 0xFF09}, {0x300A, 0x300B}, {0x3010, 0x3011}};
    constexpr size_t kFarthest = 400;
    const auto pair = std::find_if(std::begin(kPairs), std::end(kPairs),
                                   [&](const auto& p) { return p.open == open.c; });
    if (pair == std::end(kPairs) || at_ < no_bracket_before_) return false;
    size_t at = at_ + open.length, depth = 1;
    uint32_t last = 0;
    while (at < text_.size() && at - at_ < kFarthest) {
      const Char c = At(text_, at);
      depth += c.c == pair->open;
      depth -= c.c == pair->close;
      at += c.length;
      if (depth == 0) {
        const size_t opened = std::exchange(at_, at);
        const Char next = At(text_, at);
        // 「…。」と言った goes on; 「…。」 before another sentence does not.
        if (StopAt(last) == Stop::kWide && pair->open != 0xFF08 && !IsHiragana(next.c) &&
            !IsContinuation(next.c) && StopAt(next.c) == Stop::kNone && !IsCloser(next.c) &&
            (IsAnnouncedQuote(text_.substr(begin_, opened + open.length - begin_)) ||
             !ContinuesChineseQuote(text_.substr(at)))) {
          End(at);
        }
        return true;
      }
      last = c.c;
    }
    no_bracket_before_ = at;  // or a text of opening brackets would take long
    return false;
  }

  // At a stop: passes it, the stops behind it and what closes with them, and ends the sentence
  // there unless the text behind goes on with it. At the text's end it does nothing: Run ends the
  // last sentence.
  void StepStop(Stop stop) {
    const size_t first = at_;
    Stop last = stop;
    size_t num_stops = 0;
    while (true) {
      const StopHere next = StopIn(text_, at_);
      if (next.stop == Stop::kNone) break;
      last = next.stop;
      ++num_stops;
      at_ += next.length;
    }
    const size_t after_stops = at_;
    at_ = SkipClosers(last, at_);
    if (at_ >= text_.size()) return;
    const Char next = At(text_, at_);
    if (last == Stop::kWide) {
      const size_t after_closers = at_,
                   number = at_ += VerseNumberLength(text_.substr(first), text_.substr(at_));
      const Char after = At(text_, SkipSpace(text_, number));
      const bool is_quoted =
          at_ > after_stops &&
          (IsHiragana(after.c) ||
           (number == after_closers && ContinuesChineseQuote(text_.substr(at_)) &&
            !IsAnnouncedQuote(text_.substr(begin_, first - begin_))));
      const bool is_mark = At(text_, first).c == 0xFF0E &&  // "１．", which begins an item
                           IsListMark(text_.substr(begin_, first - begin_));
      if (!IsContinuation(after.c) && !is_quoted && !is_mark && !IsFullWidthNumber(first, after.c))
        End(at_);
      return;
    }
    if (const size_t behind = SkipFootnotes(first, at_); behind > at_) return End(behind);
    const bool has_space = IsWhiteSpace(next.c);
    if (!has_space) {
      const bool before_cjk = IsCjk(next.c) && !IsContinuation(next.c) && last != Stop::kEllipsis;
      if (before_cjk &&
          (last == Stop::kMark || (first > begin_ && IsCjk(At(text_, Before(text_, first)).c)))) {
        End(at_);
      }
      return;
    }
    const size_t next_text = SkipSpace(text_, at_);
    if (next_text >= text_.size()) return;
    if (num_open_ > 0 && ClosesSoon(at_)) return;
    const bool is_single = last == Stop::kFullStop && num_stops == 1;
    if (Continues(next_text) || (is_single && IsPartOfSentence(first, after_stops, next_text)))
      return;
    // “Where is it?” Maud asked.
    if (last == Stop::kMark && at_ > after_stops && TellsSpeaker(text_.substr(next_text))) return;
    End(at_);
  }

  // "They agree.11 12 The others": numbers of footnotes behind the stop of a word, which are no
  // version or file name: the word has small letters alone, and a sentence begins behind them.
  size_t SkipFootnotes(size_t stop, size_t at) const {
    constexpr size_t kLeastWord = 4, kMostDigits = 3;
    if (at != stop + 1 || !IsDigit(At(text_, at).c)) return at;
    const std::string_view word = WordBefore(text_, begin_, stop);
    const bool is_bracket = word.ends_with(')');  // "Brok (1987).1 The"
    if (word.size() < kLeastWord && !is_bracket) return at;
    for (size_t i = 0; i < word.size() && !is_bracket; i += At(word, i).length) {
      if (!IsSmall(At(word, i).c)) return at;
    }
    size_t end = at;
    while (IsDigit(At(text_, end).c)) {
      const size_t digits = end;
      while (IsDigit(At(text_, end).c)) ++end;
      if (end - digits > kMostDigits || At(text_, end).c != ' ') return at;
      ++end;
    }
    return BeginsSentences(WordAt(text_, end)) ? end : at;
  }

  // "(see Section 2. Rent)": a stop in brackets that close soon does not end the sentence around
  // it.
  bool ClosesSoon(size_t at) const {
    constexpr size_t kFarthest = 100;
    const size_t close = text_.substr(at, kFarthest).find_first_of("()");
    return close != std::string_view::npos && text_[at + close] == ')';
  }
  // ）and other brackets, quotes, footnotes such as [12], (12) or ², and the French » behind a
  // space.
  size_t SkipClosers(Stop stop, size_t at) const {
    while (at < text_.size()) {
      const Char c = At(text_, at);
      if (c.c == '[' || c.c == '(') {
        const size_t length = FootnoteLength(text_.substr(at));
        if (length == 0) return at;
        at += length;
        continue;
      }
      // “ and « open the next sentence where no space parts them.
      const bool opens = stop == Stop::kWide && (c.c == 0x201C || c.c == 0x2018 || c.c == 0xAB);
      const bool is_word_mark = stop == Stop::kWide && c.c == 0x1361;  // Ethiopic
      if ((IsCloser(c.c) && !opens) || is_word_mark) {
        at += c.length;
        continue;
      }
      if (IsWhiteSpace(c.c)) {
        const Char mark = At(text_, at + c.length);
        const Char after = At(text_, at + c.length + mark.length);
        if (mark.c == 0xBB &&
            (after.length == 0 || IsWhiteSpace(after.c) || IsContinuation(after.c))) {
          at += c.length + mark.length;
          continue;
        }
      }
      return at;
    }
    return at;
  }
  // ３．５ with U+FF0E.
  bool IsFullWidthNumber(size_t first, uint32_t next) const {
    const uint32_t stop = At(text_, first).c;
    return (stop == 0xFF0E || stop == 0xFF61) && Category(next) == UTF8PROC_CATEGORY_ND &&
           first > begin_ && Category(At(text_, Before(text_, first)).c) == UTF8PROC_CATEGORY_ND;
  }

  // Whether what follows the space cannot begin a sentence.
  bool Continues(size_t next) const {
    size_t at = next;
    Char c = At(text_, at);
    if (IsContinuation(c.c) && !StartsWithDash(at)) return true;
    if (c.c == ')' || c.c == ']' || c.c == '}') return true;  // "[ ! ]"
    while (c.length > 0 && IsOpener(c.c)) c = At(text_, at += c.length);
    return IsSmall(c.c) && !IsBracketedItem(next);
  }
  // "(b) The tenant", which begins an item of a list inside a paragraph; "(b) and" does not.
  bool IsBracketedItem(size_t at) const {
    constexpr size_t kLongest = 4;
    if (text_[at] != '(') return false;
    const size_t close = text_.substr(at + 1, kLongest + 1).find(')');
    if (close == std::string_view::npos) return false;
    const std::string_view mark = text_.substr(at + 1, close);
    const size_t behind = at + close + 2;
    return (mark.size() == 1 || IsRoman(mark)) && IsWhiteSpace(At(text_, behind).c) &&
           IsCapital(At(text_, SkipSpace(text_, behind)).c);
  }
  // "– Yes." begins speech or a list item; "- 5" and "-- " do not.
  bool StartsWithDash(size_t at) const {
    const Char dash = At(text_, at), space = At(text_, at + dash.length);
    return (dash.c == '-' || dash.c == 0x2013 || dash.c == 0x2014) && IsWhiteSpace(space.c) &&
           IsCapital(At(text_, at + dash.length + space.length).c);
  }

  // Whether the single full stop at `stop` belongs to a word or mark before it.
  bool IsPartOfSentence(size_t stop, size_t after, size_t next) const {
    if (IsListMark(text_.substr(begin_, stop - begin_))) return true;
    const std::string_view word = WordBefore(text_, begin_, stop);
    if (word.empty()) return false;
    const size_t next_word = SkipOpeners(next);
    const Char next_char = At(text_, next_word);
    const bool is_sign = next_char.c == 0xA7 || next_char.c == 0x2116;  // § and №
    const bool is_before_number = Category(next_char.c) == UTF8PROC_CATEGORY_ND || is_sign;
    const std::string_view begins = WordAt(text_, next_word);
    const bool has_own_stop = !begins.empty() && begins.size() == At(begins, 0).length &&
                              At(text_, next_word + begins.size()).c == '.';
    const bool starts = !has_own_stop && (BeginsSentences(begins) || begins == "I");
    if (IsThaiOrLao(At(word, Before(word, word.size())).c)) return !has_thai_stops_;
    if (IsNumber(word)) {
      if (is_sign || IsInDate(text_.substr(begin_, next - begin_), text_.substr(next))) return true;
      if (word.size() > 2 || is_before_number) return false;
      return IsOrdinalBetween(WordBefore(text_, begin_, TrimmedEnd(stop - word.size())), begins);
    }
    if (after != at_) return false;  // "(cf.) The": the closing mark ended it
    const std::string_view before = WordBefore(text_, begin_, TrimmedEnd(stop - word.size()));
    switch (StopAfterWord(word)) {
      case StopAfter::kNever:
        return true;
      case StopAfter::kNumber:
        if (is_before_number || IsRoman(begins)) return true;
        if (At(text_, next_word + begins.size()).c == '.' &&
            StopAfterWord(begins) == StopAfter::kNumber)
          return true;  // "Cad. No. 12"
        if (word.size() > At(word, 0).length) return false;
        break;  // "Edward L. Fox"
      case StopAfter::kTime:  // else initials: "A.M. Brok"
        if (!before.empty() && IsDigit(static_cast<unsigned char>(before.back())))
          return is_before_number || ContinuesTime(begins);
        return !starts;
      case StopAfter::kMayEnd:
        return !starts && !IsUnitOfNumber(word, before, next_char.c);
      case StopAfter::kEnds:
        break;
    }
    if (is_before_number && IsBeforeSmallerUnit(word, text_.substr(next_word))) return true;
    // "stk. 2", but "The box weighs 3 kg. 12 men": a unit behind a number.
    if (is_before_number && IsWithoutVowels(word) && !IsListMarkAt(next_word) &&
        (before.empty() || !IsDigit(static_cast<unsigned char>(before.back()))))
      return true;
    if (word.ends_with("str") && is_before_number) return true;  // "Bahnhofstr. 12"
    // "EE. UU.", the plurals of Spanish abbreviations.
    if (AreDoubled(word) && AreDoubled(begins) && At(text_, next_word + 2).c == '.') return true;
    if (AreInitials(word))
      return has_own_stop || (!starts && !IsUnitOfNumber(word, before, next_char.c) &&
                              !IsEndOfPhrase(word, before, is_before_number));
    return word.size() > 1 && IsRoman(word) && !starts &&
           IsCapital(static_cast<unsigned char>(word[0]));
  }
  // "1. " or "2) " begins an item of a list inside a paragraph.
  bool IsListMarkAt(size_t at) const {
    size_t end = at;
    while (IsDigit(At(text_, end).c) && end - at < 3) ++end;
    const uint32_t mark = At(text_, end).c;
    return end > at && (mark == '.' || mark == ')') && IsWhiteSpace(At(text_, end + 1).c);
  }
  // "25,2 м. Рост", "1962 م. هل": a short Greek, Cyrillic or Arabic word behind a number is a unit,
  // and no initial. Years ("1897 г. Шухов") and hours may have the rest of a sentence behind them.
  static bool IsUnitOfNumber(std::string_view word, std::string_view before, uint32_t next) {
    const auto lead = static_cast<unsigned char>(word[0]);
    if (before.empty() || lead < 0xCE || lead > 0xDB || IsSmall(next)) return false;
    if (Category(next) == UTF8PROC_CATEGORY_ND || word == "г" || word == "гг" || word == "р" ||
        before.find(':') != std::string_view::npos)
      return false;
    return Category(At(before, Before(before, before.size())).c) == UTF8PROC_CATEGORY_ND ||
           before == "кв." || before == "куб.";
  }
  // "than I." and "option b." are no initials; "Brok v. Lund" and "Lindner u. Brok" go on. Other
  // capitals alone count as initials.
  static bool IsEndOfPhrase(std::string_view word, std::string_view before, bool is_before_number) {
    if (word.size() != At(word, 0).length) return false;
    if (is_before_number) return false;
    const Char c = At(word, 0);
    if (before.ends_with('.') && AreInitials(before.substr(0, before.size() - 1)))
      return false;  // "d. h."
    if (c.c == 'I') {
      return !before.empty() && IsSmall(At(before, 0).c);
    }
    const bool links_names = c.c == 'u' && !before.empty() && IsCapital(At(before, 0).c);
    return IsSmall(c.c) && c.c < 0x80 && c.c != 'v' && !links_names;
  }
  size_t SkipOpeners(size_t at) const {
    for (Char c = At(text_, at); c.length > 0 && IsOpener(c.c); c = At(text_, at)) at += c.length;
    return at;
  }
  size_t TrimmedEnd(size_t end) const {
    while (end > begin_ && IsWhiteSpace(At(text_, Before(text_, end)).c)) end = Before(text_, end);
    return end;
  }

  const std::string_view text_;
  std::vector<size_t>* const ends_;
  const bool has_thai_stops_;  // full stops end sentences, and spaces do not
  size_t at_ = 0, begin_ = 0, no_bracket_before_ = 0, num_thai_ = 0, num_open_ = 0;
  bool is_thai_ = false;
};

}  // namespace

void AppendSentenceEnds(std::string_view paragraph, std::vector<size_t>* ends) {
  SentenceFinder(paragraph, ends).Run();
}

bool IsWithoutSpaces(uint32_t c) {
  return IsCjk(c) || IsThaiOrLao(c) || (c >= 0x1000 && c <= 0x109F) || (c >= 0x1780 && c <= 0x17FF);
}

TextStart StartOf(std::string_view text) {
  size_t at = 0;
  Char c = At(text, at);
  while (c.length > 0 && IsOpener(c.c)) c = At(text, at += c.length);
  if (IsSmall(c.c)) return TextStart::kSmallLetter;
  if (IsCapital(c.c)) return TextStart::kCapital;
  if (IsLetter(c.c)) return TextStart::kOtherLetter;
  return Category(c.c) == UTF8PROC_CATEGORY_ND ? TextStart::kDigit : TextStart::kOther;
}

bool EndsAsQuestion(std::string_view sentence) {
  constexpr uint32_t kArmenian = 0x55E;
  // Greek, Arabic, Ethiopic, Coptic, Vai, Bamum, doubled and joined, small, and wide ones.
  constexpr uint32_t kMarks[] = {'?',    0x37E,  0x61F,  0x1367, 0x203D, 0x2047, 0x2048,
                                 0x2049, 0x2CFA, 0x2CFB, 0xA60F, 0xA6F7, 0xFE56, 0xFF1F};
  for (size_t at = sentence.size(); at > 0;) {
    at = Before(sentence, at);
    const uint32_t c = At(sentence, at).c;
    if (std::ranges::find(kMarks, c) != std::end(kMarks)) return true;
    if (c == ';') return at > 0 && IsGreek(At(sentence, Before(sentence, at)).c);
    if (c != '!' && !IsCloser(c) && !IsWhiteSpace(c)) break;
  }
  for (size_t at = 0; at < sentence.size();) {
    const Char c = At(sentence, at);
    if (c.c == kArmenian) return true;
    at += std::max<size_t>(c.length, 1);
  }
  return false;
}

TextEnd EndOf(std::string_view text) {
  constexpr size_t kEnough = 80;  // the last words tell
  size_t begin = text.size() > kEnough ? text.size() - kEnough : 0;
  while (begin > 0 && begin < text.size() &&
         (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80)
    ++begin;
  text.remove_prefix(begin);
  if (text.empty()) return TextEnd::kUnknown;
  const size_t last_at = Before(text, text.size());
  const Char last = At(text, last_at);
  const bool ends_in_spaces =  // two Ethiopic ones, which are a stop
      last_at >= 3 && StopIn(text, last_at - 3).length == 6;
  if (ends_in_spaces || StopIn(text, last_at).stop != Stop::kNone || IsCloser(last.c)) {
    // If a name behind the stop would continue the sentence, the stop is an abbreviation's.
    std::vector<size_t> ends;
    AppendSentenceEnds(std::string(text) + " Xax.", &ends);
    if (std::find(ends.begin(), ends.end(), text.size()) != ends.end()) return TextEnd::kClosed;
  }
  if (StopAt(last.c) == Stop::kFullStop && !IsThaiOrLao(last.c)) return TextEnd::kOpen;
  if (last.c == ',' || last.c == ';' || last.c == '-' || last.c == '/' || last.c == '(' ||
      last.c == '&' || last.c == 0x2013 || last.c == 0x2014 || last.c == 0x3001 ||
      last.c == 0xFF0C || last.c == 0x060C || last.c == 0xAD) {
    return TextEnd::kOpen;
  }
  return NeedsNextWord(WordBefore(text, 0, text.size())) ? TextEnd::kOpen : TextEnd::kUnknown;
}

}  // namespace lectern
