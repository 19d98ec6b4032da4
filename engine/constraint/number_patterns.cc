#include "engine/constraint/number_patterns.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace lectern {
namespace {

constexpr int64_t kLargest = 999'999'999'999'999;  // of kMostDigits digits
constexpr int kMostDecimals = 6;

std::string Choice(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += (all.empty() ? "" : "|") + part;
  return "(?:" + all + ")";
}

// Digits of a number, with zeros in front up to `width`, and a point before the last `decimals`.
struct Layout {
  int decimals = 0;
  std::string Digits(int64_t number) const {
    std::string digits = std::to_string(number);
    const auto least = static_cast<size_t>(decimals) + 1;
    if (digits.size() < least) digits.insert(0, least - digits.size(), '0');
    return digits;
  }
};

// Appends the pattern of the numbers from `first` to `last`: in one place digits run from that of
// `first` to that of `last`, to its left they are equal, and to its right all digits occur.
void AddBlock(int64_t first, int64_t last, const Layout& layout, std::vector<std::string>& parts) {
  const std::string low = layout.Digits(first), high = layout.Digits(last);
  std::string part;
  for (size_t i = 0; i < low.size(); ++i) {
    if (layout.decimals > 0 && i + static_cast<size_t>(layout.decimals) == low.size()) {
      part += "\\.";
    }
    if (low[i] == high[i]) {
      part += low[i];
    } else {
      part += std::string("[") + low[i] + "-" + high[i] + "]";
    }
  }
  parts.push_back(std::move(part));
}

// Appends patterns of the whole numbers from `first`, at least 0, to `last`: blocks in which the
// digits behind a common beginning run through a range, and those behind them through all.
void AddRange(int64_t first, int64_t last, const Layout& layout, std::vector<std::string>& parts) {
  while (first <= last) {
    // The largest block that begins here. Its digits must be as many, and in the place that is not
    // all digits it may run up to 9.
    int64_t size = 1;
    while (first % (size * 10) == 0 && first > 0 && first + size * 10 - 1 <= last) size *= 10;
    const int64_t place = first / size % 10;
    int64_t end = first + size - 1;
    for (int64_t digit = place + 1; digit <= 9 && end + size <= last; ++digit) end += size;
    AddBlock(first, end, layout, parts);
    first = end + 1;
  }
}

// Bounds as whole numbers of units of 10^-decimals; least above most: there is none between.
struct Scaled {
  int64_t least = -kLargest, most = kLargest;
};

// Decimals that a bound needs, up to kMostDecimals.
int DecimalsOf(const std::optional<double>& bound) {
  if (!bound) return 0;
  double scaled = std::abs(*bound);
  int decimals = 0;
  while (decimals < kMostDecimals && scaled != std::floor(scaled)) {
    scaled = std::abs(*bound) * std::pow(10.0, ++decimals);
    // 0.1 * 10 and the like are whole but for rounding.
    if (std::abs(scaled - std::round(scaled)) < 1e-9 * std::max(1.0, scaled)) break;
  }
  return decimals;
}

// Rounds the bounds inwards. `keeps_excluded`: a bound that is excluded stays the end of the range.
Scaled Scale(const NumberBounds& bounds, int decimals, bool keeps_excluded) {
  const double unit = std::pow(10.0, decimals);
  const auto inward = [&](double bound, bool up) {
    const double scaled = bound * unit, nearest = std::round(scaled);
    const bool is_whole = std::abs(scaled - nearest) < 1e-9 * std::max(1.0, std::abs(scaled));
    const double whole = is_whole ? nearest : up ? std::ceil(scaled) : std::floor(scaled);
    return static_cast<int64_t>(
        std::clamp(whole, -static_cast<double>(kLargest) - 1, static_cast<double>(kLargest) + 1));
  };
  const auto is_at = [&](double bound, int64_t whole) {
    return std::abs(bound * unit - static_cast<double>(whole)) <
           1e-9 * std::max(1.0, std::abs(bound * unit));
  };
  Scaled scaled;
  if (bounds.least) {
    scaled.least = inward(*bounds.least, true);
    const bool excludes = bounds.is_least_excluded && is_at(*bounds.least, scaled.least);
    if (excludes && !keeps_excluded) ++scaled.least;
  }
  if (bounds.most) {
    scaled.most = inward(*bounds.most, false);
    const bool excludes = bounds.is_most_excluded && is_at(*bounds.most, scaled.most);
    if (excludes && !keeps_excluded) --scaled.most;
  }
  scaled.least = std::max(scaled.least, -kLargest);
  scaled.most = std::min(scaled.most, kLargest);
  return scaled;
}

// Appends patterns of numbers from `least` to `most` units, 0 and more, with more digits behind
// where that stays below `most`. The ends may be excluded. `sign`: before each.
void AddDecimals(int64_t least, int64_t most, bool excludes_least, bool excludes_most,
                 const Layout& layout, const std::string& sign, std::vector<std::string>& all) {
  if (least > most) return;
  const std::string more = layout.decimals > 0 ? "[0-9]{0,9}" : "(?:\\.[0-9]{1,12})?";
  const std::string above = layout.decimals > 0 ? "[0-9]{0,9}[1-9]" : "\\.[0-9]{0,11}[1-9]";
  const auto one = [&](int64_t number) {
    std::vector<std::string> parts;
    AddBlock(number, number, layout, parts);
    return parts[0];
  };
  if (excludes_least && least < most) all.push_back(sign + one(least) + above);
  std::vector<std::string> parts;
  AddRange(least + excludes_least, most - 1, layout, parts);
  if (!parts.empty()) all.push_back(sign + Choice(parts) + more);
  if (!excludes_most && !(excludes_least && least == most)) all.push_back(sign + one(most));
}

}  // namespace

std::optional<std::string> IntegerPattern(const NumberBounds& bounds) {
  if (!bounds.least && !bounds.most) return "-?(?:0|[1-9][0-9]{0,14})";
  const Scaled range = Scale(bounds, 0, false);
  if (range.least > range.most) return std::nullopt;
  std::vector<std::string> all;
  if (range.least < 0) {
    std::vector<std::string> parts;
    AddRange(std::max<int64_t>(1, -range.most), -range.least, {}, parts);
    if (!parts.empty()) all.push_back("-" + Choice(parts));
  }
  if (range.most >= 0) AddRange(std::max<int64_t>(0, range.least), range.most, {}, all);
  return Choice(all);
}

std::optional<std::string> NumberPattern(const NumberBounds& bounds) {
  if (!bounds.least && !bounds.most) {
    return "-?(?:0|[1-9][0-9]{0,14})(?:\\.[0-9]{1,15})?(?:[eE][-+]?[1-9][0-9]?)?";
  }
  const Layout layout = {std::max(DecimalsOf(bounds.least), DecimalsOf(bounds.most))};
  const Scaled range = Scale(bounds, layout.decimals, true);
  const bool excludes_least = bounds.is_least_excluded, excludes_most = bounds.is_most_excluded;
  if (range.least > range.most) return std::nullopt;
  std::vector<std::string> all;
  if (range.least < 0) {
    const bool reaches_zero = range.most >= 0;
    const bool excludes_end = excludes_most && range.most <= 0;
    AddDecimals(reaches_zero ? 0 : -range.most, -range.least, excludes_end, excludes_least, layout,
                "-", all);
  }
  if (range.most >= 0) {
    AddDecimals(std::max<int64_t>(0, range.least), range.most, range.least >= 0 && excludes_least,
                excludes_most, layout, "", all);
    // Whole numbers need no point.
    if (layout.decimals > 0) {
      const auto whole = IntegerPattern(bounds);
      if (whole) all.push_back(*whole);
    }
  }
  if (all.empty()) return std::nullopt;
  return Choice(all);
}

}  // namespace lectern
