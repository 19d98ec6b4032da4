// The methods of Python's str that ask something about all characters ("isdigit"), for Jinja
// programs.
#include "engine/model/template/jinja_unicode.h"
#include "engine/model/template/jinja_value.h"

namespace lectern::jinja {
namespace {

// Whether the text is not empty and each of its characters passes. Bytes that are not UTF-8 pass no
// test. (The name in the message of a wrong call is always isalpha.)
template <bool (*kTest)(uint32_t)>
Value AllAre(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "isalpha", arguments, 0, 0)) return Value();
  std::string_view text = BytesOf(self);
  if (!run.Work(text.size()) || text.empty()) return Value::Bool(false);
  while (!text.empty()) {
    const Character character = FirstCharacter(text);
    if (character.code == kInvalid || !kTest(character.code)) return Value::Bool(false);
    text.remove_prefix(character.size);
  }
  return Value::Bool(true);
}

// A character of str.isalnum.
bool IsAlphanumeric(uint32_t code) {
  return IsAlphabetic(code) || IsDecimal(code) || IsDigit(code) || IsNumeric(code);
}

// str.isupper and islower: there is a letter with case, and none in another case.
template <bool kUpper>
Value IsTextInCase(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "isupper", arguments, 0, 0)) return Value();
  bool has_cased = false;
  run.Work(BytesOf(self).size());
  for (std::string_view text = BytesOf(self); !text.empty();) {
    const Character character = FirstCharacter(text);
    const uint32_t code = character.code;
    if (IsTitleCase(code) || (kUpper ? IsLowerCase(code) : IsUpperCase(code))) {
      return Value::Bool(false);
    }
    has_cased |= kUpper ? IsUpperCase(code) : IsLowerCase(code);
    text.remove_prefix(character.size);
  }
  return Value::Bool(has_cased);
}

// str.istitle: letters in upper or title case begin words, and others go on with them.
Value IsTitle(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "istitle", arguments, 0, 0)) return Value();
  bool has_cased = false, in_word = false;
  run.Work(BytesOf(self).size());
  for (std::string_view text = BytesOf(self); !text.empty();) {
    const Character character = FirstCharacter(text);
    const bool starts = IsUpperCase(character.code) || IsTitleCase(character.code);
    const bool is_cased = starts || IsLowerCase(character.code);
    if (is_cased && starts == in_word) return Value::Bool(false);
    has_cased |= is_cased;
    in_word = is_cased;
    text.remove_prefix(character.size);
  }
  return Value::Bool(has_cased);
}

Value IsAsciiText(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "isascii", arguments, 0, 0)) return Value();
  return Value::Bool(IsAscii(BytesOf(self)));
}

Value IsIdentifierText(Runtime& run, const Value& self, CallArguments& arguments) {
  if (!TakesArguments(run, "isidentifier", arguments, 0, 0)) return Value();
  return Value::Bool(IsIdentifier(BytesOf(self)));
}

// The empty text is printable, and has no other property.
Value IsPrintableText(Runtime& run, const Value& self, CallArguments& arguments) {
  if (BytesOf(self).empty()) return Value::Bool(true);
  return AllAre<IsPrintable>(run, self, arguments);
}

}  // namespace

Function StringPredicate(std::string_view name) {
  static constexpr std::pair<std::string_view, Function> kPredicates[] = {
      {"isalnum", AllAre<IsAlphanumeric>},
      {"isalpha", AllAre<IsAlphabetic>},
      {"isascii", IsAsciiText},
      {"isdecimal", AllAre<IsDecimal>},
      {"isdigit", AllAre<IsDigit>},
      {"isidentifier", IsIdentifierText},
      {"islower", IsTextInCase<false>},
      {"isnumeric", AllAre<IsNumeric>},
      {"isprintable", IsPrintableText},
      {"isspace", AllAre<IsSpace>},
      {"istitle", IsTitle},
      {"isupper", IsTextInCase<true>}};
  for (const auto& [known, function] : kPredicates) {
    if (known == name) return function;
  }
  return nullptr;
}

}  // namespace lectern::jinja
