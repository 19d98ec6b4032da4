#include "engine/requests/option.h"

#include <sstream>

namespace lectern {
namespace {

std::string Shown(double number) {
  std::ostringstream text;
  text.precision(15);
  text << number;
  return text.str();
}

// "a, b or c".
std::string Alternatives(std::span<const std::string_view> names) {
  std::string list;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) list += i + 1 < names.size() ? ", " : " or ";
    list += names[i];
  }
  return list;
}

Status Wrong(const Option& option, const Message& what) {
  return Status(Code::kInvalidArgument, NameOf(option) + " " + what).WithParam(option.name);
}

Status CheckNumber(const Option& option, double number) {
  if (HoldsNumber(option, number)) return {};
  if (option.range.most == std::numeric_limits<double>::infinity()) {
    return Wrong(option, "must be at least " + Shown(option.range.least));
  }
  const std::string word = option.word.empty() ? "" : " or \"" + std::string(option.word) + "\"";
  return Wrong(option, "must be in " + Interval(option.range) + word);
}

// kInvalidArgument: an empty text, or more bytes in all than the option's range allows.
Status CheckTexts(const Option& option, const std::vector<std::string>& texts) {
  size_t bytes = 0;
  for (const std::string& text : texts) {
    if (text.empty()) {
      return Status(Code::kInvalidArgument, "one of " + NameOf(option) + " is empty")
          .WithParam(option.name);
    }
    bytes += text.size();
  }
  if (static_cast<double>(bytes) <= option.range.most) return {};
  return Wrong(option, "have more than " + Shown(option.range.most) + " bytes; give shorter ones");
}

}  // namespace

bool OptionRange::Holds(double number) const {
  const bool is_enough = is_open_below ? number > least : number >= least;
  return is_enough && (is_open_above ? number < most : number <= most);
}

std::span<const std::string_view> Option::choice_names() const {
  const auto end = std::ranges::find(choices, std::string_view());
  return {choices.begin(), end};
}

std::string FlagOf(const Option& option) {
  if (option.flag) return FlagName(option.flag);
  return FlagName((option.is_on ? "no_" : "") + std::string(option.name));
}

std::string FieldOf(const Option& option) { return option.field ? option.field : option.name; }

std::string VariableOf(const Option& option) {
  std::string variable = "LECTERN_" + std::string(option.name);
  std::ranges::transform(variable, variable.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  });
  return variable;
}

Message NameOf(const Option& option) { return {option.name, FlagOf(option)}; }

std::string Interval(const OptionRange& range) {
  return (range.is_open_below ? "(" : "[") + Shown(range.least) + ", " + Shown(range.most) +
         (range.is_open_above ? ")" : "]");
}

bool HoldsNumber(const Option& option, double number) {
  return option.range.Holds(number) || (!option.word.empty() && number == option.word_number);
}

std::string HelpText(const Option& option, std::string_view text,
                     const std::function<std::string(std::string_view name)>& name_of) {
  std::string help;
  for (size_t open; (open = text.find('{')) != text.npos;) {
    const size_t close = text.find('}', open);
    help.append(text.substr(0, open)).append(name_of(text.substr(open + 1, close - open - 1)));
    text.remove_prefix(close + 1);
  }
  help += text;
  const std::string_view default_text = option.default_text;
  if (default_text.empty()) return help;
  const std::string variable = option.has_variable ? "$" + VariableOf(option) + ", else " : "";
  return help.append(" (default: ").append(variable).append(default_text).append(")");
}

uint64_t ChoiceNumber(const Option& option, std::string_view name) {
  const auto names = option.choice_names();
  const auto found = std::ranges::find(names, name);
  return found == names.end() ? 0 : static_cast<uint64_t>(found - names.begin()) + 1;
}

Status CheckOption(const Option& option, const OptionValue& value) {
  if (!IsGiven(value)) return {};
  switch (option.kind) {
    case OptionKind::kFlag:
    case OptionKind::kBytes:
    case OptionKind::kText:
      return {};
    case OptionKind::kNumber:
      return CheckNumber(option, std::get<double>(value));
    case OptionKind::kWhole:
      return CheckNumber(option, static_cast<double>(std::get<uint64_t>(value)));
    case OptionKind::kChoice: {
      const std::string& text = std::get<std::string>(value);
      if (ChoiceNumber(option, text) > 0) return {};
      return Wrong(option,
                   "must be " + Alternatives(option.choice_names()) + ", not \"" + text + "\"");
    }
    case OptionKind::kEnumeration: {
      const uint64_t number = std::get<uint64_t>(value);
      if (number >= 1 && number <= option.choice_names().size()) return {};
      return Wrong(option, "is not one of lectern_" + std::string(option.name));
    }
    case OptionKind::kTexts:
      return CheckTexts(option, std::get<std::vector<std::string>>(value));
  }
  return {};
}

}  // namespace lectern
