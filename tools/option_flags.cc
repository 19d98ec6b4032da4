#include "tools/option_flags.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <system_error>

#include "tools/quantities.h"

namespace lectern::tools {
namespace {

// The values that an option may have, to complete "11 is not …": "a share above 0 and up to 1", "a
// number from 0 to 10 or "auto"", "a whole number of at least 64". Fifteen digits, so that a bound
// like 16777216 is not printed as 1.67772e+07. A range that is open below is called a share.
std::string RangeText(const lectern::Option& option) {
  if (option.kind == OptionKind::kBytes) return "a size like 500MB or 2GiB";
  if (!option.word.empty()) {
    lectern::Option number = option;
    number.word = {};
    return RangeText(number) + " or \"" + std::string(option.word) + "\"";
  }
  const OptionRange& range = option.range;
  std::ostringstream text;
  text.precision(15);
  if (range.is_open_below) {
    text << (range.most > 1 ? "a number above " : "a share above ") << range.least << (range.is_open_above ? " and below " : " and up to ")
         << range.most;
    return text.str();
  }
  text << (option.kind == OptionKind::kWhole ? "a whole number" : "a number");
  if (range.most == std::numeric_limits<double>::infinity()) {
    text << " of at least " << range.least;
  } else {
    text << " from " << range.least << " to " << range.most;
  }
  return text.str();
}

// "{a,b,c}": the same form in which CLI11 lists the values of the tools' other flags.
std::string Braced(std::span<const std::string_view> names) {
  std::string all;
  for (const std::string_view name : names) all.append(all.empty() ? "{" : ",").append(name);
  return all + "}";
}

// "neither a nor b" for two names, "none of a, b and c" for more.
std::string NoneOf(std::span<const std::string_view> names) {
  if (names.size() == 2) {
    return std::string("neither ").append(names[0]).append(" nor ").append(names[1]);
  }
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 < names.size() ? ", " : " and ";
    list += names[i];
  }
  return "none of " + list;
}

// Whether the range holds the number, also after it is rounded to a float, which most fields are:
// 1e-50 is above 0, but would be stored as 0, which the engine reads as "the default".
bool FloatHoldsNumber(const OptionRange& range, double number) {
  return range.Holds(number) && range.Holds(static_cast<double>(static_cast<float>(number)));
}

// The value that a text stands for; nothing where the option may not have it. For every kind but
// kFlag and kTexts, which callers treat themselves. An empty kText is "not given", not an error.
std::optional<OptionValue> ParseText(const lectern::Option& option, const std::string& text) {
  switch (option.kind) {
    case OptionKind::kNumber: {
      if (!option.word.empty() && text == option.word) return option.word_number;
      const std::optional<double> number = ParseNumber<double>(text);
      if (!number || !FloatHoldsNumber(option.range, *number)) return std::nullopt;
      return *number;
    }
    case OptionKind::kWhole: {
      const std::optional<uint64_t> number = ParseNumber<uint64_t>(text);
      if (!number || !option.range.Holds(static_cast<double>(*number))) return std::nullopt;
      return *number;
    }
    case OptionKind::kBytes: {
      const std::optional<uint64_t> bytes = ParseBytes(text);
      if (!bytes) return std::nullopt;
      return *bytes;
    }
    case OptionKind::kChoice:
    case OptionKind::kEnumeration: {
      const uint64_t number = ChoiceNumber(option, text);
      if (number == 0) return std::nullopt;
      return option.kind == OptionKind::kChoice ? OptionValue(text) : OptionValue(number);
    }
    case OptionKind::kText:
      return text.empty() ? OptionValue() : OptionValue(text);
    case OptionKind::kFlag:
    case OptionKind::kTexts:
      break;
  }
  return std::nullopt;
}

bool IsChoice(const lectern::Option& option) {
  return option.kind == OptionKind::kChoice || option.kind == OptionKind::kEnumeration;
}

// Adds one more text to an option that may be given several times. All are checked together,
// because the limit is one of their total length; the complaint is the engine's own, in its wording
// for command lines.
std::string AddText(const lectern::Option& option, const std::string& text, OptionValue& value) {
  std::vector<std::string> texts;
  if (const auto* const before = std::get_if<std::vector<std::string>>(&value)) texts = *before;
  texts.push_back(text);
  const Status status = CheckOption(option, texts);
  value = std::move(texts);
  return status.wordings().cli_text();
}

}  // namespace

std::string ReadFlag(const lectern::Option& option, const std::string& text, OptionValue& value) {
  if (option.kind == OptionKind::kTexts) return AddText(option, text, value);
  if (option.is_never_empty && text.empty()) return "is empty";
  std::optional<OptionValue> parsed = ParseText(option, text);
  if (parsed) {
    value = *std::move(parsed);
    return "";
  }
  return text + (IsChoice(option) ? " not in " + Braced(option.choice_names())
                                  : " is not " + RangeText(option));
}

std::string ReadVariable(const lectern::Option& option, OptionValue& value) {
  if (IsGiven(value) || !option.has_variable) return "";
  const std::string variable = VariableOf(option);
  const char* const set = std::getenv(variable.c_str());
  const std::string text = set ? set : "";
  if (text.empty()) return "";
  std::optional<OptionValue> parsed = ParseText(option, text);
  if (parsed) {
    value = *std::move(parsed);
    return "";
  }
  return variable + "=\"" + text + "\" is " +
         (IsChoice(option) ? NoneOf(option.choice_names()) : "not " + RangeText(option));
}

Option AddOptionFlag(CommandLine& app, const lectern::Option& option, const std::string& help,
                     OptionValue& value) {
  const std::string flag = FlagOf(option);
  // A flag turns the default around: FlagOf is --no-NAME where the option is on.
  if (option.kind == OptionKind::kFlag) {
    const bool given = !option.is_on;
    return app.AddFlag(
        flag, [&value, given] { value = given; }, help);
  }
  const Take take = [&option, &value](const std::string& text) {
    return ReadFlag(option, text, value);
  };
  const Option added = option.kind == OptionKind::kTexts ? app.AddRepeatedOption(flag, take, help)
                                                         : app.AddOption(flag, take, help);
  if (*option.value_name != '\0') added.TypeName(option.value_name);
  return added;
}

}  // namespace lectern::tools
