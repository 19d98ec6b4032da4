// The methods of Python's str for Jinja programs (Objects/unicodeobject.c). Every byte keeps its
// origin (Run::is_input). Positions in programs count characters; the code works with byte offsets.
#include <algorithm>
#include <functional>

#include "engine/model/template/jinja_unicode.h"
#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {
namespace {

constexpr size_t kNone = std::string_view::npos;

// An argument has the wrong type.
Value FailArgument(Runtime& run, std::string_view wanted, const Value& value) {
  if (value.Is(Kind::kUndefined)) return run.FailUndefined(value);
  return run.Fail("expected " + std::string(wanted) + ", got " + std::string(TypeName(value)));
}

// Whether a value is a string; otherwise the program has failed.
bool IsString(Runtime& run, const Value& value) {
  if (run.failed()) return false;
  if (value.Is(Kind::kString)) return true;
  FailArgument(run, "str", value);
  return false;
}

// Replaces every character: add(out, code, offset) appends what stands in its place, with the
// origin of the character. A byte that is not UTF-8 stays.
template <typename Add>
Value MapCharacters(Runtime& run, const Value& string, Add add) {
  const Text& text = TextOf(string);
  TextBuilder out(run);
  size_t offset = 0;
  ForEachPart(text, 0, text.text.size(), [&](std::string_view bytes, bool is_input) {
    std::string mapped;
    if (!run.Work(bytes.size() * 4) || !run.Fits(bytes.size() * 3)) return;
    mapped.reserve(bytes.size());
    for (size_t at = 0; at < bytes.size();) {
      const Character character = FirstCharacter(bytes.substr(at));
      if (character.code == kInvalid) {
        mapped += bytes[at];
      } else {
        add(&mapped, character.code, offset);
      }
      at += character.size;
      offset += character.size;
    }
    out.Append(mapped, is_input);
  });
  return out.TakeString(IsMarkup(string));
}

// A capital sigma at the end of a word becomes the final one, as in str.lower.
void AppendLower(std::string* out, std::string_view text, uint32_t code, size_t offset) {
  constexpr uint32_t kSigma = 0x3A3, kFinalSigma = 0x3C2;
  if (code == kSigma && IsFinalSigma(text, offset)) return AppendUtf8(out, kFinalSigma);
  AppendInCase(out, code, Case::kLower);
}

// Bytes [begin, end) of a string.
struct ByteRange {
  size_t begin, end;
  bool is_empty;  // begin lies behind end or the text: not even the empty string is found
};
// Returns the byte range of characters [begin, end) of `text`, as text[begin:end] takes them.
ByteRange RangeOf(std::string_view text, int64_t begin, int64_t end) {
  if (begin == 0 && end == INT64_MAX) return {0, text.size(), false};
  const int64_t size = static_cast<int64_t>(CountCharacters(text));
  if (begin < 0) begin = std::max<int64_t>(begin + size, 0);
  if (end < 0) end = std::max<int64_t>(end + size, 0);
  end = std::min(end, size);
  if (begin > end) return {0, 0, true};
  return {OffsetOf(text, static_cast<size_t>(begin)), OffsetOf(text, static_cast<size_t>(end)),
          false};
}

// Reads the arguments `first` and the next one, which may be missing or None, as begin and end.
ByteRange RangeArgument(Runtime& run, const Value& self, const CallArguments& arguments,
                        size_t first) {
  const auto index = [&](size_t place, int64_t otherwise) {
    if (arguments.positional.size() <= place) return otherwise;
    const Value& value = arguments.positional[place];
    if (value.Is(Kind::kNone)) return otherwise;
    if (!IsInteger(value)) return FailArgument(run, "int", value), otherwise;
    return value.integer();
  };
  run.Work(BytesOf(self).size());
  return RangeOf(BytesOf(self), index(first, 0), index(first + 1, INT64_MAX));
}

// lower, upper and casefold. (The name in the message of a wrong call is always upper; likewise
// below for functions that serve several methods.)
template <Case kTo>
Value MethodInCase(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "upper", arguments, 0, 0)) return Value();
  return InCase(run, self, static_cast<int>(kTo));
}

// The first character in title case, the rest in lower case.
Value MethodCapitalize(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "capitalize", arguments, 0, 0)) return Value();
  const std::string_view text = BytesOf(self);
  return MapCharacters(run, self, [text](std::string* out, uint32_t code, size_t offset) {
    if (offset == 0) return AppendInCase(out, code, Case::kTitle);
    AppendLower(out, text, code, offset);
  });
}

// Whether a character has a case.
bool IsCased(uint32_t code) { return IsLowerCase(code) || IsUpperCase(code) || IsTitleCase(code); }

// str.title: a word begins behind every character without case, so "it's" becomes "It'S".
Value MethodTitle(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "title", arguments, 0, 0)) return Value();
  const std::string_view text = BytesOf(self);
  bool in_word = false;
  return MapCharacters(run, self, [&](std::string* out, uint32_t code, size_t offset) {
    if (in_word) {
      AppendLower(out, text, code, offset);
    } else {
      AppendInCase(out, code, Case::kTitle);
    }
    in_word = IsCased(code);
  });
}

// swapcase: capitals become small and small ones capitals.
Value MethodSwapCase(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "swapcase", arguments, 0, 0)) return Value();
  const std::string_view text = BytesOf(self);
  return MapCharacters(run, self, [text](std::string* out, uint32_t code, size_t offset) {
    if (IsUpperCase(code)) return AppendLower(out, text, code, offset);
    if (IsLowerCase(code)) return AppendInCase(out, code, Case::kUpper);
    AppendUtf8(out, code);
  });
}

template <bool kLeft, bool kRight>
Value MethodStrip(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "strip", arguments, 0, 1)) return Value();
  return Strip(run, self, arguments.positional.empty() ? Value() : arguments.positional[0], kLeft,
               kRight);
}

// The byte ranges of the pieces of a split text, in order.
using Pieces = std::vector<std::pair<size_t, size_t>>;

// Split at white space; a `limit` of -1 is none. The last piece keeps its inner space.
Pieces SplitSpace(Runtime& run, std::string_view text, int64_t limit) {
  Pieces pieces;
  size_t at = LeadingSpace(text);
  while (at < text.size() && run.Step()) {
    if (limit >= 0 && static_cast<int64_t>(pieces.size()) == limit) {
      pieces.emplace_back(at, text.size());
      break;
    }
    size_t end = at;
    while (end < text.size()) {
      const Character character = FirstCharacter(text.substr(end));
      if (character.code != kInvalid && IsSpace(character.code)) break;
      end += character.size;
    }
    pieces.emplace_back(at, end);
    at = end + LeadingSpace(text.substr(end));
  }
  return pieces;
}

// The same from the end: with a limit the first piece keeps its inner space.
Pieces SplitSpaceFromEnd(Runtime& run, std::string_view text, int64_t limit) {
  Pieces pieces;
  text = WithoutTrailingSpace(text);
  while (!text.empty() && run.Step()) {
    if (limit >= 0 && static_cast<int64_t>(pieces.size()) == limit) {
      pieces.emplace_back(0, text.size());
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      const Character character = LastCharacter(text.substr(0, begin));
      if (character.code != kInvalid && IsSpace(character.code)) break;
      begin -= character.size;
    }
    pieces.emplace_back(begin, text.size());
    text = WithoutTrailingSpace(text.substr(0, begin));
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

// Split at a separator that is not empty, at most `limit` times.
Pieces SplitAt(Runtime& run, std::string_view text, std::string_view separator, int64_t limit) {
  Pieces pieces;
  size_t at = 0;
  while (run.Step()) {
    const size_t end =
        static_cast<int64_t>(pieces.size()) == limit ? kNone : text.find(separator, at);
    if (end == kNone) break;
    pieces.emplace_back(at, end);
    at = end + separator.size();
  }
  pieces.emplace_back(at, text.size());
  return pieces;
}

// The same from the end.
Pieces SplitAtFromEnd(Runtime& run, std::string_view text, std::string_view separator,
                      int64_t limit) {
  Pieces pieces;
  while (run.Step()) {
    const size_t at = static_cast<int64_t>(pieces.size()) == limit ? kNone : text.rfind(separator);
    if (at == kNone) break;
    pieces.emplace_back(at + separator.size(), text.size());
    text = text.substr(0, at);
  }
  pieces.emplace_back(0, text.size());
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

// The pieces as strings.
std::vector<Value> SlicesOf(Runtime& run, const Value& self, const Pieces& pieces) {
  std::vector<Value> items;
  for (const auto& [begin, end] : pieces) {
    items.push_back(run.Slice(self, begin, end));
    if (run.failed()) break;
  }
  return items;
}

// split and rsplit.
template <bool kFromEnd>
Value Split(Runtime& run, const Value& self, CallArguments& arguments) {
  std::vector<std::optional<Value>> bound;
  if (!Bind(run, "split", arguments, {"sep", "maxsplit"}, 0, &bound)) return Value();
  const Value separator = bound[0].value_or(Value());
  int64_t limit = IntegerArgument(run, bound[1], -1);
  if (limit < 0) limit = -1;
  const std::string_view text = BytesOf(self);
  if (!run.Work(text.size())) return Value();
  if (separator.Is(Kind::kNone)) {
    return run.List(SlicesOf(
        run, self, kFromEnd ? SplitSpaceFromEnd(run, text, limit) : SplitSpace(run, text, limit)));
  }
  if (!IsString(run, separator)) return Value();
  if (BytesOf(separator).empty()) return run.Fail("empty separator");
  return run.List(SlicesOf(run, self,
                           kFromEnd ? SplitAtFromEnd(run, text, BytesOf(separator), limit)
                                    : SplitAt(run, text, BytesOf(separator), limit)));
}

Value MethodSplitLines(Runtime& run, const Value& self, CallArguments& arguments) {
  std::vector<std::optional<Value>> bound;
  if (!Bind(run, "splitlines", arguments, {"keepends"}, 0, &bound)) return Value();
  return run.List(SplitLines(run, self, IntegerArgument(run, bound[0], 0) != 0));
}

// partition and rpartition: before, separator, behind; the whole text at its end or beginning where
// the separator is not in it.
template <bool kFromEnd>
Value Partition(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "partition", arguments, 1, 1)) return Value();
  if (!IsString(run, arguments.positional[0])) return Value();
  const Value& separator = arguments.positional[0];
  const std::string_view text = BytesOf(self), by = BytesOf(separator);
  if (by.empty()) return run.Fail("empty separator");
  const size_t at = kFromEnd ? text.rfind(by) : text.find(by);
  const Value none = run.String("");
  if (at == kNone) {
    return run.List(
        kFromEnd ? std::vector<Value>{none, none, self} : std::vector<Value>{self, none, none},
        Kind::kTuple);
  }
  return run.List({run.Slice(self, 0, at), separator, run.Slice(self, at + by.size(), text.size())},
                  Kind::kTuple);
}

// startswith and endswith, of one text or a tuple of them, in a range.
template <bool kAtEnd>
Value HasAffix(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, kAtEnd ? "endswith" : "startswith", arguments, 1, 3)) return Value();
  const ByteRange range = RangeArgument(run, self, arguments, 1);
  const std::string_view text = BytesOf(self).substr(range.begin, range.end - range.begin);
  std::vector<Value> affixes = {arguments.positional[0]};
  if (affixes[0].Is(Kind::kTuple)) affixes = std::vector(As<ListObject>(affixes[0]).items);
  for (const Value& affix : affixes) {
    if (!run.Step() || !IsString(run, affix)) return Value();
    const std::string_view bytes = BytesOf(affix);
    if (range.is_empty) continue;
    if (kAtEnd ? text.ends_with(bytes) : text.starts_with(bytes)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

// removeprefix and removesuffix.
template <bool kAtEnd>
Value RemoveAffix(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "removeprefix", arguments, 1, 1)) return Value();
  if (!IsString(run, arguments.positional[0])) return Value();
  const std::string_view text = BytesOf(self), affix = BytesOf(arguments.positional[0]);
  if (kAtEnd ? !text.ends_with(affix) : !text.starts_with(affix)) return self;
  return kAtEnd ? run.Slice(self, 0, text.size() - affix.size())
                : run.Slice(self, affix.size(), text.size());
}

// find, rfind, index and rindex: the place in characters; -1, or an error for the latter two.
template <bool kFromEnd, bool kMustBe>
Value FindIn(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "find", arguments, 1, 3)) return Value();
  if (!IsString(run, arguments.positional[0])) return Value();
  const ByteRange range = RangeArgument(run, self, arguments, 1);
  const std::string_view part = BytesOf(self).substr(0, range.end);
  const std::string_view wanted = BytesOf(arguments.positional[0]);
  size_t at = kFromEnd ? part.rfind(wanted) : part.find(wanted, range.begin);
  if (range.is_empty || (at != kNone && at < range.begin)) at = kNone;
  if (at != kNone) return Value::Integer(static_cast<int64_t>(CountCharacters(part.substr(0, at))));
  return kMustBe ? run.Fail("substring not found") : Value::Integer(-1);
}

// count: places that do not overlap; an empty text is found at every place between characters.
Value CountIn(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "count", arguments, 1, 3)) return Value();
  if (!IsString(run, arguments.positional[0])) return Value();
  const ByteRange range = RangeArgument(run, self, arguments, 1);
  if (range.is_empty) return Value::Integer(0);
  const std::string_view text = BytesOf(self).substr(range.begin, range.end - range.begin);
  const std::string_view wanted = BytesOf(arguments.positional[0]);
  if (wanted.empty()) return Value::Integer(static_cast<int64_t>(CountCharacters(text)) + 1);
  int64_t count = 0;
  for (size_t at = 0; (at = text.find(wanted, at)) != kNone; at += wanted.size()) ++count;
  return Value::Integer(count);
}

// replace(old, new, count): texts only, unlike the filter, which takes any value.
Value MethodReplace(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "replace", arguments, 2, 3)) return Value();
  const std::vector<Value>& given = arguments.positional;
  if (!IsString(run, given[0]) || !IsString(run, given[1])) return Value();
  const int64_t count =
      IntegerArgument(run, given.size() > 2 ? std::optional(given[2]) : std::nullopt, -1);
  return Replace(run, self, given[0], IsMarkup(self) ? run.Escaped(given[1]) : given[1], count);
}

// join: items must be strings; markup escapes them.
Value MethodJoin(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "join", arguments, 1, 1)) return Value();
  const std::shared_ptr<ListObject> items = run.Items(arguments.positional[0]);
  if (items == nullptr) return Value();
  std::vector<Value> strings = items->items;
  for (Value& item : strings) {
    if (IsMarkup(self)) item = run.Escaped(item);
    if (!IsString(run, item)) return Value();
  }
  return JoinStrings(run, self, strings);
}

// Where ljust, rjust and center put the text.
enum class Align { kLeft, kRight, kCenter };

// Pads to a width with one character.
template <Align kAlign>
Value Justify(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "center", arguments, 1, 2)) return Value();
  const int64_t width = IntegerArgument(run, arguments.positional[0], 0);
  const Value fill = arguments.positional.size() > 1 ? arguments.positional[1] : run.String(" ");
  if (!IsString(run, fill)) return Value();
  if (CountCharacters(BytesOf(fill)) != 1) return run.Fail("the fill must be one character");
  if (width <= *LengthOf(self)) return self;
  const int64_t missing = width - *LengthOf(self);
  // An odd rest goes to the left where the width is odd: CPython's rule.
  const int64_t left = kAlign == Align::kLeft    ? 0
                       : kAlign == Align::kRight ? missing
                                                 : missing / 2 + (missing & width & 1);
  TextBuilder out(run);
  for (int64_t i = 0; i < left && run.Step(); ++i) out.Append(fill);
  out.Append(self);
  for (int64_t i = left; i < missing && run.Step(); ++i) out.Append(fill);
  return out.TakeString(IsMarkup(self));
}

// zfill: zeros behind the sign.
Value ZeroFill(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "zfill", arguments, 1, 1)) return Value();
  const int64_t width = IntegerArgument(run, arguments.positional[0], 0);
  if (width <= *LengthOf(self) || run.failed()) return self;
  const int64_t missing = width - *LengthOf(self);
  const std::string_view text = BytesOf(self);
  const size_t sign = !text.empty() && (text[0] == '+' || text[0] == '-');
  TextBuilder out(run);
  out.Append(TextOf(self), 0, sign);
  for (int64_t i = 0; i < missing && run.Step(); ++i) out.Append("0");
  out.Append(TextOf(self), sign, text.size());
  return out.TakeString(IsMarkup(self));
}

// expandtabs: columns begin again at each line.
Value ExpandTabs(Runtime& run, const Value& self, CallArguments& arguments) {
  std::vector<std::optional<Value>> bound;
  if (!Bind(run, "expandtabs", arguments, {"tabsize"}, 0, &bound)) return Value();
  const int64_t width = IntegerArgument(run, bound[0], 8);
  int64_t column = 0;
  const Text& text = TextOf(self);
  TextBuilder out(run);
  for (size_t at = 0; at < text.text.size() && !run.failed();) {
    const size_t size = FirstCharacter(std::string_view(text.text).substr(at)).size;
    const char c = text.text[at];
    if (c == '\t') {
      const int64_t spaces = width > 0 ? width - column % width : 0;
      for (int64_t i = 0; i < spaces && run.Step(); ++i) out.Append(" ");
      column += spaces;
    } else {
      out.Append(text, at, at + size);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
    at += size;
  }
  return out.TakeString(IsMarkup(self));
}

Value MethodFormat(Runtime& run, const Value& self, CallArguments& arguments) {
  return FormatBraces(run, self, arguments);
}

// format_map(dict): str.format with the members as named arguments.
Value MethodFormatMap(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "format_map", arguments, 1, 1)) return Value();
  const Value& map = arguments.positional[0];
  if (!map.Is(Kind::kDict)) return run.Fail("format_map() needs a dict");
  CallArguments named;
  for (const auto& [key, value] : As<DictObject>(map).members) {
    if (key.Is(Kind::kString)) named.named.emplace_back(BytesOf(key), value);
  }
  return FormatBraces(run, self, named);
}

// Sorted by name: StringMethod searches by halves.
constexpr std::pair<std::string_view, Function> kMethods[] = {
    {"capitalize", MethodCapitalize},
    {"casefold", MethodInCase<Case::kFold>},
    {"center", Justify<Align::kCenter>},
    {"count", CountIn},
    {"endswith", HasAffix<true>},
    {"expandtabs", ExpandTabs},
    {"find", FindIn<false, false>},
    {"format", MethodFormat},
    {"format_map", MethodFormatMap},
    {"index", FindIn<false, true>},
    {"join", MethodJoin},
    {"ljust", Justify<Align::kLeft>},
    {"lower", MethodInCase<Case::kLower>},
    {"lstrip", MethodStrip<true, false>},
    {"partition", Partition<false>},
    {"removeprefix", RemoveAffix<false>},
    {"removesuffix", RemoveAffix<true>},
    {"replace", MethodReplace},
    {"rfind", FindIn<true, false>},
    {"rindex", FindIn<true, true>},
    {"rjust", Justify<Align::kRight>},
    {"rpartition", Partition<true>},
    {"rsplit", Split<true>},
    {"rstrip", MethodStrip<false, true>},
    {"split", Split<false>},
    {"splitlines", MethodSplitLines},
    {"startswith", HasAffix<false>},
    {"strip", MethodStrip<true, true>},
    {"swapcase", MethodSwapCase},
    {"title", MethodTitle},
    {"upper", MethodInCase<Case::kUpper>},
    {"zfill", ZeroFill}};

}  // namespace

Function StringMethod(std::string_view name) {
  const auto* const at = std::lower_bound(
      std::begin(kMethods), std::end(kMethods), name,
      [](const auto& method, std::string_view wanted) { return method.first < wanted; });
  if (at != std::end(kMethods) && at->first == name) return at->second;
  return name.starts_with("is") ? StringPredicate(name) : nullptr;
}

bool IsUnsupportedStringMethod(std::string_view name) {
  return name == "encode" || name == "translate" || name == "maketrans";
}

Value InCase(Runtime& run, const Value& string, int to) {
  const std::string_view text = BytesOf(string);
  return MapCharacters(run, string, [text, to](std::string* out, uint32_t code, size_t offset) {
    if (to == static_cast<int>(Case::kLower)) return AppendLower(out, text, code, offset);
    AppendInCase(out, code, static_cast<Case>(to));
  });
}

Value Strip(Runtime& run, const Value& string, const Value& characters, bool left, bool right) {
  if (run.failed()) return Value();
  const std::string_view text = BytesOf(string);
  size_t begin = 0, end = text.size();
  if (characters.Is(Kind::kNone)) {
    if (left) begin = LeadingSpace(text);
    if (right) end = begin + WithoutTrailingSpace(text.substr(begin)).size();
    return run.Slice(string, begin, end);
  }
  if (!IsString(run, characters)) return Value();
  const std::string_view set = BytesOf(characters);
  // Whether a character is one of `set`.
  const auto is_one = [set](std::string_view character) {
    for (size_t at = 0; (at = set.find(character, at)) != kNone; ++at) {
      // A match in the middle of another character does not count.
      if ((set[at] & 0xC0) != 0x80 || FirstCharacter(character).code == kInvalid) return true;
    }
    return false;
  };
  while (left && begin < end && run.Work(set.size())) {
    const size_t size = FirstCharacter(text.substr(begin)).size;
    if (!is_one(text.substr(begin, size))) break;
    begin += size;
  }
  while (right && begin < end && run.Work(set.size())) {
    const size_t size = LastCharacter(text.substr(begin, end - begin)).size;
    if (!is_one(text.substr(end - size, size))) break;
    end -= size;
  }
  return run.Slice(string, begin, end);
}

// Python's str.replace. An empty `from` is found before every character and at the end.
Value Replace(Runtime& run, const Value& string, const Value& from, const Value& to,
              int64_t count) {
  if (run.failed() || count == 0) return string;
  const Text& text = TextOf(string);
  const std::string_view bytes = text.text, wanted = BytesOf(from);
  if (!run.Work(bytes.size())) return Value();
  TextBuilder out(run);
  size_t copied = 0;
  if (wanted.empty()) {
    for (size_t at = 0; count != 0 && !run.failed(); --count) {
      out.Append(text, copied, at);
      out.Append(to);
      copied = at;
      if (at >= bytes.size()) break;
      at += FirstCharacter(bytes.substr(at)).size;
    }
  } else {
    for (size_t at = 0; count != 0 && (at = bytes.find(wanted, at)) != kNone; --count) {
      out.Append(text, copied, at);
      out.Append(to);
      copied = at += wanted.size();
      if (!run.Step()) return Value();
    }
  }
  out.Append(text, copied, bytes.size());
  return out.TakeString(IsMarkup(string));
}

Value JoinStrings(Runtime& run, const Value& separator, const std::vector<Value>& items) {
  if (run.failed()) return Value();
  TextBuilder out(run);
  for (size_t i = 0; i < items.size() && run.Step(); ++i) {
    if (i > 0) out.Append(separator);
    out.Append(items[i]);
  }
  return out.TakeString(IsMarkup(separator));
}

// "\r\n" is one end. A text that ends with a line end has no empty last line.
std::vector<Value> SplitLines(Runtime& run, const Value& string, bool keep_ends) {
  const std::string_view text = BytesOf(string);
  const auto is_end = [](uint32_t code) {
    return (code >= 10 && code <= 13) || (code >= 0x1C && code <= 0x1E) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
  };
  std::vector<Value> lines;
  size_t begin = 0;
  run.Work(text.size() * 4);
  for (size_t at = 0; at < text.size() && !run.failed();) {
    const Character character = FirstCharacter(text.substr(at));
    size_t next = at + character.size;
    if (is_end(character.code)) {
      if (character.code == '\r' && next < text.size() && text[next] == '\n') ++next;
      lines.push_back(run.Slice(string, begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < text.size()) lines.push_back(run.Slice(string, begin, text.size()));
  return lines;
}

}  // namespace lectern::jinja
