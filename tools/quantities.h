// Numbers as people read them. ASCII, the same in every locale.
#ifndef LECTERN_TOOLS_QUANTITIES_H_
#define LECTERN_TOOLS_QUANTITIES_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lectern::tools {

// The number that the whole text is; nullopt: it is none, or does not fit.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::string Grouped(uint64_t number);  // "12,345"
std::string Bytes(uint64_t bytes);     // "812 bytes", "1.2 GB" (powers of 1000)
// The other way: "1500", "500 MB", "1.5G" (powers of 1000), "2GiB" (of 1024), at least 1 byte.
std::optional<uint64_t> ParseBytes(std::string_view text);
std::string Duration(double seconds);  // "850 ms", "12 s", "3 min 2 s", "2 h 5 min"
std::string Percent(double share);     // 0.1034: "10.3 %"
std::string Short(double number);      // two digits, or the whole: "0.0031", "42", "1,234"

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_QUANTITIES_H_
