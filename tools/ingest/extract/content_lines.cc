#include "tools/ingest/extract/content_lines.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "tools/ingest/characters.h"
#include "tools/ingest/charset_conversion.h"

namespace lectern::tools {
namespace {

std::string UpperText(std::string_view text) {
  std::string upper(text);
  for (char& c : upper) {
    if (IsAsciiLower(c)) c = static_cast<char>(c - 'a' + 'A');
  }
  return upper;
}

int HexValue(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const size_t value = kDigits.find(Lower(c));
  return value == kDigits.npos ? -1 : static_cast<int>(value);
}

// Text in quoted-printable (RFC 2045), whose lines are joined already.
std::string FromQuotedPrintable(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_coded = text[i] == '=' && i + 2 < text.size() && HexValue(text[i + 1]) >= 0 &&
                          HexValue(text[i + 2]) >= 0;
    if (!is_coded) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(HexValue(text[i + 1]) * 16 + HexValue(text[i + 2]));
    i += 2;
  }
  return out;
}

// The place of the first of `signs` outside of quotes; npos: there is none.
size_t FindOutsideQuotes(std::string_view text, std::string_view signs) {
  bool is_quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') is_quoted = !is_quoted;
    if (!is_quoted && signs.find(text[i]) != signs.npos) return i;
  }
  return text.npos;
}

// Reads a number of `num_digits` digits off the front of `text`; -1: there is none.
int TakeDigits(std::string_view& text, size_t num_digits) {
  int number = 0;
  if (text.size() < num_digits) return -1;
  for (size_t i = 0; i < num_digits; ++i) {
    if (!IsAsciiDigit(text[i])) return -1;
    number = number * 10 + (text[i] - '0');
  }
  text.remove_prefix(num_digits);
  return number;
}

void SkipSign(std::string_view& text, char sign) {
  if (text.starts_with(sign)) text.remove_prefix(1);
}

}  // namespace

std::string ContentLine::Parameter(std::string_view parameter) const {
  std::string values;
  for (const auto& [name_of, of_it] : parameters) {
    if (name_of == parameter) values += (values.empty() ? "" : ",") + of_it;
  }
  return values;
}

std::string_view ContentLines::TakeLine() {
  const size_t end = std::min(rest_.find_first_of("\r\n"), rest_.size());
  const std::string_view line = rest_.substr(0, end);
  rest_.remove_prefix(end);
  rest_.remove_prefix(rest_.starts_with("\r\n") ? 2 : std::min<size_t>(rest_.size(), 1));
  return line;
}

// A line, and those that begin with a space or tab behind it. Quoted-printable joins lines with "="
// instead, and the space belongs to the next one.
std::string ContentLines::TakeUnfolded() {
  std::string line(TakeLine());
  const bool is_quoted =
      UpperText(std::string_view(line).substr(0, line.find(':'))).find("QUOTED-PRINTABLE") !=
      std::string::npos;
  while ((rest_.starts_with(' ') || rest_.starts_with('\t')) && !(is_quoted && line.ends_with('=')))
    line += TakeLine().substr(1);
  return line;
}

bool ContentLines::Next(ContentLine& line) {
  while (!rest_.empty()) {
    std::string text = TakeUnfolded();
    size_t colon = FindOutsideQuotes(text, ":");
    if (colon == std::string::npos) colon = text.find(':');  // a quote that nothing closes
    if (colon == std::string::npos || colon == 0) continue;
    line = {};
    std::string_view head = std::string_view(text).substr(0, colon);
    for (bool is_name = true; !head.empty(); is_name = false) {
      const size_t end = std::min(FindOutsideQuotes(head, ";"), head.size());
      const std::string_view part = head.substr(0, end);
      head.remove_prefix(std::min(end + 1, head.size()));
      if (is_name) {
        const size_t dot = part.find('.');
        line.group = part.substr(0, dot == part.npos ? 0 : dot);
        line.name = UpperText(part.substr(dot == part.npos ? 0 : dot + 1));
        continue;
      }
      const size_t equals = part.find('=');
      std::string value(equals == part.npos ? part : part.substr(equals + 1));
      std::erase(value, '"');
      const std::string name = equals == part.npos ? "TYPE" : UpperText(part.substr(0, equals));
      line.parameters.emplace_back(name, std::move(value));
    }
    line.value = text.substr(colon + 1);
    const std::string types = UpperText(line.Parameter("TYPE") + "," + line.Parameter("ENCODING"));
    if (types.find("QUOTED-PRINTABLE") == types.npos) return true;
    while (line.value.ends_with('=') && !rest_.empty()) {
      line.value.pop_back();
      line.value += TakeLine();
    }
    line.value = FromQuotedPrintable(line.value);
    const std::string encoding = EncodingOfLabel(line.Parameter("CHARSET"));
    if (!encoding.empty() && encoding != "UTF-8")
      line.value = ConvertToUtf8(line.value, encoding).text;
    return true;
  }
  return false;
}

std::string UnescapeValue(std::string_view value) {
  std::string out;
  for (size_t i = 0; i < value.size(); ++i) {
    if (value[i] != '\\' || i + 1 == value.size()) {
      out += value[i];
      continue;
    }
    ++i;
    out += value[i] == 'n' || value[i] == 'N' ? '\n' : value[i];
  }
  return out;
}

std::vector<std::string_view> SplitValue(std::string_view value, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t i = 0; i <= value.size(); ++i) {
    if (i < value.size() && value[i] == '\\') {
      ++i;
    } else if (i >= value.size() || value[i] == separator) {
      parts.push_back(value.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (begin < value.size()) parts.push_back(value.substr(begin));
  return parts;
}

std::string ReadableTime(std::string_view value, std::string_view zone) {
  constexpr std::string_view kDays[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                        "Thursday", "Friday", "Saturday"};
  std::string_view text = value;
  const int year = TakeDigits(text, 4);
  SkipSign(text, '-');
  const int month = TakeDigits(text, 2);
  SkipSign(text, '-');
  const int day = TakeDigits(text, 2);
  if (year < 0 || month < 0 || day < 0) return std::string(value);
  const std::chrono::year_month_day date{std::chrono::year(year),
                                         std::chrono::month(static_cast<unsigned>(month)),
                                         std::chrono::day(static_cast<unsigned>(day))};
  if (!date.ok()) return std::string(value);
  char written[40];
  std::snprintf(written, sizeof written, "%04d-%02d-%02d", year, month, day);
  const std::chrono::weekday weekday{std::chrono::sys_days(date)};
  std::string out = std::string(kDays[weekday.c_encoding()]) + ", " + written;
  if (!text.starts_with('T') && !text.starts_with(' ')) return out;
  text.remove_prefix(1);
  const int hour = TakeDigits(text, 2);
  SkipSign(text, ':');
  const int minute = TakeDigits(text, 2);
  if (hour < 0 || minute < 0) return out;
  std::snprintf(written, sizeof written, ", %02d:%02d", hour, minute);
  out += written;
  if (value.ends_with('Z')) return out + " UTC";
  return zone.empty() ? out : out + " (" + std::string(zone) + ")";
}

}  // namespace lectern::tools
