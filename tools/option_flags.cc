#include "tools/option_flags.h"

#include <charconv>
#include <optional>
#include <sstream>
#include <system_error>

namespace lectern::tools {
namespace {

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// "a share above 0 and up to 1", "a number from 0 to 10", "a whole number of at least 64".
std::string RangeText(const lectern::Option& option) {
  const OptionRange& range = option.range;
  std::ostringstream text;
  text.precision(15);
  if (range.is_open_below) {
    text << "a share above " << range.least << (range.is_open_above ? " and below " : " and up to ")
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

std::string Joined(std::span<const std::string_view> names) {
  std::string all;
  for (const std::string_view name : names) all.append(all.empty() ? "" : ",").append(name);
  return all;
}

// A float, which most fields are, must hold what was given: 1e-50 would be 0, the default.
bool HoldsNumber(const OptionRange& range, double number) {
  return range.Holds(number) && range.Holds(static_cast<double>(static_cast<float>(number)));
}

}  // namespace

std::string ParseOption(const lectern::Option& option, const std::string& text,
                        OptionValue& value) {
  switch (option.kind) {
    case OptionKind::kNumber: {
      const std::optional<double> number = ParseNumber<double>(text);
      if (!number || !HoldsNumber(option.range, *number)) {
        return text + " is not " + RangeText(option);
      }
      value = *number;
      return "";
    }
    case OptionKind::kWhole: {
      const std::optional<uint64_t> number = ParseNumber<uint64_t>(text);
      if (!number || !option.range.Holds(static_cast<double>(*number))) {
        return text + " is not " + RangeText(option);
      }
      value = *number;
      return "";
    }
    case OptionKind::kChoice:
    case OptionKind::kEnumeration: {
      const uint64_t number = ChoiceNumber(option, text);
      if (number == 0) return text + " not in {" + Joined(option.choice_names()) + "}";
      value = option.kind == OptionKind::kChoice ? OptionValue(text) : OptionValue(number);
      return "";
    }
    case OptionKind::kTexts: {
      std::vector<std::string> texts;
      if (const auto* const before = std::get_if<std::vector<std::string>>(&value)) texts = *before;
      texts.push_back(text);
      if (const Status status = CheckOption(option, texts); !status.ok()) {
        return status.wordings().cli_text();
      }
      value = std::move(texts);
      return "";
    }
    case OptionKind::kText:
      value = text;
      return "";
    case OptionKind::kFlag:
      break;  // has no text
  }
  return "";
}

Option AddOptionFlag(CommandLine& app, const lectern::Option& option, const std::string& help,
                     OptionValue& value) {
  const std::string flag = FlagOf(option);
  if (option.kind == OptionKind::kFlag) {
    const bool given = !option.is_on;
    return app.AddFlag(flag, [&value, given] { value = given; }, help);
  }
  const Take take = [&option, &value](const std::string& text) {
    return ParseOption(option, text, value);
  };
  const Option added = option.kind == OptionKind::kTexts ? app.AddRepeatedOption(flag, take, help)
                                                         : app.AddOption(flag, take, help);
  if (*option.value_name != '\0') added.TypeName(option.value_name);
  return added;
}

}  // namespace lectern::tools
