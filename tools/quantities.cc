#include "tools/quantities.h"

#include <charconv>
#include <cmath>
#include <cstdio>

namespace lectern::tools {
namespace {

std::string OneDecimal(double value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

}  // namespace

std::string Grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t digits = 3; digits < text.size(); digits += 4) text.insert(text.size() - digits, ",");
  return text;
}

std::string Short(double number) {
  if (number >= 99.5) return Grouped(static_cast<uint64_t>(std::round(number)));
  char text[64];
  std::snprintf(text, sizeof text, "%.2g", number);
  return text;
}

std::string Bytes(uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* const larger : {" kB", " MB", " GB", " TB", " PB"}) {
    if (value < 999.95) break;  // which would be printed as "1000.0"
    value /= 1000;
    unit = larger;
  }
  return OneDecimal(value) + unit;
}

std::optional<uint64_t> ParseBytes(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit(at, static_cast<size_t>(end - at));
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  if (unit.ends_with('B')) unit.remove_suffix(1);
  const bool is_binary = unit.size() == 2 && unit.ends_with('i');
  if (is_binary) unit.remove_suffix(1);
  // A letter's place in the string is its power of 1000 or 1024; "K" is taken for "k", as many
  // write.
  const size_t power = unit.empty() ? 0 : std::string_view(" kMGTP").find(unit == "K" ? "k" : unit);
  if (unit.size() > 1 || unit == " " || power == std::string_view::npos) return std::nullopt;
  value *= std::pow(is_binary ? 1024.0 : 1000.0, static_cast<double>(power));
  if (!(value >= 1 && value < 0x1p63)) return std::nullopt;
  return static_cast<uint64_t>(value);
}

std::string Duration(double seconds) {
  if (!(seconds > 0)) return "0 ms";
  if (seconds < 1) return std::to_string(std::lround(seconds * 1000)) + " ms";
  if (seconds > 1e9) return "very long";
  const int64_t whole = std::llround(seconds);
  if (whole < 60) return std::to_string(whole) + " s";
  const int64_t minutes = whole / 60;
  if (minutes < 60) return std::to_string(minutes) + " min " + std::to_string(whole % 60) + " s";
  return std::to_string(minutes / 60) + " h " + std::to_string(minutes % 60) + " min";
}

std::string Percent(double share) { return OneDecimal(100 * share) + " %"; }

}  // namespace lectern::tools
