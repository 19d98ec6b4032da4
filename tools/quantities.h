// Prints numbers, sizes and times as people read them, and parses those that users type, for all
// tools. ASCII, and the same in every locale. Pure functions: any thread.
#ifndef LECTERN_TOOLS_QUANTITIES_H_
#define LECTERN_TOOLS_QUANTITIES_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lectern::tools {

// The number that the whole text is, in the C++ form of from_chars (no spaces, no "+"); nothing
// where it is none, something follows, or T cannot hold it. For a floating-point T, "inf" and "nan"
// are numbers; callers check the range.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string Grouped(uint64_t number);  // thousands apart: "12,345"
std::string Bytes(uint64_t bytes);     // "812 bytes", "1.2 GB" (powers of 1000, up to PB)
// Parses a size in bytes: "1500", "500 MB", "1.5G" (k or K, M, G, T, P: powers of 1000), "2GiB"
// (with i: of 1024). One space may stand before the unit, and a B behind it. A fraction of a byte
// is cut off. Nothing where the text is no size, is below 1 byte, or is 2^63 bytes or more.
std::optional<uint64_t> ParseBytes(std::string_view text);
// "850 ms", "12 s", "3 min 2 s", "2 h 5 min"; the last unit is rounded, minutes behind hours are
// cut off. Zero, negative and NaN: "0 ms"; above 1e9: "very long".
std::string Duration(double seconds);
std::string Percent(double share);  // one decimal: 0.1034 is "10.3 %"; any number, also above 1
// Two significant digits below 100 ("0.0031", "42"; printf's %g: very small numbers and those that
// round to 100 get an exponent), and the whole number from 100 on ("1,234"; below 2^64).
std::string Short(double number);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_QUANTITIES_H_
