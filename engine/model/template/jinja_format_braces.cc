// Python's str.format for Jinja programs, as jinja2's sandbox has it, and time.strftime.
#include <algorithm>
#include <cstdio>

#include "engine/model/template/jinja_unicode.h"
#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {
namespace {

// One call of str.format (Objects/stringlib/unicode_format.h of CPython). Used once; borrows all.
// Fields reach attributes by the sandbox's rules: FindAttribute.
class BraceFormatter {
 public:
  BraceFormatter(Runtime& run, const Value& format, const CallArguments& arguments)
      : run_(run), format_(format), arguments_(arguments) {}

  Value Format() {
    TextBuilder out(run_);
    FormatPart(TextOf(format_), 0, BytesOf(format_).size(), 2, out);
    return out.TakeString(IsMarkup(format_));
  }

 private:
  // Formats bytes [begin, end) of `text` into `out`. `depth`: how deep fields may still be nested
  // in specifications; Python allows 2.
  void FormatPart(const Text& text, size_t begin, size_t end, int depth, TextBuilder& out) {
    if (depth < 0) return (void)run_.Fail("max string recursion exceeded");
    const std::string_view bytes = std::string_view(text.text).substr(0, end);
    while (begin < end && run_.Step()) {
      const size_t brace = std::min(bytes.find_first_of("{}", begin), end);
      out.Append(text, begin, brace);
      if (brace == end) return;
      if (brace + 1 < end && bytes[brace + 1] == bytes[brace]) {
        out.Append(text, brace, brace + 1);
        begin = brace + 2;
        continue;
      }
      if (bytes[brace] == '}') return (void)run_.Fail("single '}' encountered in format string");
      size_t open = 1, close = brace + 1;
      for (; close < end; ++close) {
        open += bytes[close] == '{';
        open -= bytes[close] == '}';
        if (open == 0) break;
      }
      if (close == end) return (void)run_.Fail("expected '}' before end of string");
      FormatField(text, brace + 1, close, depth, out);
      begin = close + 1;
    }
  }

  // Formats one field, name[!conversion][:spec]; the specification may have fields, too.
  void FormatField(const Text& text, size_t begin, size_t end, int depth, TextBuilder& out) {
    const std::string_view field = std::string_view(text.text).substr(begin, end - begin);
    size_t name_end = 0, brackets = 0;
    for (; name_end < field.size(); ++name_end) {
      const char c = field[name_end];
      if (c == '[') ++brackets;
      if (c == ']' && brackets > 0) --brackets;
      if (brackets == 0 && (c == '!' || c == ':')) break;
    }
    Value value = Find(field.substr(0, name_end));
    std::string_view rest = field.substr(name_end);
    if (rest.starts_with('!')) {
      if (rest.size() < 2 || (rest.size() > 2 && rest[2] != ':')) {
        return (void)run_.Fail("expected ':' after conversion specifier");
      }
      if (rest[1] != 'r' && rest[1] != 's') return (void)run_.Fail("unknown conversion specifier");
      if (!run_.failed()) value = rest[1] == 'r' ? run_.Repr(value) : run_.ToString(value);
      rest.remove_prefix(2);
    }
    if (rest.starts_with(':')) rest.remove_prefix(1);
    TextBuilder spec(run_);
    FormatPart(text, end - rest.size(), end, depth - 1, spec);
    const Text spec_text = spec.Take();
    if (run_.failed()) return;
    if (IsMarkup(format_)) value = run_.Escaped(value);
    out.Append(FormatSpec(run_, value, spec_text));
  }

  // The value of a field's name: an argument, then ".attribute" and "[item]" any number of times.
  Value Find(std::string_view name) {
    const size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = First(name.substr(0, end));
    name.remove_prefix(end);
    while (!name.empty() && !run_.failed()) {
      const bool is_item = name[0] == '[';
      name.remove_prefix(1);
      const size_t stop =
          std::min(is_item ? name.find(']') : name.find_first_of(".["), name.size());
      if (is_item && stop == name.size()) return run_.Fail("missing ']' in format string");
      const std::string_view part = name.substr(0, stop);
      if (part.empty()) return run_.Fail("empty attribute in format string");
      name.remove_prefix(stop + is_item);
      if (is_item && !name.empty() && name[0] != '.' && name[0] != '[') {
        return run_.Fail("only '.' or '[' may follow ']' in format field specifier");
      }
      const std::optional<int64_t> index = IndexOf(part);
      value = !is_item ? GetAttribute(run_, value, part)
              : index  ? GetItem(run_, value, Value::Integer(*index))
                       : GetItem(run_, value, run_.String(part));
    }
    return value;
  }

  // A number of up to nine digits; nothing: the text is no such number and is a key.
  static std::optional<int64_t> IndexOf(std::string_view text) {
    if (text.empty() || text.size() > 9) return std::nullopt;
    int64_t index = 0;
    for (const char c : text) {
      if (c < '0' || c > '9') return std::nullopt;
      index = index * 10 + (c - '0');
    }
    return index;
  }

  // The argument that a field begins with: by its number, by its name, or the next one where the
  // field is empty. Numbers and empty fields cannot be mixed.
  Value First(std::string_view name) {
    std::optional<int64_t> index = IndexOf(name);
    if (name.empty()) {
      if (is_numbered_) return run_.Fail("cannot mix numbered and automatic fields");
      is_automatic_ = true;
      index = next_++;
    } else if (index) {
      if (is_automatic_) return run_.Fail("cannot mix numbered and automatic fields");
      is_numbered_ = true;
    }
    if (index) {
      if (static_cast<size_t>(*index) >= arguments_.positional.size()) {
        return run_.Fail("replacement index " + std::to_string(*index) + " is out of range");
      }
      return arguments_.positional[static_cast<size_t>(*index)];
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == name) return value;
    }
    return run_.Fail("KeyError: '" + std::string(name) + "'");
  }

  Runtime& run_;
  const Value& format_;
  const CallArguments& arguments_;
  int64_t next_ = 0;  // for empty fields
  bool is_automatic_ = false, is_numbered_ = false;
};

// In English always: the locale of the process must not change what a model reads.
constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                      "Thursday", "Friday", "Saturday"};
constexpr std::string_view kMonths[] = {"January",   "February", "March",    "April",
                                        "May",       "June",     "July",     "August",
                                        "September", "October",  "November", "December"};

// The week of the year: the number of weekdays `first` (0: Sunday) up to `time`. Days before the
// first one are in week 0.
int WeekOf(const std::tm& time, int first) {
  return (time.tm_yday + 7 - (time.tm_wday + 7 - first) % 7) / 7;
}

// A number with `fill` in front up to the width, if `is_padded`.
std::string Padded(int value, size_t width, char fill, bool is_padded) {
  std::string digits = std::to_string(value);
  if (is_padded && digits.size() < width) digits.insert(0, width - digits.size(), fill);
  return digits;
}

// Formats one directive in the locale "C"; nothing: it is not known. `pad`: without glibc's "-"
// between "%" and the letter.
std::optional<std::string> FormatDirective(char directive, bool pad, const std::tm& time) {
  const auto number = [pad](int value, size_t width, char fill = '0') {
    return Padded(value, width, fill, pad);
  };
  const int hour12 = time.tm_hour % 12 == 0 ? 12 : time.tm_hour % 12;
  const size_t day = static_cast<size_t>((time.tm_wday % 7 + 7) % 7);
  const size_t month = static_cast<size_t>((time.tm_mon % 12 + 12) % 12);
  switch (directive) {
    case 'a':
      return std::string(kDays[day].substr(0, 3));
    case 'A':
      return std::string(kDays[day]);
    case 'b':
    case 'h':
      return std::string(kMonths[month].substr(0, 3));
    case 'B':
      return std::string(kMonths[month]);
    case 'c':
      return FormatTime("%a %b %e %H:%M:%S %Y", time);
    case 'd':
      return number(time.tm_mday, 2);
    case 'D':
    case 'x':
      return FormatTime("%m/%d/%y", time);
    case 'e':
      return number(time.tm_mday, 2, ' ');
    case 'F':
      return FormatTime("%Y-%m-%d", time);
    case 'f':
      return std::string("000000");
    case 'H':
      return number(time.tm_hour, 2);
    case 'I':
      return number(hour12, 2);
    case 'j':
      return number(time.tm_yday + 1, 3);
    case 'k':
      return number(time.tm_hour, 2, ' ');
    case 'l':
      return number(hour12, 2, ' ');
    case 'm':
      return number(time.tm_mon + 1, 2);
    case 'M':
      return number(time.tm_min, 2);
    case 'n':
      return std::string("\n");
    case 'p':
      return std::string(time.tm_hour < 12 ? "AM" : "PM");
    case 'R':
      return FormatTime("%H:%M", time);
    case 'r':
      return FormatTime("%I:%M:%S %p", time);
    case 'S':
      return number(time.tm_sec, 2);
    case 't':
      return std::string("\t");
    case 'T':
    case 'X':
      return FormatTime("%H:%M:%S", time);
    case 'u':
      return std::to_string(time.tm_wday == 0 ? 7 : time.tm_wday);
    case 'U':
      return number(WeekOf(time, 0), 2);
    case 'w':
      return std::to_string(time.tm_wday);
    case 'W':
      return number(WeekOf(time, 1), 2);
    case 'y':
      return number((time.tm_year % 100 + 100) % 100, 2);
    case 'Y':
      return std::to_string(time.tm_year + 1900);
    case 'z':
    case 'Z':
      return std::string();  // as for a time without a zone
    case '%':
      return std::string("%");
    default:
      return std::nullopt;
  }
}

}  // namespace

Value FormatBraces(Runtime& run, const Value& format, const CallArguments& arguments) {
  if (!run.Work(BytesOf(format).size())) return Value();
  return BraceFormatter(run, format, arguments).Format();
}

// "%-d" is glibc's form without padding, which published templates use.
std::string FormatTime(std::string_view format, const std::tm& time) {
  std::string text;
  for (size_t at = 0; at < format.size(); ++at) {
    const bool unpadded = at + 2 < format.size() && format[at + 1] == '-';
    const size_t directive = at + 1 + unpadded;
    if (format[at] != '%' || directive >= format.size()) {
      text += format[at];
      continue;
    }
    const std::optional<std::string> formatted =
        FormatDirective(format[directive], !unpadded, time);
    text += formatted ? *formatted : std::string(format.substr(at, directive - at + 1));
    at = directive;
  }
  return text;
}

}  // namespace lectern::jinja
