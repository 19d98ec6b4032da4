#include "tools/ingest/linear_math.h"

#include <algorithm>
#include <cstdint>

#include "tools/ingest/characters.h"

namespace lectern::tools {

std::string MathGroup(const std::string& text) {
  const bool is_simple = std::all_of(text.begin(), text.end(), [](char c) {
    return IsAsciiLetter(c) || IsAsciiDigit(c) || c == '.' || static_cast<uint8_t>(c) >= 0x80;
  });
  int depth = 0;
  size_t num_tops = 0;  // characters that are in no parentheses
  for (const char c : text) {
    depth += c == '(' ? 1 : c == ')' ? -1 : 0;
    num_tops += depth == 0;
  }
  const bool is_grouped = text.starts_with('(') && num_tops == 1;  // the last one closes the first
  return is_simple || is_grouped ? text : "(" + text + ")";
}

std::string MathFraction(const std::string& above, const std::string& below) {
  return MathGroup(above) + "/" + MathGroup(below);
}

std::string MathScripts(const std::string& base, const std::string& below,
                        const std::string& above) {
  std::string text = base;
  if (!below.empty()) text += "_" + MathGroup(below);
  const std::string number = Superscript(above);
  if (!above.empty()) text += number.empty() ? "^" + MathGroup(above) : number;
  return text;
}

std::string MathRoot(const std::string& inside, const std::string& degree) {
  if (degree.empty() || degree == "2") return "√" + MathGroup(inside);
  return MathGroup(inside) + "^(1/" + degree + ")";
}

}  // namespace lectern::tools
