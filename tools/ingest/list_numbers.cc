#include "tools/ingest/list_numbers.h"

#include <string_view>

namespace lectern::tools {
namespace {

std::string Roman(int number) {
  struct Step {
    int value;
    std::string_view text;
  };
  constexpr Step kSteps[] = {{1000, "m"}, {900, "cm"}, {500, "d"}, {400, "cd"}, {100, "c"},
                             {90, "xc"},  {50, "l"},   {40, "xl"}, {10, "x"},   {9, "ix"},
                             {5, "v"},    {4, "iv"},   {1, "i"}};
  std::string text;
  for (const Step& step : kSteps) {
    for (; number >= step.value; number -= step.value) text += step.text;
  }
  return text;
}

}  // namespace

std::string NumberText(int number, NumberStyle style) {
  std::string text;
  const bool is_roman = style == NumberStyle::kLowerRoman || style == NumberStyle::kUpperRoman;
  if (number < 1 || style == NumberStyle::kDecimal || (is_roman && number >= 4000) ||
      number > 26 * 100) {
    return std::to_string(number);
  }
  if (is_roman) {
    text = Roman(number);
  } else {
    text.assign(static_cast<size_t>((number - 1) / 26 + 1),
                static_cast<char>('a' + (number - 1) % 26));
  }
  if (style == NumberStyle::kUpperLetter || style == NumberStyle::kUpperRoman) {
    for (char& c : text) c = static_cast<char>(c - 'a' + 'A');
  }
  return text;
}

}  // namespace lectern::tools
