// Patterns of the numbers between two bounds, as JSON writes them.
#ifndef LECTERN_ENGINE_CONSTRAINT_NUMBER_PATTERNS_H_
#define LECTERN_ENGINE_CONSTRAINT_NUMBER_PATTERNS_H_

#include <optional>
#include <string>

namespace lectern {

// Whole numbers have at most so many digits, so that doubles hold them and no answer is a row of
// digits without an end.
inline constexpr int kMostDigits = 15;

// Bounds of "minimum", "exclusiveMinimum" and so on.
struct NumberBounds {
  std::optional<double> least, most;
  bool is_least_excluded = false, is_most_excluded = false;
};
// The pattern (pattern.h) of the whole numbers within the bounds, "-?(0|[1-9][0-9]{0,14})" without
// any; nothing: there is none of kMostDigits digits.
std::optional<std::string> IntegerPattern(const NumberBounds& bounds);
// The same for numbers with a point. Between bounds there are no exponents, and where a bound has a
// fraction, numbers have at least as many digits behind the point. Bounds of more than 6 such
// digits are rounded to 6, inwards.
std::optional<std::string> NumberPattern(const NumberBounds& bounds);

}  // namespace lectern

#endif  // LECTERN_ENGINE_CONSTRAINT_NUMBER_PATTERNS_H_
