#include "tools/quantities.h"

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

std::string Bytes(uint64_t bytes) {
  if (bytes < 1000) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* const larger : {" kB", " MB", " GB", " TB", " PB"}) {
    if (value < 999.95) break;
    value /= 1000;
    unit = larger;
  }
  return OneDecimal(value) + unit;
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
