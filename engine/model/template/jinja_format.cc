// Python's formatting of values for Jinja programs: format specifications, the operator "%", and
// numbers from text. str.format and strftime are in jinja_format_braces.cc.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/model/template/jinja_unicode.h"
#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {
namespace {

// Bounds of a width in characters and of a precision in digits: larger ones are kLimitExceeded. A
// template could otherwise ask for gigabytes in ten characters.
constexpr int64_t kMaxWidth = 1 << 20, kMaxPrecision = 1000;

// A format specification: [[fill]align][sign][#][0][width][,][.precision][type]. Python's
// documentation, "Format Specification Mini-Language", says what each part does.
struct Spec {
  std::string fill = {};  // empty: a space
  bool fill_is_input = false;
  char align = '\0', sign = '-', type = '\0', grouping = '\0';
  bool alternate = false, zero = false;
  int64_t width = 0, precision = -1;  // -1: not given
};

bool IsAlign(char c) { return c == '<' || c == '>' || c == '^' || c == '='; }

// Takes the digits at the front of `text` away and returns their value; -1: there are none.
int64_t TakeNumber(std::string_view* text) {
  int64_t number = -1;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (text->empty() || !(text->front() >= '0' && text->front() <= '9')) return -1;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return error == std::errc() ? number : INT64_MAX;
}

// Parses a format specification. False: it is none, or beyond the bounds, and the program has
// failed.
bool ParseSpec(Runtime& run, std::string_view text, Spec* spec) {
  if (!text.empty()) {
    const size_t size = FirstCharacter(text).size;
    if (size < text.size() && IsAlign(text[size])) {
      spec->fill = text.substr(0, size);
      spec->align = text[size];
      text.remove_prefix(size + 1);
    } else if (IsAlign(text[0])) {
      spec->align = text[0];
      text.remove_prefix(1);
    }
  }
  const auto take = [&text](std::string_view set, char otherwise) {
    if (text.empty() || set.find(text[0]) == std::string_view::npos) return otherwise;
    const char c = text[0];
    text.remove_prefix(1);
    return c;
  };
  spec->sign = take("+- ", '-');
  spec->alternate = take("#", '\0') != 0;
  if (take("0", '\0') != 0) {
    spec->zero = true;
    if (spec->fill.empty()) spec->fill = "0";
  }
  spec->width = std::max<int64_t>(TakeNumber(&text), 0);
  spec->grouping = take(",_", '\0');
  if (take(".", '\0') != 0) {
    spec->precision = TakeNumber(&text);
    if (spec->precision < 0) return run.Fail("a format lacks its precision"), false;
  }
  if (text.size() > 1) return run.Fail("invalid format specifier"), false;
  if (!text.empty()) spec->type = text[0];
  if (spec->width > kMaxWidth || spec->precision > kMaxPrecision) {
    return run.FailLimit("the width of a format"), false;
  }
  return true;
}

// Pads a text to the width. `head`: bytes of a sign or prefix, which stay in front of the fill if
// the alignment is '='. `default_align`: where the specification has none; a zero before the width
// means '='.
Value Pad(Runtime& run, const Value& text, size_t head, const Spec& spec, char default_align) {
  if (run.failed()) return Value();
  const int64_t missing =
      std::max<int64_t>(spec.width - static_cast<int64_t>(CountCharacters(BytesOf(text))), 0);
  const char align = spec.align != 0 ? spec.align : spec.zero ? '=' : default_align;
  const std::string fill = spec.fill.empty() ? " " : spec.fill;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  TextBuilder out(run);
  if (align == '=') out.Append(TextOf(text), 0, head);
  for (int64_t i = 0; i < left && run.Step(); ++i) out.Append(fill, spec.fill_is_input);
  out.Append(TextOf(text), align == '=' ? head : 0, BytesOf(text).size());
  for (int64_t i = left; i < missing && run.Step(); ++i) out.Append(fill, spec.fill_is_input);
  return out.TakeString();
}

// Formats a string: cut to the precision in characters, then padded.
Value FormatText(Runtime& run, const Value& text, const Spec& spec) {
  if (spec.type != 0 && spec.type != 's') return run.Fail("unknown format code of a string");
  if (spec.align == '=' || spec.sign != '-' || spec.alternate || spec.grouping != 0) {
    return run.Fail("this format is not for strings");
  }
  Value cut = text;
  if (spec.precision >= 0) {
    cut = run.Slice(text, 0, OffsetOf(BytesOf(text), static_cast<size_t>(spec.precision)));
  }
  Spec plain = spec;
  if (plain.zero && plain.align == 0) plain.align = '<';
  return Pad(run, cut, 0, plain, '<');
}

// Puts a separator between each `every` digits, from the right.
std::string Grouped(const std::string& digits, char separator, size_t every) {
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % every == 0) grouped += separator;
    grouped += digits[i];
  }
  return grouped;
}

// Puts sign and prefix before the digits of a number, groups and pads them. `digits`: before the
// point; `rest`: from the point or exponent on; `every`: digits of a group.
Value FinishNumber(Runtime& run, bool is_negative, std::string prefix, std::string digits,
                   std::string rest, const Spec& spec, size_t every = 3) {
  std::string head = is_negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  head += prefix;
  if (spec.grouping != 0) {
    // Zeros in front are grouped with the digits, so they are added before grouping, until it is
    // wide enough.
    const bool is_filled = spec.zero && spec.align == 0;
    const size_t width = static_cast<size_t>(spec.width);
    std::string grouped = Grouped(digits, spec.grouping, every);
    while (is_filled && head.size() + grouped.size() + rest.size() < width) {
      digits.insert(0, "0");
      grouped = Grouped(digits, spec.grouping, every);
      if (!run.Work(digits.size())) return Value();
    }
    digits = grouped;
  }
  return Pad(run, run.String(head + digits + rest), head.size(), spec, '>');
}

// Formats a float as Python does, by way of printf. Python differs from C in three places: NaN has
// no sign, a float without a type keeps its ".0", and without type and precision it is repr().
Value FormatReal(Runtime& run, double value, Spec spec) {
  const bool is_percent = spec.type == '%';
  if (is_percent) value *= 100;
  const bool is_negative = std::signbit(value) && !std::isnan(value);
  std::string text;
  const char lower = static_cast<char>(spec.type | 0x20);
  const bool is_upper = spec.type >= 'A' && spec.type <= 'Z';
  if (!std::isfinite(value)) {
    text = std::isnan(value) ? "nan" : "inf";
  } else if (spec.type == 0 && spec.precision < 0) {
    text = FloatRepr(std::fabs(value));
  } else {
    const char format = is_percent ? 'f' : spec.type == 0 || lower == 'n' ? 'g' : lower;
    // "%.*f", or "%#.*f" for the alternate form.
    const char pattern[] = {'%',
                            spec.alternate ? '#' : '.',
                            spec.alternate ? '.' : '*',
                            spec.alternate ? '*' : format,
                            spec.alternate ? format : '\0',
                            '\0'};
    int precision = spec.precision < 0 ? 6 : static_cast<int>(spec.precision);
    if (format == 'g' && precision == 0) precision = 1;
    char buffer[1500];  // "%f" of a double: up to 309 digits, and kMaxPrecision behind the point
    std::snprintf(buffer, sizeof(buffer), pattern, precision, std::fabs(value));
    text = buffer;
    if (spec.type == 0 && text.find_first_of(".e") == std::string::npos) text += ".0";
  }
  if (is_upper) {
    for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c ^ 0x20 : c);
  }
  const size_t whole = std::min(text.find_first_of(".eE"), text.size());
  std::string rest = std::isfinite(value) ? text.substr(whole) : "";
  if (std::isfinite(value)) text.resize(whole);
  return FinishNumber(run, is_negative, "", text, rest + (is_percent ? "%" : ""), spec);
}

// Formats an integer; a float's type formats it as a float.
Value FormatInteger(Runtime& run, int64_t value, const Spec& spec) {
  if (spec.type != 0 && std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos) {
    return FormatReal(run, static_cast<double>(value), spec);
  }
  if (spec.precision >= 0) return run.Fail("precision is not for integers");
  if (spec.type == 'c') {
    if (value < 0 || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000)) {
      return run.Fail("%c needs a character");
    }
    std::string text;
    AppendUtf8(&text, static_cast<uint32_t>(value));
    return Pad(run, run.InputString(text), 0, spec, '<');  // the number may be a user's
  }
  const char lower = static_cast<char>(spec.type | 0x20);
  const int base = lower == 'x' ? 16 : lower == 'o' ? 8 : lower == 'b' ? 2 : 10;
  if (base == 10 && spec.type != 0 && spec.type != 'd' && spec.type != 'n') {
    return run.Fail("unknown format code of an integer");
  }
  const uint64_t magnitude =
      value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  char buffer[72];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), magnitude, base).ptr;
  std::string digits(buffer, static_cast<size_t>(end - buffer));
  if (spec.type == 'X') {
    for (char& c : digits) c = static_cast<char>(c >= 'a' ? c ^ 0x20 : c);
  }
  const std::string prefix = spec.alternate && base != 10 ? std::string("0") + spec.type : "";
  return FinishNumber(run, value < 0, prefix, digits, "", spec, base == 10 ? 3 : 4);
}

// One "%…" of a format string.
struct Conversion {
  bool has_key = false;  // "%(key)s"
  std::string_view key;
  Spec spec;
  bool takes_width = false, takes_precision = false;  // "*": an argument
  char type = '\0';
};

// Python's format % arguments (unicode_format in Objects/unicodeobject.c). Used once; borrows all.
class PercentFormatter {
 public:
  PercentFormatter(Runtime& run, const Value& format, const Value& arguments)
      : run_(run), format_(format), arguments_(arguments), out_(run) {}

  // Walks over the format string: text is copied, each "%…" takes its argument. Arguments that are
  // left over are an error, as in Python.
  Value Format() {
    const Text& text = TextOf(format_);
    const std::string_view bytes = text.text;
    size_t at = 0;
    while (at < bytes.size() && !run_.failed()) {
      const size_t percent = std::min(bytes.find('%', at), bytes.size());
      out_.Append(text, at, percent);
      if (percent == bytes.size()) break;
      std::string_view rest = bytes.substr(percent + 1);
      Conversion conversion;
      if (!Parse(&rest, &conversion)) break;
      at = bytes.size() - rest.size();
      if (conversion.type == '%') {
        out_.Append("%");
      } else {
        Convert(conversion);
      }
    }
    const bool takes_all = !arguments_.Is(Kind::kDict) && !IsSequenceArgument();
    const size_t given = arguments_.Is(Kind::kTuple) ? As<ListObject>(arguments_).items.size()
                         : takes_all                 ? 1
                                                     : 0;
    if (next_ < given) run_.Fail("not all arguments converted during string formatting");
    return out_.TakeString(IsMarkup(format_));
  }

 private:
  // Whether arguments may be left over: Python does not complain about one that can be subscripted
  // like a mapping.
  bool IsSequenceArgument() const {
    return arguments_.Is(Kind::kList) || arguments_.Is(Kind::kRange) ||
           arguments_.Is(Kind::kUndefined);
  }

  // Parses one conversion behind its "%" and takes it away from `rest`: (key), flags, width,
  // .precision, a length modifier that means nothing, and the type. False: it is incomplete, and
  // the program has failed.
  bool Parse(std::string_view* rest, Conversion* conversion) {
    if (rest->starts_with('(')) {
      size_t depth = 0, end = 0;
      do {
        if (end == rest->size()) return run_.Fail("incomplete format key"), false;
        depth += (*rest)[end] == '(';
        depth -= (*rest)[end] == ')';
        ++end;
      } while (depth > 0);
      conversion->has_key = true;
      conversion->key = rest->substr(1, end - 2);
      rest->remove_prefix(end);
    }
    Spec& spec = conversion->spec;
    for (bool left = false; !rest->empty(); rest->remove_prefix(1)) {
      const char c = rest->front();
      if (c == '-') {
        left = true;
        spec.align = '<';
      } else if (c == '+' || (c == ' ' && spec.sign != '+')) {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else if (c == '0') {
        if (!left) spec.zero = true;
      } else if (c != ' ') {
        break;
      }
    }
    spec.width = Number(rest, &conversion->takes_width);
    if (rest->starts_with('.')) {
      rest->remove_prefix(1);
      spec.precision = Number(rest, &conversion->takes_precision);
    }
    if (!rest->empty() && std::string_view("hlL").find(rest->front()) != std::string_view::npos) {
      rest->remove_prefix(1);
    }
    if (rest->empty()) return run_.Fail("incomplete format"), false;
    if (spec.width > kMaxWidth || spec.precision > kMaxPrecision) {
      return run_.FailLimit("the width of a format"), false;
    }
    conversion->type = rest->front();
    rest->remove_prefix(1);
    return true;
  }

  // A width or precision: digits, or "*" for an argument; 0 where there are none.
  int64_t Number(std::string_view* rest, bool* is_argument) {
    if (!rest->starts_with('*')) return std::max<int64_t>(TakeNumber(rest), 0);
    rest->remove_prefix(1);
    *is_argument = true;
    return 0;
  }

  // The next argument: an item of the tuple, or the only one.
  Value Next() {
    if (arguments_.Is(Kind::kTuple)) {
      const std::vector<Value>& items = As<ListObject>(arguments_).items;
      if (next_ < items.size()) return items[next_++];
    } else if (next_ == 0) {
      ++next_;
      return arguments_;
    }
    return run_.Fail("not enough arguments for format string");
  }

  // Finds the argument of a conversion, by key or the next one, and appends it. Width and precision
  // given as "*" are arguments, too, and come before it.
  void Convert(Conversion& conversion) {
    Spec& spec = conversion.spec;
    if (conversion.takes_width) {
      spec.width = IntegerArgument(run_, Next(), 0);
      if (spec.width < 0) spec.align = '<', spec.width = -spec.width;
    }
    if (conversion.takes_precision) {
      spec.precision = std::max<int64_t>(IntegerArgument(run_, Next(), 0), 0);
    }
    if (spec.width > kMaxWidth || spec.precision > kMaxPrecision) {
      return (void)run_.FailLimit("the width of a format");
    }
    Value value;
    if (conversion.has_key) {
      if (!arguments_.Is(Kind::kDict)) return (void)run_.Fail("format requires a mapping");
      const Value* found = As<DictObject>(arguments_).Find(conversion.key);
      if (found == nullptr) {
        return (void)run_.Fail("KeyError: '" + std::string(conversion.key) + "'");
      }
      value = *found;
    } else {
      value = Next();
    }
    if (!run_.failed()) out_.Append(Converted(conversion.type, value, spec));
  }

  // Converts one argument by the letter of the conversion, with Python's errors.
  Value Converted(char type, const Value& value, Spec& spec) {
    if (type == 's' || type == 'r' || type == 'a') {
      Value text = type == 's' ? run_.ToString(value) : run_.Repr(value);
      if (IsMarkup(format_)) text = run_.Escaped(type == 's' ? value : text);
      if (run_.failed()) return Value();
      if (type == 'a' && !IsAscii(BytesOf(text))) return run_.Fail("%a is not supported");
      if (spec.precision >= 0) {
        text = run_.Slice(text, 0, OffsetOf(BytesOf(text), static_cast<size_t>(spec.precision)));
      }
      Spec plain = {.align = spec.align == 0 ? '>' : spec.align, .width = spec.width};
      return Pad(run_, text, 0, plain, '>');
    }
    if (type == 'c' && value.Is(Kind::kString)) {
      if (*LengthOf(value) != 1) return run_.Fail("%c requires int or char");
      return Pad(run_, value, 0, {.align = spec.align, .width = spec.width}, '>');
    }
    if (std::string_view("diuxXoceEfFgG").find(type) == std::string_view::npos) {
      return run_.Fail("unsupported format character '" + std::string(1, type) + "'");
    }
    if (!IsNumber(value)) {
      if (value.Is(Kind::kUndefined)) return run_.FailUndefined(value);
      return run_.Fail("%" + std::string(1, type) + " format: a number is required, not " +
                       std::string(TypeName(value)));
    }
    if (spec.align == 0 && spec.zero) spec.fill = "0";
    spec.type = type;
    if (std::string_view("eEfFgG").find(type) != std::string_view::npos) {
      return FormatReal(run_, RealOf(value), spec);
    }
    return ConvertedInteger(type, value, spec);
  }

  // Converts to an integer's text. Floats are cut to whole numbers by "%d" and refused by the
  // others.
  Value ConvertedInteger(char type, const Value& value, Spec& spec) {
    const bool is_decimal = type == 'd' || type == 'i' || type == 'u';
    if (value.Is(Kind::kFloat) && !is_decimal) return run_.Fail("an integer is required");
    if (value.Is(Kind::kFloat) && !(std::fabs(value.real()) < 0x1p63)) {
      return run_.Fail("an integer has more than 64 bits");
    }
    const int64_t integer =
        value.Is(Kind::kFloat) ? static_cast<int64_t>(value.real()) : value.integer();
    if (is_decimal) spec.type = 'd';
    const int64_t digits = spec.precision;
    spec.precision = -1;
    if (digits < 0) return FormatInteger(run_, integer, spec);
    // "%.3d": at least as many digits.
    Spec inner = spec;
    inner.width = digits + (integer < 0 || spec.sign != '-');
    inner.zero = true, inner.align = '\0', inner.fill = "0";
    const Value padded = FormatInteger(run_, integer, inner);
    Spec outer = {.align = spec.align, .width = spec.width};
    return Pad(run_, padded, 0, outer, '>');
  }

  Runtime& run_;
  const Value& format_;
  const Value& arguments_;
  TextBuilder out_;
  size_t next_ = 0;  // arguments that were taken
};

}  // namespace

Value FormatPercent(Runtime& run, const Value& format, const Value& arguments) {
  if (!run.Work(BytesOf(format).size())) return Value();
  return PercentFormatter(run, format, arguments).Format();
}

Value FormatSpec(Runtime& run, const Value& value, const Text& text) {
  if (run.failed()) return Value();
  Spec spec;
  if (text.text.empty()) return run.ToString(value);
  if (!ParseSpec(run, text.text, &spec)) return Value();
  // A specification that has a user's bytes: the fill may be one of them.
  spec.fill_is_input = HasInput(text);
  if (value.Is(Kind::kString)) return FormatText(run, value, spec);
  if (value.Is(Kind::kFloat)) {
    if (spec.type != 0 && std::string_view("eEfFgGn%").find(spec.type) == std::string_view::npos) {
      return run.Fail("unknown format code of a float");
    }
    return FormatReal(run, value.real(), spec);
  }
  if (IsInteger(value)) return FormatInteger(run, value.integer(), spec);
  return run.Fail("unsupported format string passed to " + std::string(TypeName(value)));
}

// Python's int(text, base): white space around it, a sign, the mark of the base (0x, 0o, 0b) and
// single underscores between digits are allowed. Base 0 takes the base from the mark.
std::optional<int64_t> ParseInteger(Runtime& run, std::string_view text, int64_t base) {
  text = WithoutTrailingSpace(text.substr(LeadingSpace(text)));
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  const char mark = text.size() > 1 && text[0] == '0' ? static_cast<char>(text[1] | 0x20) : '\0';
  const int64_t marked = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
  if (marked != 0 && (base == marked || base == 0)) {
    text.remove_prefix(2);
    if (text.starts_with('_')) text.remove_prefix(1);
    base = marked;
  } else if (base == 0) {
    base = 10;
  }
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_between = i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (text[i] == '_' && is_between) continue;
    digits += text[i];
  }
  if (digits.empty() || base < 2 || base > 36) return std::nullopt;
  if (digits[0] == '-') return std::nullopt;
  digits.insert(0, is_negative ? "-" : "");
  int64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, static_cast<int>(base));
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (error != std::errc()) {
    run.Fail("an integer has more than 64 bits");
    return std::nullopt;
  }
  return value;
}

// Python's float(text): also "nan" and "inf", and single underscores between digits. from_chars
// would read hexadecimal and "nan(…)" as well, so the characters are checked first.
std::optional<double> ParseFloat(std::string_view text) {
  text = WithoutTrailingSpace(text.substr(LeadingSpace(text)));
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&text](size_t at) {
      return at < text.size() && text[at] >= '0' && text[at] <= '9';
    };
    if (text[i] == '_' && i > 0 && is_digit(i - 1) && is_digit(i + 1)) continue;
    digits += static_cast<char>(text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 0x20 : text[i]);
  }
  double value = 0;
  if (digits == "nan") return std::nan("");
  if (digits == "inf" || digits == "infinity") return is_negative ? -INFINITY : INFINITY;
  if (digits.empty() || digits.find_first_not_of("0123456789.e+-") != std::string::npos ||
      digits[0] == '-') {
    return std::nullopt;
  }
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size()) return std::nullopt;
  if (error == std::errc::result_out_of_range) value = std::strtod(digits.c_str(), nullptr);
  return is_negative ? -value : value;
}

}  // namespace lectern::jinja
