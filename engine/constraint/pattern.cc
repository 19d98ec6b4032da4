#include "engine/constraint/pattern.h"

#include <algorithm>
#include <optional>
#include <string>

#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

constexpr size_t kMostNesting = 64;
constexpr uint32_t kMostCount = 10000;

// A part of an expression.
struct Part {
  enum class Kind { kChars, kSequence, kChoice, kRepeat, kBegin, kEnd, kAhead, kNotAhead };
  Kind kind = Kind::kSequence;
  CharSet chars = {};
  std::vector<Part> parts = {};  // of a sequence or choice; of kRepeat and look-ahead the one
  uint32_t least = 0;
  std::optional<uint32_t> most = {};  // of kRepeat; nothing: without an end
};
using Kind = Part::Kind;

bool IsLookAhead(const Part& part) {
  return part.kind == Kind::kAhead || part.kind == Kind::kNotAhead;
}

// Where ECMAScript and Python read a class differently, the narrow sets have the characters that
// both find in it, the wide ones all that either does. Neither agrees with ASCII beyond it.
CharSet WithMore(CharSet set, bool is_wide) {
  if (is_wide) set.emplace_back(0x80, 0x10FFFF);
  return set;
}
CharSet Digits(bool is_wide) { return WithMore({{'0', '9'}}, is_wide); }
CharSet WordChars(bool is_wide) {
  return WithMore({{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, is_wide);
}
CharSet Spaces(bool is_wide) {
  // Python has the four separators 0x1C to 0x1F, too.
  return is_wide ? CharSet{{'\t', '\r'}, {0x1C, ' '}, {0x80, 0x10FFFF}}
                 : CharSet{{'\t', '\r'}, {' ', ' '}};
}
// The narrow opposites have ASCII's characters and, of others, letters that are neither digits nor
// white space anywhere; \W has none, because Python counts them as \w.
CharSet Opposite(const CharSet& wide, const CharSet& narrow, bool has_letters, bool is_wide) {
  if (is_wide) return Complement(narrow);
  CharSet chars = Intersection(Complement(wide), {{0, 0x7E}});
  if (has_letters) chars.insert(chars.end(), {{0xC0, 0x24F}, {0x4E00, 0x9FA5}});
  return Normalized(std::move(chars));
}
CharSet AnyButNewline() { return Complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}); }

class Parser {
 public:
  Parser(std::string_view text, bool is_wide) : text_(text), is_wide_(is_wide) {}

  Result<Part> Parse() {
    LECTERN_ASSIGN(Part choice, Choice());
    if (!IsAtEnd()) return Wrong("an unmatched )");
    return choice;
  }

 private:
  bool IsAtEnd() const { return at_ >= text_.size(); }
  char Peek() const { return IsAtEnd() ? '\0' : text_[at_]; }
  bool Take(char c) {
    if (IsAtEnd() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  uint32_t TakeChar() {
    size_t length = 0;
    const uint32_t c = DecodeChar(text_, at_, &length);
    at_ += length;
    return c;
  }
  static Status Wrong(const std::string& found) {
    return {Code::kInvalidArgument, "cannot be kept: it has " + found};
  }

  Result<Part> Choice() {
    if (++depth_ > kMostNesting) {
      return Status(Code::kLimitExceeded, "has more than 64 groups inside each other");
    }
    Part choice = {.kind = Kind::kChoice};
    do {
      Part sequence;
      while (!IsAtEnd() && Peek() != '|' && Peek() != ')') {
        LECTERN_ASSIGN(Part part, Counted());
        sequence.parts.push_back(std::move(part));
      }
      choice.parts.push_back(std::move(sequence));
    } while (Take('|'));
    --depth_;
    return choice;
  }

  // One part with the count behind it.
  Result<Part> Counted() {
    LECTERN_ASSIGN(Part part, One());
    while (!IsAtEnd()) {
      Part repeat = {.kind = Kind::kRepeat};
      const size_t begin = at_;
      if (Take('*')) {
      } else if (Take('+')) {
        repeat.least = 1;
      } else if (Take('?')) {
        repeat.most = 1;
      } else if (Peek() != '{' || !Braces(repeat)) {
        at_ = begin;
        break;
      }
      if (part.kind == Kind::kBegin || part.kind == Kind::kEnd) return Wrong("a counted anchor");
      if (IsLookAhead(part)) return Wrong("a counted look-ahead");
      if (repeat.least > kMostCount || repeat.most.value_or(0) > kMostCount) {
        return Wrong("a count above 10,000");
      }
      if (repeat.most && *repeat.most < repeat.least)
        return Wrong(
            "a count that ends below its "
            "beginning");
      Take('?');  // lazy: the texts are the same
      if (Peek() == '+') return Wrong("a possessive count");
      repeat.parts.push_back(std::move(part));
      part = std::move(repeat);
    }
    return part;
  }

  // {3}, {3,} or {3,5}; else the brace is a character.
  bool Braces(Part& repeat) {
    ++at_;
    const auto number = [&]() -> std::optional<uint32_t> {
      const size_t begin = at_;
      uint32_t value = 0;
      while (Peek() >= '0' && Peek() <= '9') {
        value = std::min<uint32_t>(value * 10 + static_cast<uint32_t>(Peek() - '0'), 100000);
        ++at_;
      }
      return at_ > begin ? std::optional(value) : std::nullopt;
    };
    const auto least = number();
    if (!least) return false;
    repeat.least = *least, repeat.most = *least;
    if (Take(',')) repeat.most = number();
    return Take('}');
  }

  Result<Part> One() {
    if (Take('(')) return Group();
    if (Take('[')) return Class();
    if (Take('.')) {
      // Python's has all but \n.
      return Part{.kind = Kind::kChars,
                  .chars = is_wide_ ? Complement({{'\n', '\n'}}) : AnyButNewline()};
    }
    if (Take('^')) return Part{.kind = Kind::kBegin};
    // Python's $ stands before a newline at the end, too.
    if (Take('$')) {
      return Part{.kind = Kind::kEnd, .chars = is_wide_ ? CharSet{{'\n', '\n'}} : CharSet()};
    }
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') return Wrong("a count of nothing");
    if (Take('\\')) {
      LECTERN_ASSIGN(CharSet chars, Escape(/*is_in_class=*/false));
      return Part{.kind = Kind::kChars, .chars = std::move(chars)};
    }
    const uint32_t c = TakeChar();
    return Part{.kind = Kind::kChars, .chars = {{c, c}}};
  }

  Result<Part> Group() {
    if (text_.substr(at_).starts_with("?=") || text_.substr(at_).starts_with("?!")) {
      Part ahead = {.kind = text_[at_ + 1] == '=' ? Kind::kAhead : Kind::kNotAhead};
      at_ += 2;
      const bool is_opposite = ahead.kind == Kind::kNotAhead;
      is_wide_ ^= is_opposite;
      LECTERN_ASSIGN(Part inside, Choice());
      is_wide_ ^= is_opposite;
      if (!Take(')')) return Wrong("an unmatched (");
      ahead.parts.push_back(std::move(inside));
      return ahead;
    }
    if (Take('?')) {
      const bool is_named = Peek() == '<' || text_.substr(at_).starts_with("P<");
      if (is_named) {
        at_ = text_.find('<', at_) + 1;
        if (Peek() == '=' || Peek() == '!') return Wrong("look-behind");
        const size_t end = text_.find('>', at_);
        if (end == text_.npos) return Wrong("a group whose name has no end");
        at_ = end + 1;
      } else if (!Take(':')) {
        return Wrong("a group of an unknown kind");
      }
    }
    LECTERN_ASSIGN(Part inside, Choice());
    if (!Take(')')) return Wrong("an unmatched (");
    return inside;
  }

  // Hexadecimal digits behind \x or \u, so many.
  std::optional<uint32_t> Hex(size_t count) {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const char c = Peek();
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      value = value * 16 + static_cast<uint32_t>(digit);
      ++at_;
    }
    return value;
  }

  // Behind a backslash.
  Result<CharSet> Escape(bool is_in_class) {
    if (IsAtEnd()) return Wrong("a backslash at its end");
    const uint32_t c = TakeChar();
    const auto one = [](uint32_t only) { return CharSet{{only, only}}; };
    switch (c) {
      case 'd':
        return Digits(is_wide_);
      case 'D':
        return Opposite(Digits(true), Digits(false), true, is_wide_);
      case 'w':
        return WordChars(is_wide_);
      case 'W':
        return Opposite(WordChars(true), WordChars(false), false, is_wide_);
      case 's':
        return Spaces(is_wide_);
      case 'S':
        return Opposite(Spaces(true), Spaces(false), true, is_wide_);
      case 'n':
        return one('\n');
      case 'r':
        return one('\r');
      case 't':
        return one('\t');
      case 'f':
        return one('\f');
      case 'v':
        return one('\v');
      case 'x':
      case 'u': {
        const auto value = Hex(c == 'x' ? 2 : 4);
        if (!value) return Wrong("\\x or \\u without its digits");
        return one(*value);
      }
      case 'b':
        if (is_in_class) return one('\b');
        return Wrong("\\b");
      default:
        break;
    }
    if (c >= '1' && c <= '9') return Wrong("a back reference");
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '0';
    if (is_letter) return Wrong(std::string("\\") + static_cast<char>(c));
    return one(c);
  }

  Result<Part> Class() {
    // The opposite of a wide set is narrow.
    const bool is_opposite = Take('^');
    is_wide_ ^= is_opposite;
    CharSet chars;
    for (bool is_first = true; is_first || Peek() != ']'; is_first = false) {
      if (IsAtEnd()) return Wrong("an unmatched [");
      if (is_first && Peek() == ']') break;
      LECTERN_ASSIGN(CharSet low, ClassChar());
      const bool is_range = Peek() == '-' && at_ + 1 < text_.size() && text_[at_ + 1] != ']';
      if (!is_range) {
        chars.insert(chars.end(), low.begin(), low.end());
        continue;
      }
      ++at_;
      LECTERN_ASSIGN(const CharSet high, ClassChar());
      const bool are_chars = low.size() == 1 && low[0].first == low[0].second && high.size() == 1 &&
                             high[0].first == high[0].second && low[0].first <= high[0].first;
      if (!are_chars) return Wrong("a range of characters without order");
      chars.emplace_back(low[0].first, high[0].first);
    }
    ++at_;
    is_wide_ ^= is_opposite;
    chars = Normalized(std::move(chars));
    return Part{.kind = Kind::kChars, .chars = is_opposite ? Complement(chars) : chars};
  }

  Result<CharSet> ClassChar() {
    if (Take('\\')) return Escape(/*is_in_class=*/true);
    const uint32_t c = TakeChar();
    return CharSet{{c, c}};
  }

  const std::string_view text_;
  size_t at_ = 0, depth_ = 0;
  bool is_wide_;
};

// Turns parts into states, from the end to the beginning.
class Maker {
 public:
  CharAutomaton automaton;
  bool is_full() const { return automaton.states.size() > kMostPatternStates; }

  uint32_t Make(const Part& part, uint32_t next) {
    if (is_full()) return 0;
    switch (part.kind) {
      case Kind::kChars:
        return automaton.Add({.edges = {{Intersection(part.chars, StringChars()), next}}});
      case Kind::kSequence:
        for (size_t i = part.parts.size(); i > 0; --i) next = Make(part.parts[i - 1], next);
        return next;
      case Kind::kChoice: {
        CharAutomaton::State choice;
        for (const Part& one : part.parts) choice.empty.push_back(Make(one, next));
        return choice.empty.size() == 1 ? choice.empty[0] : automaton.Add(std::move(choice));
      }
      case Kind::kRepeat:
        return Repeat(part, next);
      case Kind::kBegin:
      case Kind::kEnd:
      case Kind::kAhead:
      case Kind::kNotAhead:
        break;  // IsPlain has refused them
    }
    return 0;
  }
  // A loop over all characters.
  uint32_t Any(uint32_t next) {
    const uint32_t loop = automaton.Add({.empty = {next}, .room = kAnyRoom});
    automaton.states[loop].edges = {{StringChars(), loop}};
    return loop;
  }

 private:
  uint32_t Repeat(const Part& part, uint32_t next) {
    const Part& inside = part.parts[0];
    if (part.most) {
      // Each further one may be followed by the end, so that one state is open at a time.
      const uint32_t end = next;
      for (uint32_t i = part.least; i < *part.most && !is_full(); ++i) {
        const uint32_t once = Make(inside, next);
        next = automaton.Add({.empty = {once, end}});
      }
    } else {
      const bool is_any = inside.kind == Kind::kChars &&
                          Intersection(AnyButNewline(), inside.chars) == AnyButNewline();
      const uint32_t loop = automaton.Add({.empty = {next}, .room = is_any ? kAnyRoom : 0});
      if (inside.kind == Kind::kChars) {
        automaton.states[loop].edges = {{Intersection(inside.chars, StringChars()), loop}};
      } else {
        const uint32_t once = Make(inside, loop);
        automaton.states[loop].empty.push_back(once);
      }
      next = loop;
    }
    for (uint32_t i = 0; i < part.least && !is_full(); ++i) next = Make(inside, next);
    return next;
  }
};

// Whether a part has neither an anchor nor look-ahead.
bool IsPlain(const Part& part) {
  if (part.kind == Kind::kBegin || part.kind == Kind::kEnd || IsLookAhead(part)) return false;
  return std::ranges::all_of(part.parts, IsPlain);
}

// Makes the automaton of a whole pattern: of each of its alternatives, with all that may stand
// before and behind it.
class Search {
 public:
  Result<CharAutomaton> Make(const Part& part, bool is_at_begin) {
    end_ = maker_.automaton.Add({.empty = {}, .accepts = true});
    LECTERN_RETURN_IF_ERROR(Add(part, is_at_begin));
    if (maker_.is_full()) return TooLarge();
    CharAutomaton all = std::move(maker_.automaton);
    all.begin = all.Add({.empty = std::move(begins_)});
    for (const CharAutomaton& other : others_) {
      all = Union(all, other);
      if (all.states.size() > kMostPatternStates) return TooLarge();
    }
    return all;
  }

 private:
  static Status TooLarge() {
    return {Code::kLimitExceeded, "is too large: its counts make more than " +
                                      std::to_string(kMostPatternStates) + " states"};
  }

  static Status Wide() {
    return {Code::kInvalidArgument, "cannot be kept: its look-ahead needs too many states"};
  }

  Status Add(const Part& part, bool is_at_begin) {
    if (part.kind == Kind::kChoice) {
      for (const Part& one : part.parts) LECTERN_RETURN_IF_ERROR(Add(one, is_at_begin));
      return {};
    }
    if (part.kind == Kind::kSequence && part.parts.size() == 1 &&
        part.parts[0].kind == Kind::kChoice) {
      return Add(part.parts[0], is_at_begin);
    }
    Part rest = part;
    std::vector<Part>& parts = rest.parts;
    std::vector<Part> aheads;
    bool is_at_end = false, has_newline = false;
    while (!parts.empty() && (parts.front().kind == Kind::kBegin || IsLookAhead(parts.front()))) {
      is_at_begin |= parts.front().kind == Kind::kBegin;
      if (IsLookAhead(parts.front())) aheads.push_back(std::move(parts.front()));
      parts.erase(parts.begin());
    }
    if (!aheads.empty()) {
      // Look-ahead at the beginning of the text is one more condition for all of it.
      if (!is_at_begin) {
        return {Code::kInvalidArgument, "cannot be kept: it has look-ahead behind its beginning"};
      }
      return AddWithAheads(std::move(rest), aheads);
    }
    while (!parts.empty() && parts.back().kind == Kind::kEnd) {
      has_newline |= !parts.back().chars.empty();
      parts.pop_back();
      is_at_end = true;
    }
    if (!IsPlain(rest)) {
      return {Code::kInvalidArgument, "cannot be kept: it has an anchor or look-ahead inside"};
    }
    uint32_t next = is_at_end ? end_ : maker_.Any(end_);
    if (has_newline) {
      next = maker_.automaton.Add({.edges = {{{{'\n', '\n'}}, next}}, .empty = {next}});
    }
    next = maker_.Make(rest, next);
    begins_.push_back(is_at_begin ? next : maker_.Any(next));
    return {};
  }

  Status AddWithAheads(Part rest, const std::vector<Part>& aheads) {
    LECTERN_ASSIGN(CharAutomaton all, Search().Make(rest, true));
    for (const Part& ahead : aheads) {
      LECTERN_ASSIGN(CharAutomaton one, Search().Make(ahead.parts[0], true));
      if (ahead.kind == Kind::kNotAhead) {
        auto opposite = Complement(one, kMostOppositeStates);
        if (!opposite) return Wide();
        one = *std::move(opposite);
      }
      auto both = Intersection(all, one, kMostPatternStates);
      if (!both) return Wide();
      all = *std::move(both);
    }
    others_.push_back(std::move(all));
    return {};
  }

  Maker maker_;
  uint32_t end_ = 0;
  std::vector<uint32_t> begins_;
  std::vector<CharAutomaton> others_;
};

}  // namespace

Result<CharAutomaton> ParsePattern(std::string_view pattern, bool is_wide) {
  LECTERN_ASSIGN(const Part part, Parser(pattern, is_wide).Parse());
  return Search().Make(part, false);
}

}  // namespace lectern
