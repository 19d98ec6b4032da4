// The lexer works on the text from left to right in two modes: Root (text up to the next tag) and
// Code (the tokens inside a tag). The rules for white space are those of jinja2/lexer.py, where
// they are regular expressions: a tag on a line of its own leaves no trace of the line.
#include "engine/model/template/jinja_lexer.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/model/template/jinja_unicode.h"

namespace lectern::jinja {
namespace {

bool IsDigitByte(char c) { return c >= '0' && c <= '9'; }

// The source with "\n" for every line end. One newline at the very end is dropped, as
// keep_trailing_newline is off.
std::string WithPlainNewlines(std::string_view source) {
  std::string plain;
  plain.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      plain += source[i];
      continue;
    }
    plain += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (plain.ends_with('\n')) plain.pop_back();
  return plain;
}

// One run over a source.
class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(WithPlainNewlines(source)) {}

  Result<std::vector<Token>> Run() {
    while (status_.ok() && position_ < source_.size()) Root();
    if (!status_.ok()) return std::move(status_);
    Add(Token::Kind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(position_); }
  // Whether the rest begins with this text.
  bool At(std::string_view text) const { return Rest().starts_with(text); }

  void Fail(std::string_view message) { status_ = MalformedAt(line_, message); }

  Token& Add(Token::Kind kind, std::string_view text) {
    tokens_.push_back({kind, line_, std::string(text)});
    return tokens_.back();
  }

  // Goes on behind `size` bytes, and notes lines. The bytes are one unit (one match of jinja2's
  // regular expression): only at its end is it known whether the next unit begins a line.
  void Pass(size_t size) {
    const std::string_view passed = Rest().substr(0, size);
    line_ += static_cast<uint32_t>(std::count(passed.begin(), passed.end(), '\n'));
    if (size > 0) line_starting_ = passed.back() == '\n';
    position_ += size;
  }
  void PassSpace() { Pass(LeadingSpace(Rest())); }

  // Adds the text before a tag, less white space that the tag takes, and passes text and tag's
  // opening. `sign`: the tag's '-' takes all white space before it, '+' none; without a sign a
  // block or comment takes the spaces before it if they are all of its line (lstrip_blocks).
  // `opening`: bytes of the opening.
  void AddData(std::string_view text, char sign, bool is_variable, size_t opening) {
    const size_t size = text.size();
    if (sign == '-') {
      text = WithoutTrailingSpace(text);
    } else if (sign != '+' && !is_variable) {
      const size_t newline = text.rfind('\n');
      const size_t start = newline == std::string_view::npos ? 0 : newline + 1;
      if (start > 0 || line_starting_) {
        const std::string_view indent = text.substr(start);
        if (LeadingSpace(indent) == indent.size()) text = text.substr(0, start);
      }
    }
    if (!text.empty()) Add(Token::Kind::kData, text);
    Pass(size);
    Pass(opening);
  }

  // '-' or '+' at the front of the text, else 0.
  static char SignAt(std::string_view text) {
    return !text.empty() && (text[0] == '-' || text[0] == '+') ? text[0] : '\0';
  }

  // Returns the bytes of the tag `name` (raw or endraw) that `text` begins with, "{%- raw -%}",
  // with the white space behind it that it takes; 0: there is no such tag.
  static size_t RawTag(std::string_view text, std::string_view name) {
    if (!text.starts_with("{%")) return 0;
    size_t at = 2 + (SignAt(text.substr(2)) != 0);
    at += LeadingSpace(text.substr(at));
    if (!text.substr(at).starts_with(name)) return 0;
    at += name.size();
    at += LeadingSpace(text.substr(at));
    const std::string_view end = text.substr(at);
    if (end.starts_with("-%}")) return at + 3 + LeadingSpace(end.substr(3));
    if (name == "endraw" && end.starts_with("+%}")) return at + 3;
    if (!end.starts_with("%}")) return 0;
    return at + 2 + (name == "endraw" && end.substr(2).starts_with('\n'));
  }

  // Reads the text up to the next tag, and the tag. A '{' without '%', '{' or '#' behind it is
  // text.
  void Root() {
    const std::string_view rest = Rest();
    size_t tag = 0;
    for (;; ++tag) {
      tag = rest.find('{', tag);
      if (tag == std::string_view::npos || tag + 1 >= rest.size()) {
        Add(Token::Kind::kData, rest);
        Pass(rest.size());
        return;
      }
      const char next = rest[tag + 1];
      if (next == '%' || next == '{' || next == '#') break;
    }
    const std::string_view text = rest.substr(0, tag), opening = rest.substr(tag);
    const char sign = SignAt(opening.substr(2));
    if (const size_t raw = RawTag(opening, "raw"); raw > 0) {
      AddData(text, sign, false, raw);
      Raw();
      return;
    }
    AddData(text, sign, opening[1] == '{', 2 + (sign != 0));
    if (opening[1] == '#') {
      Comment();
    } else {
      Code(/*is_block=*/opening[1] == '%');
    }
  }

  // Reads the text of a raw block, in which tags mean nothing.
  void Raw() {
    const std::string_view rest = Rest();
    for (size_t at = 0; (at = rest.find("{%", at)) != std::string_view::npos; ++at) {
      const size_t end = RawTag(rest.substr(at), "endraw");
      if (end == 0) continue;
      AddData(rest.substr(0, at), SignAt(rest.substr(at + 2)), false, end);
      return;
    }
    if (!rest.empty()) Fail("a raw block has no end");
  }

  // Passes a comment.
  void Comment() {
    const std::string_view rest = Rest();
    const size_t end = rest.find("#}");
    if (end == std::string_view::npos) {
      if (!rest.empty()) Fail("a comment has no end");  // as jinja2: nothing is left out
      return;
    }
    const char sign = end > 0 ? rest[end - 1] : '\0';
    Pass(end);
    EndTag(sign == '-', sign != '+');
  }

  // Passes the two characters of a tag's end and the white space that it takes: all of it behind
  // '-', else one newline behind a block or comment (trim_blocks).
  void EndTag(bool takes_space, bool takes_newline) {
    size_t size = 2;
    if (takes_space) {
      size += LeadingSpace(Rest().substr(2));
    } else if (takes_newline && Rest().substr(2).starts_with('\n')) {
      ++size;
    }
    Pass(size);
  }

  // Ends a tag if its end is here. Inside brackets "}}" closes two dicts and no tag.
  bool AtCodeEnd(bool is_block) {
    if (!open_.empty()) return false;
    const std::string_view close = is_block ? "%}" : "}}";
    const bool is_minus = At(is_block ? "-%}" : "-}}"), is_plus = is_block && At("+%}");
    if (!is_minus && !is_plus && !At(close)) return false;
    Add(is_block ? Token::Kind::kBlockEnd : Token::Kind::kVariableEnd, close);
    if (is_minus || is_plus) Pass(1);
    EndTag(is_minus, is_block && !is_plus);
    return true;
  }

  // Reads the tokens of a tag.
  void Code(bool is_block) {
    Add(is_block ? Token::Kind::kBlockBegin : Token::Kind::kVariableBegin, "");
    while (status_.ok() && !AtCodeEnd(is_block)) {
      if (position_ >= source_.size()) {
        // The parser says what it misses.
        return;
      }
      if (LeadingSpace(Rest()) > 0) {
        PassSpace();
      } else if (IsDigitByte(Rest()[0])) {
        Number();
      } else if (Rest()[0] == '"' || Rest()[0] == '\'') {
        String();
      } else if (!Name()) {
        Operator();
      }
    }
  }

  // Returns the end of the digits, with single '_' between them, from `at` on.
  size_t Digits(size_t at) const {
    const std::string_view text = source_;
    size_t end = at;
    while (end < text.size() && IsDigitByte(text[end])) {
      ++end;
      if (end + 1 < text.size() && text[end] == '_' && IsDigitByte(text[end + 1])) ++end;
    }
    return end;
  }

  // Returns the end of a float that begins here; 0: there is none.
  size_t FloatEnd() const {
    // Behind a point "1.0" is two indices and no float: "x.1.0".
    if (position_ > 0 && source_[position_ - 1] == '.') return 0;
    size_t end = Digits(position_);
    bool is_float = false;
    if (end + 1 < source_.size() && source_[end] == '.' && IsDigitByte(source_[end + 1])) {
      end = Digits(end + 1);
      is_float = true;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t exponent = end + 1;
      if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) {
        ++exponent;
      }
      if (Digits(exponent) > exponent) return Digits(exponent);
    }
    return is_float ? end : 0;
  }

  // Reads an integer or a float. Digits may have single underscores between them.
  void Number() {
    if (const size_t end = FloatEnd(); end > 0) {
      std::string digits = source_.substr(position_, end - position_);
      std::erase(digits, '_');
      Token& token = Add(Token::Kind::kFloat, digits);
      const auto [last, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), token.real);
      // from_chars leaves the value as it was; strtod gives infinity or 0, as Python does.
      if (error == std::errc::result_out_of_range)
        token.real = std::strtod(digits.c_str(), nullptr);
      return Pass(end - position_);
    }
    size_t end = Digits(position_);
    int base = 10;
    std::string digits;
    if (source_[position_] == '0') end = ZeroEnd(&base);
    digits =
        source_.substr(position_ + (base == 10 ? 0 : 2), end - position_ - (base == 10 ? 0 : 2));
    std::erase(digits, '_');
    Token& token = Add(Token::Kind::kInteger, digits);
    const auto [last, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), token.integer, base);
    if (error != std::errc()) {
      status_ = Status(Code::kLimitExceeded,
                       "line " + std::to_string(line_) + ": an integer has more than 64 bits");
    }
    Pass(end - position_);
  }

  // Returns the end of a number that begins with 0 and sets its base: 0x1F, 0o17, 0b11, or zeros
  // alone. "012" is 0 and then 12, as in jinja2's regular expression.
  size_t ZeroEnd(int* base) const {
    const char mark =
        position_ + 1 < source_.size() ? static_cast<char>(source_[position_ + 1] | 0x20) : '\0';
    const int marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    const auto is_digit = [this](size_t at, int of_base) {
      if (at >= source_.size()) return false;
      const char c = static_cast<char>(source_[at] | 0x20);
      if (of_base == 16 && c >= 'a' && c <= 'f') return true;
      return IsDigitByte(source_[at]) && source_[at] - '0' < std::min(of_base, 10);
    };
    const auto end_of = [&](size_t at, int of_base) {
      for (;;) {
        const size_t digit = at + (at < source_.size() && source_[at] == '_');
        if (!is_digit(digit, of_base)) return at;
        at = digit + 1;
      }
    };
    if (marked != 0 && end_of(position_ + 2, marked) > position_ + 2) {
      *base = marked;
      return end_of(position_ + 2, marked);
    }
    return end_of(position_ + 1, 1);
  }

  // Reads a name of any of Unicode's letters. False: there is none here.
  bool Name() {
    size_t size = 0;
    const std::string_view rest = Rest();
    while (size < rest.size()) {
      const Character character = FirstCharacter(rest.substr(size));
      if (character.code == kInvalid || !IsWord(character.code)) break;
      size += character.size;
    }
    if (size == 0) return false;
    if (!IsIdentifier(rest.substr(0, size))) {
      Fail("\"" + std::string(rest.substr(0, size)) + "\" is not a name");
    }
    Add(Token::Kind::kName, rest.substr(0, size));
    Pass(size);
    return true;
  }

  // Reads an operator or bracket; a bracket that does not close the last open one is an error here,
  // so that AtCodeEnd can rely on open_.
  void Operator() {
    // Longer operators come before those that they begin with.
    static constexpr std::string_view kOperators[] = {
        "//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    for (const std::string_view text : kOperators) {
      if (!At(text)) continue;
      if (!Balance(text[0])) return Fail("unexpected '" + std::string(text) + "'");
      Add(Token::Kind::kOperator, text);
      return Pass(text.size());
    }
    Fail("unexpected character '" + std::string(Rest().substr(0, FirstCharacter(Rest()).size)) +
         "'");
  }

  // Whether a bracket may stand here: opening ones always, closing ones only if they close the
  // bracket that was opened last.
  bool Balance(char c) {
    if (c == '(') open_ += ')';
    if (c == '[') open_ += ']';
    if (c == '{') open_ += '}';
    if (c != ')' && c != ']' && c != '}') return true;
    if (open_.empty() || open_.back() != c) return false;
    open_.pop_back();
    return true;
  }

  // Reads a string literal. A backslash hides the next character from the search for the end.
  void String() {
    const std::string_view rest = Rest();
    size_t end = 1;
    while (end < rest.size() && rest[end] != rest[0]) end += rest[end] == '\\' ? 2 : 1;
    if (end >= rest.size()) return Fail("a string has no end");
    std::string meant;
    if (!Unescape(rest.substr(1, end - 1), &meant)) return;
    Add(Token::Kind::kString, meant);
    Pass(end + 1);
  }

  // Decodes the escapes of a literal as jinja2 does: Python's codec "unicode-escape" on the text
  // whose characters beyond ASCII were replaced by escapes. False: an escape is wrong, and Fail was
  // called.
  bool Unescape(std::string_view text, std::string* meant) {
    for (size_t at = 0; at < text.size();) {
      if (text[at] != '\\') {
        *meant += text[at++];
        continue;
      }
      ++at;  // String() leaves no backslash at the end
      const size_t size = Escape(text.substr(at), meant);
      if (size == 0) return false;
      at += size;
    }
    return true;
  }

  // Decodes the escape behind a backslash and appends its meaning. Returns its size, or 0 after
  // Fail.
  size_t Escape(std::string_view text, std::string* meant) {
    static constexpr std::string_view kLetters = "abfnrtv\\'\"", kMeant = "\a\b\f\n\r\t\v\\'\"";
    const char c = text[0];
    if (const size_t at = kLetters.find(c); at != std::string_view::npos) {
      *meant += kMeant[at];
      return 1;
    }
    if (c == '\n') return 1;
    if (c == 'x') return HexEscape(text, 2, meant);
    if (c == 'u') return HexEscape(text, 4, meant);
    if (c == 'U') return HexEscape(text, 8, meant);
    if (c == 'N') return Fail("characters by name (\\N) are not supported"), 0;
    if (c >= '0' && c <= '7') {
      size_t size = 0;
      uint32_t code = 0;
      for (; size < 3 && size < text.size() && text[size] >= '0' && text[size] <= '7'; ++size) {
        code = code * 8 + static_cast<uint32_t>(text[size] - '0');
      }
      AppendUtf8(meant, code);
      return size;
    }
    *meant += '\\';
    if ((c & 0x80) == 0) return *meant += c, 1;
    // Python sees a backslash before the escape of the character, so that they mean a backslash
    // and the escape's letters.
    const Character character = FirstCharacter(text);
    char escape[16];
    std::snprintf(escape, sizeof(escape),
                  character.code < 0x100     ? "x%02x"
                  : character.code < 0x10000 ? "u%04x"
                                             : "U%08x",
                  character.code);
    *meant += escape;
    return character.size;
  }

  // Decodes \x, \u or \U with so many digits. Surrogates are refused: UTF-8 cannot hold them.
  size_t HexEscape(std::string_view text, size_t digits, std::string* meant) {
    uint32_t code = 0;
    if (text.size() < 1 + digits) return Fail("an escape in a string is cut short"), 0;
    const char* const end = text.data() + 1 + digits;
    const auto [last, error] = std::from_chars(text.data() + 1, end, code, 16);
    if (last != end || error != std::errc()) return Fail("an escape in a string is wrong"), 0;
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
      return Fail("an escape in a string is not a character"), 0;
    }
    AppendUtf8(meant, code);
    return 1 + digits;
  }

  const std::string source_;
  size_t position_ = 0;
  uint32_t line_ = 1;
  bool line_starting_ = true;  // the unit before ended with a newline, or there was none
  std::string open_;           // the brackets that must close, innermost last
  std::vector<Token> tokens_;
  Status status_;
};

}  // namespace

Status MalformedAt(uint32_t line, std::string_view message) {
  return Status(Code::kMalformedModel,
                "line " + std::to_string(line) + ": " + std::string(message));
}

Result<std::vector<Token>> Tokenize(std::string_view source) { return Lexer(source).Run(); }

}  // namespace lectern::jinja
