#include "engine/constraint/pattern.h"

#include <memory>
#include <optional>
#include <string>

#include "engine/model/tokenizer/unicode_classes.h"

namespace lectern {
namespace {

constexpr size_t kMostNesting = 64;
constexpr uint32_t kMostCount = 10000;

// A part of an expression.
struct Part {
  enum class Kind { kChars, kSequence, kChoice, kRepeat, kBegin, kEnd };
  Kind kind = Kind::kSequence;
  CharSet chars = {};
  std::vector<Part> parts = {};  // of a sequence or choice; of kRepeat the one
  uint32_t least = 0;
  std::optional<uint32_t> most = {};  // of kRepeat; nothing: without an end
};
using Kind = Part::Kind;

CharSet Digits() { return {{'0', '9'}}; }
CharSet WordChars() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CharSet Spaces() { return {{'\t', '\r'}, {' ', ' '}}; }
// The opposites have ASCII's characters and, of others, letters that are neither digits nor white
// space anywhere; \W has none, because Python counts them as \w.
CharSet Opposite(const CharSet& of, bool has_letters) {
  CharSet chars = Intersection(Complement(of), {{0, 0x7E}});
  if (has_letters) chars.insert(chars.end(), {{0xC0, 0x24F}, {0x4E00, 0x9FA5}});
  return chars;
}
CharSet AnyButNewline() { return Complement({{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}); }

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

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
    if (Take('.')) return Part{.kind = Kind::kChars, .chars = AnyButNewline()};
    if (Take('^')) return Part{.kind = Kind::kBegin};
    if (Take('$')) return Part{.kind = Kind::kEnd};
    if (Peek() == '*' || Peek() == '+' || Peek() == '?') return Wrong("a count of nothing");
    if (Take('\\')) {
      LECTERN_ASSIGN(CharSet chars, Escape(/*is_in_class=*/false));
      return Part{.kind = Kind::kChars, .chars = std::move(chars)};
    }
    const uint32_t c = TakeChar();
    return Part{.kind = Kind::kChars, .chars = {{c, c}}};
  }

  Result<Part> Group() {
    if (Take('?')) {
      const bool is_named = Peek() == '<' || text_.substr(at_).starts_with("P<");
      if (is_named) {
        at_ = text_.find('<', at_) + 1;
        if (Peek() == '=' || Peek() == '!') return Wrong("look-behind");
        const size_t end = text_.find('>', at_);
        if (end == text_.npos) return Wrong("a group whose name has no end");
        at_ = end + 1;
      } else if (!Take(':')) {
        return Wrong(Peek() == '=' || Peek() == '!' ? "look-ahead" : "a group of an unknown kind");
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
        return Digits();
      case 'D':
        return Opposite(Digits(), true);
      case 'w':
        return WordChars();
      case 'W':
        return Opposite(WordChars(), false);
      case 's':
        return Spaces();
      case 'S':
        return Opposite(Spaces(), true);
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
    const bool is_opposite = Take('^');
    has_ascii_class_ = has_opposite_ = false;
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
    // The opposites leave characters out, which their opposite must not have.
    if (is_opposite && has_opposite_) return Wrong("\\D, \\W or \\S in a class that begins with ^");
    chars = Normalized(std::move(chars));
    return Part{.kind = Kind::kChars, .chars = is_opposite ? Opposite(chars) : chars};
  }

  // A class with \d, \w or \s in it is ASCII's, so its opposite leaves out what Unicode adds.
  CharSet Opposite(const CharSet& chars) const {
    return has_ascii_class_ ? lectern::Opposite(chars, false) : Complement(chars);
  }
  static CharSet Opposite(const CharSet& chars, bool has_letters) {
    return lectern::Opposite(chars, has_letters);
  }

  Result<CharSet> ClassChar() {
    if (Take('\\')) {
      const char kind = Peek();
      has_ascii_class_ |= kind == 'd' || kind == 'w' || kind == 's';
      has_opposite_ |= kind == 'D' || kind == 'W' || kind == 'S';
      return Escape(/*is_in_class=*/true);
    }
    const uint32_t c = TakeChar();
    return CharSet{{c, c}};
  }

  const std::string_view text_;
  size_t at_ = 0, depth_ = 0;
  bool has_ascii_class_ = false, has_opposite_ = false;  // the class that is read
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

// Whether a part has no anchor.
bool IsPlain(const Part& part) {
  if (part.kind == Kind::kBegin || part.kind == Kind::kEnd) return false;
  for (const Part& one : part.parts) {
    if (!IsPlain(one)) return false;
  }
  return true;
}

// Makes the alternatives of a whole pattern, each with all that may stand before and behind it.
// False: an anchor stands inside.
bool MakeSearch(const Part& part, uint32_t end, Maker& maker, std::vector<uint32_t>& begins) {
  if (part.kind == Kind::kChoice) {
    for (const Part& one : part.parts) {
      if (!MakeSearch(one, end, maker, begins)) return false;
    }
    return true;
  }
  if (part.kind == Kind::kSequence && part.parts.size() == 1 &&
      part.parts[0].kind == Kind::kChoice) {
    return MakeSearch(part.parts[0], end, maker, begins);
  }
  Part rest = part;
  std::vector<Part>& parts = rest.parts;
  bool is_at_begin = false, is_at_end = false;
  while (!parts.empty() && parts.front().kind == Kind::kBegin) {
    parts.erase(parts.begin());
    is_at_begin = true;
  }
  while (!parts.empty() && parts.back().kind == Kind::kEnd) {
    parts.pop_back();
    is_at_end = true;
  }
  if (!IsPlain(rest)) return false;
  uint32_t next = is_at_end ? end : maker.Any(end);
  next = maker.Make(rest, next);
  begins.push_back(is_at_begin ? next : maker.Any(next));
  return true;
}

}  // namespace

Result<CharAutomaton> ParsePattern(std::string_view pattern) {
  LECTERN_ASSIGN(const Part part, Parser(pattern).Parse());
  Maker maker;
  const uint32_t end = maker.automaton.Add({.empty = {}, .accepts = true});
  std::vector<uint32_t> begins;
  if (!MakeSearch(part, end, maker, begins)) {
    return Status(Code::kInvalidArgument, "cannot be kept: it has an anchor inside");
  }
  if (maker.is_full()) {
    return Status(Code::kLimitExceeded, "is too large: its counts make more than " +
                                            std::to_string(kMostPatternStates) + " states");
  }
  maker.automaton.begin = maker.automaton.Add({.empty = std::move(begins)});
  return std::move(maker.automaton);
}

}  // namespace lectern
