// Jinja's filters for texts and numbers (jinja2/filters.py); those for sequences are in
// jinja_sequence_filters.cc. Each first binds its arguments under jinja2's names. A filter that
// takes any value makes a text of it (SoftString); markup stays markup where jinja2 keeps it.
#include "engine/model/template/jinja_filters.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "engine/model/formats/excerpt.h"
#include "engine/model/template/jinja_unicode.h"

namespace lectern::jinja {
namespace {

using Bound = std::vector<std::optional<Value>>;

// Negate reports the one integer without an absolute value.
Value Abs(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "abs", arguments, {}, 0, &bound)) return Value();
  if (value.Is(Kind::kFloat)) return Value::Float(std::fabs(value.real()));
  if (IsInteger(value))
    return value.integer() < 0 ? Negate(run, value) : Value::Integer(value.integer());
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  return run.Fail("bad operand type for abs(): '" + std::string(TypeName(value)) + "'");
}

// attr(name): an attribute only, where "value.name" would also find a dict's item.
Value Attr(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "attr", arguments, {"name"}, 1, &bound)) return Value();
  if (!bound[0]->Is(Kind::kString)) return run.Fail("attr needs a name");
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  const std::string_view name = BytesOf(*bound[0]);
  if (std::optional<Value> found = FindAttribute(run, value, name)) return *std::move(found);
  return run.Undefined("'" + std::string(TypeName(value)) + " object' has no attribute '" +
                       Excerpt(name, 200) + "'");
}

// capitalize and center: the methods of str, after the value has become a text.
Value Capitalize(Runtime& run, const Value& value, CallArguments& arguments) {
  const Value text = run.SoftString(value);
  return run.failed() ? Value() : StringMethod("capitalize")(run, text, arguments);
}

Value Center(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "center", arguments, {"width"}, 0, &bound)) return Value();
  CallArguments width;
  width.positional = {bound[0].value_or(Value::Integer(80))};
  const Value text = run.SoftString(value);
  return run.failed() ? Value() : StringMethod("center")(run, text, width);
}

// default(value, boolean): instead of an undefined value, or with `boolean` of every false one.
Value Default(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "default", arguments, {"default_value", "boolean"}, 0, &bound)) return Value();
  if (!value.Is(Kind::kUndefined) && !(IsTrueArgument(bound[1]) && !IsTrue(value))) return value;
  return bound[0] ? *bound[0] : run.String("");
}

// escape: HTML's special characters, once; forceescape also escapes markup again.
Value Escape(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  return Bind(run, "escape", arguments, {}, 0, &bound) ? run.Escaped(value) : Value();
}

Value ForceEscape(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "forceescape", arguments, {}, 0, &bound)) return Value();
  const Value text = run.ToString(value);
  return run.failed() ? Value() : run.Escaped(text);
}

// float(default): the default where the value is no number.
Value Float(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "float", arguments, {"default"}, 0, &bound)) return Value();
  if (IsNumber(value)) return Value::Float(RealOf(value));
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  if (value.Is(Kind::kString)) {
    if (const std::optional<double> real = ParseFloat(BytesOf(value))) return Value::Float(*real);
  }
  return bound[0].value_or(Value::Float(0));
}

// format(…): Python's "%", with a tuple or a dict of the arguments.
Value Format(Runtime& run, const Value& value, CallArguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return run.Fail("can't handle positional and keyword arguments at the same time");
  }
  Value given;
  if (arguments.named.empty()) {
    given = run.List(arguments.positional, Kind::kTuple);
  } else {
    auto dict = std::make_shared<DictObject>();
    for (const auto& [name, item] : arguments.named) {
      run.SetMember(dict.get(), run.InputString(name), item);
    }
    given = run.Dict(std::move(dict));
  }
  const Value text = run.SoftString(value);
  return run.failed() ? Value() : FormatPercent(run, text, given);
}

// indent(width, first, blank): puts spaces, or a text, before all lines but the first.
Value Indent(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "indent", arguments, {"width", "first", "blank"}, 0, &bound)) return Value();
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  if (!value.Is(Kind::kString)) return run.Fail("indent needs a string");
  Value indent;
  if (bound[0] && bound[0]->Is(Kind::kString)) {
    indent = *bound[0];
  } else {
    const Value width = Value::Integer(IntegerArgument(run, bound[0], 4));
    indent = Calculate(run, Operator::kMul, run.String(" "), width);
  }
  if (run.failed()) return Value();
  // The newline that jinja2 adds makes a last line that is empty count.
  const Value text = Calculate(run, Operator::kAdd, value, run.String("\n"));
  if (run.failed()) return Value();
  const std::vector<Value> lines = SplitLines(run, text, false);
  const bool blank = IsTrueArgument(bound[2]);
  TextBuilder out(run);
  if (IsTrueArgument(bound[1])) out.Append(indent);
  for (size_t i = 0; i < lines.size() && !run.failed(); ++i) {
    if (i > 0) out.Append("\n");
    if (i > 0 && (blank || !BytesOf(lines[i]).empty())) out.Append(indent);
    out.Append(lines[i]);
  }
  return out.TakeString(IsMarkup(value));
}

// jinja2's int: a value that is no number gives the default, and so does the text "inf". A float
// infinity is an error, because Python's int(inf) raises one that jinja2 does not catch.
Value Int(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "int", arguments, {"default", "base"}, 0, &bound)) return Value();
  const int64_t base = IntegerArgument(run, bound[1], 10);
  const Value otherwise = bound[0].value_or(Value::Integer(0));
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  if (IsInteger(value)) return Value::Integer(value.integer());
  double real = 0;
  if (value.Is(Kind::kFloat)) {
    real = value.real();
    if (std::isinf(real)) return run.Fail("cannot convert float infinity to integer");
  } else if (value.Is(Kind::kString)) {
    if (const std::optional<int64_t> whole = ParseInteger(run, BytesOf(value), base)) {
      return Value::Integer(*whole);
    }
    const std::optional<double> parsed = ParseFloat(BytesOf(value));
    if (!parsed) return otherwise;
    real = *parsed;
  } else {
    return otherwise;
  }
  if (!std::isfinite(real)) return otherwise;
  if (!(std::fabs(real) < 0x1p63)) return run.Fail("an integer has more than 64 bits");
  return Value::Integer(static_cast<int64_t>(real));
}

// lower and upper.
template <Case kTo>
Value ToCase(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "lower", arguments, {}, 0, &bound)) return Value();
  const Value text = run.SoftString(value);
  return run.failed() ? Value() : InCase(run, text, static_cast<int>(kTo));
}

// replace(old, new, count); all arguments become texts.
Value ReplaceText(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "replace", arguments, {"old", "new", "count"}, 2, &bound)) return Value();
  const bool has_count = bound[2] && !bound[2]->Is(Kind::kNone);
  const int64_t count = has_count ? IntegerArgument(run, bound[2], -1) : -1;
  const Value text = run.ToString(value), from = run.ToString(*bound[0]);
  const Value to = run.ToString(*bound[1]);
  return run.failed() ? Value() : Replace(run, text, from, to, count);
}

// Python's round() to a number of digits: half to even, of the exact value of the float. printf
// rounds exactly, which multiplying by a power of ten would not.
Value RoundTo(Runtime& run, const Value& value, int64_t digits) {
  if (IsInteger(value)) {
    if (digits >= 0) return Value::Integer(value.integer());
    // 10^19 has more than 64 bits, and every integer is nearer to 0 than to it.
    if (digits < -18) return Value::Integer(0);
    int64_t unit = 1;
    for (int64_t i = digits; i < 0; ++i) unit *= 10;
    const int64_t rest = value.integer() % unit;
    int64_t rounded = value.integer() - rest;
    const int64_t half = unit / 2;
    const bool up = std::abs(rest) > half || (std::abs(rest) == half && (rounded / unit) % 2 != 0);
    if (up && __builtin_add_overflow(rounded, rest < 0 ? -unit : unit, &rounded)) {
      return run.Fail("an integer has more than 64 bits");
    }
    return Value::Integer(rounded);
  }
  const double real = value.real();
  // Rounding at these places changes no float (the smallest is 5e-324), or makes every float 0 (the
  // largest is 1.8e308).
  if (!std::isfinite(real) || digits > 330) return value;
  if (digits < -310) return Value::Float(std::copysign(0.0, real));
  if (digits < 0) {
    const double unit = std::pow(10.0, static_cast<double>(-digits));
    return Value::Float(std::nearbyint(real / unit) * unit);
  }
  char buffer[800];  // up to 309 digits before the point and 330 behind it
  std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(digits), real);
  return Value::Float(std::strtod(buffer, nullptr));
}

// round(precision, method): "common" as Python's round(); "ceil" and "floor" by scaling, as jinja2.
Value Round(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "round", arguments, {"precision", "method"}, 0, &bound)) return Value();
  const int64_t digits = IntegerArgument(run, bound[0], 0);
  const std::string_view method = !bound[1]                     ? "common"
                                  : bound[1]->Is(Kind::kString) ? BytesOf(*bound[1])
                                                                : "";
  if (method != "common" && method != "ceil" && method != "floor") {
    return run.Fail("method must be common, ceil or floor");
  }
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  if (run.failed() || !IsNumber(value)) return run.Fail("round needs a number");
  if (method == "common") return RoundTo(run, value, digits);
  const Value unit = Calculate(run, Operator::kPow, Value::Integer(10), Value::Integer(digits));
  const Value scaled = Calculate(run, Operator::kMul, value, unit);
  if (run.failed()) return Value();
  const double real = RealOf(scaled);
  const double whole = method == "ceil" ? std::ceil(real) : std::floor(real);
  if (!std::isfinite(whole)) return run.Fail("cannot convert float infinity to integer");
  return Calculate(run, Operator::kDiv, Value::Float(whole), unit);
}

// safe: the text as markup, which "+" and join do not escape.
Value Safe(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "safe", arguments, {}, 0, &bound)) return Value();
  if (IsMarkup(value)) return value;
  const Value text = run.ToString(value);
  return run.failed() ? Value() : run.String(TextOf(text), /*is_markup=*/true);
}

// string: a text, markup as it is.
Value ToText(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  return Bind(run, "string", arguments, {}, 0, &bound) ? run.SoftString(value) : Value();
}

// title: jinja2's own rule, in which a word begins behind white space and -({[<, unlike str.title.
// The first character of a word is in upper case, the rest in lower case.
Value Title(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "title", arguments, {}, 0, &bound)) return Value();
  const Value text = run.ToString(value);
  if (run.failed()) return Value();
  const std::string_view bytes = BytesOf(text);
  std::vector<Value> pieces;
  const auto is_separator = [](const Character& character) {
    return character.code != kInvalid &&
           (IsSpace(character.code) ||
            std::string_view("-({[<").find(static_cast<char>(
                character.code < 0x80 ? character.code : 'a')) != std::string_view::npos);
  };
  for (size_t at = 0; at < bytes.size() && run.Step();) {
    const Character first = FirstCharacter(bytes.substr(at));
    size_t end = at + first.size;
    while (end < bytes.size() &&
           is_separator(FirstCharacter(bytes.substr(end))) == is_separator(first)) {
      end += FirstCharacter(bytes.substr(end)).size;
    }
    const Value head = run.Slice(text, at, at + first.size);
    const Value tail = run.Slice(text, at + first.size, end);
    if (run.failed()) return Value();
    pieces.push_back(InCase(run, head, static_cast<int>(Case::kUpper)));
    pieces.push_back(InCase(run, tail, static_cast<int>(Case::kLower)));
    at = end;
  }
  const Value nothing = run.String("");
  return run.failed() ? Value() : JoinStrings(run, nothing, pieces);
}

// trim(chars): str.strip.
Value Trim(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "trim", arguments, {"chars"}, 0, &bound)) return Value();
  const Value text = run.SoftString(value);
  return run.failed() ? Value() : Strip(run, text, bound[0].value_or(Value()), true, true);
}

// truncate(length, killwords, end, leeway): cuts a text that is longer than length + leeway, at a
// space unless `killwords`, and puts `end` behind it.
Value Truncate(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "truncate", arguments, {"length", "killwords", "end", "leeway"}, 0, &bound)) {
    return Value();
  }
  if (!value.Is(Kind::kString)) return run.Fail("truncate needs a string");
  const int64_t length = IntegerArgument(run, bound[0], 255);
  const Value end = bound[2] ? *bound[2] : run.String("...");
  const int64_t leeway =
      bound[3] && bound[3]->Is(Kind::kNone) ? 5 : IntegerArgument(run, bound[3], 5);
  if (run.failed()) return Value();
  if (!end.Is(Kind::kString)) return run.Fail("truncate needs a string as its end");
  if (length < *LengthOf(end) || leeway < 0) {
    return run.Fail("truncate has a length that is too small");
  }
  const int64_t kept = length - *LengthOf(end);
  if (*LengthOf(value) - leeway <= length) return value;
  const Value head = run.Slice(value, 0, OffsetOf(BytesOf(value), static_cast<size_t>(kept)));
  if (run.failed()) return Value();
  if (IsTrueArgument(bound[1])) return Calculate(run, Operator::kAdd, head, end);
  const size_t space = BytesOf(head).rfind(' ');
  const Value words = run.Slice(head, 0, std::min(space, BytesOf(head).size()));
  return run.failed() ? Value() : Calculate(run, Operator::kAdd, words, end);
}

// Appends a text in URL encoding. `for_query`: a space is "+", and a slash is escaped.
void AppendQuoted(Runtime& run, const Value& value, bool for_query, TextBuilder& out) {
  const Value text = run.ToString(value);
  if (run.failed()) return;
  ForEachPart(TextOf(text), 0, BytesOf(text).size(), [&](std::string_view bytes, bool is_input) {
    std::string quoted;
    if (!run.Fits(bytes.size() * 4)) return;
    for (const char c : bytes) {
      const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') ||
                            std::string_view("_.-~").find(c) != std::string_view::npos;
      char escape[8] = {c, '\0'};
      if (for_query && c == ' ') {
        escape[0] = '+';
      } else if (!is_plain && (for_query || c != '/')) {
        std::snprintf(escape, sizeof(escape), "%%%02X", static_cast<uint8_t>(c));
      }
      quoted += escape[0] == '\0' ? std::string("%00") : escape;
    }
    out.Append(quoted, is_input);
  });
}

// urlencode: of a text, or of pairs, which become "key=value&…".
Value UrlEncode(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "urlencode", arguments, {}, 0, &bound)) return Value();
  TextBuilder out(run);
  if (value.Is(Kind::kString) || !run.IsIterable(value)) {
    AppendQuoted(run, value, false, out);
    return out.TakeString();
  }
  const Value pairs =
      value.Is(Kind::kDict) ? run.View("dict_items", As<DictObject>(value), 2) : value;
  const std::shared_ptr<ListObject> items = run.Items(pairs);
  if (items == nullptr) return Value();
  for (size_t i = 0; i < items->items.size() && run.Step(); ++i) {
    const std::shared_ptr<ListObject> pair = run.Items(items->items[i]);
    if (pair == nullptr) break;
    if (pair->items.size() != 2) return run.Fail("urlencode needs pairs");
    if (i > 0) out.Append("&");
    AppendQuoted(run, pair->items[0], true, out);
    out.Append("=");
    AppendQuoted(run, pair->items[1], true, out);
  }
  return out.TakeString();
}

// wordcount: runs of word characters (\w).
Value WordCount(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "wordcount", arguments, {}, 0, &bound)) return Value();
  const Value text = run.SoftString(value);
  if (run.failed() || !run.Work(BytesOf(text).size() * 4)) return Value();
  int64_t count = 0;
  bool in_word = false;
  for (std::string_view rest = BytesOf(text); !rest.empty();) {
    const Character character = FirstCharacter(rest);
    const bool is_word = character.code != kInvalid && IsWord(character.code);
    count += is_word && !in_word;
    in_word = is_word;
    rest.remove_prefix(character.size);
  }
  return Value::Integer(count);
}

// filesizeformat(binary): "1.5 kB", with the names and the limits of jinja2.
Value FileSize(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "filesizeformat", arguments, {"binary"}, 0, &bound)) return Value();
  const std::optional<double> parsed =
      value.Is(Kind::kString) ? ParseFloat(BytesOf(value)) : std::nullopt;
  if (!parsed && !IsNumber(value)) return run.Fail("filesizeformat needs a number");
  const double bytes = parsed ? *parsed : RealOf(value);
  const bool binary = IsTrueArgument(bound[0]);
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return run.String("1 Byte");
  if (!(bytes >= base)) {
    return run.String(std::isfinite(bytes)
                          ? std::to_string(static_cast<int64_t>(std::max(bytes, -9e18))) + " Bytes"
                          : "nan Bytes");
  }
  static constexpr std::string_view kUnits = "kMGTPEZY";
  double unit = base * base;
  size_t i = 0;
  for (; i + 1 < kUnits.size() && bytes >= unit; ++i) unit *= base;
  char text[400];  // "%.1f" of a double has at most 312 characters
  std::snprintf(text, sizeof(text), "%.1f %c%sB", base * bytes / unit,
                binary && i == 0 ? 'K' : kUnits[i], binary ? "i" : "");
  return run.String(text);
}

// xmlattr(autospace): the members of a dict as attributes, escaped; names are checked, as in jinja2
// since 3.1.4, because an attribute's name cannot be escaped.
Value XmlAttributes(Runtime& run, const Value& value, CallArguments& arguments) {
  Bound bound;
  if (!Bind(run, "xmlattr", arguments, {"autospace"}, 0, &bound)) return Value();
  if (!value.Is(Kind::kDict)) return run.Fail("xmlattr needs a dict");
  TextBuilder out(run);
  for (const auto& [key, item] : As<DictObject>(value).members) {
    if (item.Is(Kind::kNone) || item.Is(Kind::kUndefined)) continue;
    if (!key.Is(Kind::kString)) return run.Fail("xmlattr needs strings as keys");
    if (BytesOf(key).find_first_of(" \t\n\r\f\v/>=") != std::string_view::npos) {
      return run.Fail("invalid character in attribute name");
    }
    if (out.size() > 0 || !bound[0] || IsTrue(*bound[0])) out.Append(" ");
    out.Append(run.Escaped(key));
    out.Append("=\"");
    out.Append(run.Escaped(item));
    out.Append("\"");
    if (run.failed()) return Value();
  }
  return out.TakeString();
}

}  // namespace

// Finds a filter that takes one value and not a sequence.
Function TextFilter(std::string_view name) {
  static constexpr std::pair<std::string_view, Function> kFilters[] = {
      {"abs", Abs},
      {"attr", Attr},
      {"capitalize", Capitalize},
      {"center", Center},
      {"d", Default},
      {"default", Default},
      {"e", Escape},
      {"escape", Escape},
      {"filesizeformat", FileSize},
      {"float", Float},
      {"forceescape", ForceEscape},
      {"format", Format},
      {"indent", Indent},
      {"int", Int},
      {"lower", ToCase<Case::kLower>},
      {"replace", ReplaceText},
      {"round", Round},
      {"safe", Safe},
      {"string", ToText},
      {"title", Title},
      {"tojson", ToJson},
      {"trim", Trim},
      {"truncate", Truncate},
      {"upper", ToCase<Case::kUpper>},
      {"urlencode", UrlEncode},
      {"wordcount", WordCount},
      {"xmlattr", XmlAttributes}};
  for (const auto& [known, function] : kFilters) {
    if (known == name) return function;
  }
  return nullptr;
}

}  // namespace lectern::jinja
