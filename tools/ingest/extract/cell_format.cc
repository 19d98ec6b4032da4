#include "tools/ingest/extract/cell_format.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

// Reads the first section of a code, sign by sign.
class CodeReader {
 public:
  CellFormat Read(std::string_view code) {
    for (size_t i = 0; i < code.size() && code[i] != ';';) i += Step(code.substr(i));
    return Result();
  }

 private:
  // Reads one sign or group of a code; returns its bytes.
  size_t Step(std::string_view rest) {
    const char c = Lower(rest[0]);
    if (c == '"') {
      const size_t end = std::min(rest.find('"', 1), rest.size());
      Literal(rest.substr(1, end - 1));
      return end + 1;
    }
    if (c == '\\' || c == '_' || c == '*') {
      if (c == '\\' && rest.size() > 1) Literal(rest.substr(1, 1));
      return 2;
    }
    if (c == '[') return Bracket(rest);
    if (c == 'g' && rest.size() >= 7 && Lower(rest[1]) == 'e') return is_general_ = true, 7;
    if (c == 'a' && rest.size() > 1 && (Lower(rest[1]) == 'm' || rest[1] == '/')) {
      has_time_ = true;
      return Lower(rest[1]) == 'm' ? 5 : 3;  // AM/PM, A/P
    }
    if (c == 'y' || c == 'd') has_date_ = true;
    if (c == 'h' || c == 's') has_time_ = true;
    if (c == 'm') has_month_ = true;
    if (c == 'e' || c == '@') is_general_ |= c == '@' || has_digits_;
    if (c == '?' && has_digits_) is_general_ |= rest.find('/') != std::string_view::npos;
    if (c == '0' || c == '#' || c == '?') {
      has_digits_ = true;
      num_commas_ = 0;
      if (is_behind_point_) (c == '0' ? min_ : optional_) += 1;
      if (!is_behind_point_ && c == '0') ++num_zeros_;
    }
    if (c == '.') is_behind_point_ = true;
    if (c == ',' && has_digits_) ++num_commas_;
    if (c == '%') is_percent_ = true;
    const bool is_literal = c == ' ' || c == '$' || static_cast<uint8_t>(c) >= 0x80;
    if (is_literal) Literal(rest.substr(0, 1));
    return 1;
  }

  // "[$€-407]" is a currency, "[h]" a duration, "[Red]" none of ours. A section with a condition
  // ("[>=1000]0.0,K") is for some values alone: all are written in full.
  size_t Bracket(std::string_view rest) {
    const size_t end = std::min(rest.find(']'), rest.size());
    const std::string_view inside = rest.substr(1, end - 1);
    if (inside.starts_with('$')) Literal(inside.substr(1, inside.find('-') - 1));
    const auto is_unit = [](char c) {
      return Lower(c) == 'h' || Lower(c) == 'm' || Lower(c) == 's';
    };
    is_general_ |= inside.find_first_of("<>=") == 0;
    is_duration_ |= !inside.empty() && std::all_of(inside.begin(), inside.end(), is_unit);
    return end + 1;
  }

  void Literal(std::string_view text) { (has_digits_ ? suffix_ : prefix_) += text; }

  CellFormat Result() {
    using Kind = CellFormat::Kind;
    CellFormat format;
    if (is_duration_) {
      format.kind = Kind::kDuration;
    } else if (has_date_ || (has_month_ && !has_time_)) {
      format.kind = has_time_ ? Kind::kDateTime : Kind::kDate;
    } else if (has_time_) {
      format.kind = Kind::kTime;
    } else if (has_digits_ && !is_general_) {
      format.kind = Kind::kNumber;
      format.min_decimals = std::min(min_, 15);
      format.max_decimals = std::min(min_ + optional_, 15);
      format.is_percent = is_percent_;
      format.min_digits = std::min(num_zeros_, 15);
      format.num_thousands = std::min(num_commas_, 6);
      format.prefix = prefix_;
      format.suffix = suffix_;
    }
    return format;
  }

  bool has_date_ = false, has_time_ = false, has_month_ = false, is_duration_ = false;
  bool has_digits_ = false, is_behind_point_ = false, is_percent_ = false, is_general_ = false;
  int min_ = 0, optional_ = 0;
  int num_zeros_ = 0;   // before the point
  int num_commas_ = 0;  // behind the last digit
  std::string prefix_, suffix_;
};

std::string Printed(const char* format, int decimals, double value) {
  char buffer[400];
  const int size = std::snprintf(buffer, sizeof buffer, format, decimals, value);
  return std::string(buffer, static_cast<size_t>(std::clamp(size, 0, 399)));
}

std::string General(double value) {
  const bool is_whole = std::abs(value) < 1e15 && value == std::floor(value);
  return Printed(is_whole ? "%.*f" : "%.*g", is_whole ? 0 : 15, value);
}

std::string Number(double value, const CellFormat& format) {
  if (format.is_percent) value *= 100;
  for (int i = 0; i < format.num_thousands; ++i) value /= 1000;
  std::string text = Printed("%.*f", format.max_decimals, value);
  for (int more = format.max_decimals - format.min_decimals; more > 0 && text.ends_with('0');
       --more)
    text.pop_back();
  if (text.ends_with('.')) text.pop_back();
  const bool is_negative = text.starts_with('-');
  if (is_negative) text.erase(0, 1);
  const auto num_digits = static_cast<int>(std::min(text.find('.'), text.size()));
  text.insert(0, static_cast<size_t>(std::max(0, format.min_digits - num_digits)), '0');
  return (is_negative ? "-" : "") + format.prefix + text + (format.is_percent ? "%" : "") +
         format.suffix;
}

// The date of a day counted from 1970-01-01 (Howard Hinnant's days_from_civil, inverted).
std::string Date(int64_t day) {
  day += 719468;
  const int64_t era = day / 146097;
  const int64_t of_era = day - era * 146097;
  const int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  const int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t shifted = (5 * of_year + 2) / 153;
  const int64_t month = shifted < 10 ? shifted + 3 : shifted - 9;
  const int64_t year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%04d-%02d-%02d", static_cast<int>(year),
                static_cast<int>(month), static_cast<int>(of_year - (153 * shifted + 2) / 5 + 1));
  return buffer;
}

// "09:30", with seconds where there are any. `seconds` below 100 hours for a time of day.
std::string Time(int64_t seconds) {
  char buffer[40];
  const auto hours = static_cast<long long>(seconds / 3600);
  std::snprintf(buffer, sizeof buffer, "%02lld:%02d", hours, static_cast<int>(seconds / 60 % 60));
  std::string text = buffer;
  if (seconds % 60 == 0) return text;
  std::snprintf(buffer, sizeof buffer, ":%02d", static_cast<int>(seconds % 60));
  return text + buffer;
}

}  // namespace

CellFormat ParseCellFormat(std::string_view code) { return CodeReader().Read(code); }

CellFormat BuiltInCellFormat(int id) {
  using Kind = CellFormat::Kind;
  CellFormat format;
  if (id == 2 || id == 4 || id == 10 || id == 39 || id == 40 || id == 43 || id == 44) {
    format = {.kind = Kind::kNumber, .min_decimals = 2, .max_decimals = 2, .is_percent = id == 10};
  } else if (id == 1 || id == 3 || id == 9 || id == 37 || id == 38 || id == 41 || id == 42) {
    format = {.kind = Kind::kNumber, .is_percent = id == 9};
  } else if ((id >= 14 && id <= 17) || (id >= 27 && id <= 31) || (id >= 50 && id <= 54) ||
             id == 36 || id == 57 || id == 58) {
    format.kind = Kind::kDate;
  } else if ((id >= 18 && id <= 21) || (id >= 32 && id <= 35) || id == 45 || id == 47 || id == 55 ||
             id == 56) {
    format.kind = Kind::kTime;
  } else if (id == 22) {
    format.kind = Kind::kDateTime;
  } else if (id == 46) {
    format.kind = Kind::kDuration;
  }
  return format;
}

std::string FormatCell(double value, const CellFormat& format, bool is_1904) {
  using Kind = CellFormat::Kind;
  constexpr double kMostDays = 2958466;  // the year 10000
  constexpr int64_t kDaySeconds = 86400;
  if (format.kind == Kind::kNumber && std::isfinite(value)) return Number(value, format);
  if (format.kind == Kind::kGeneral || !(value >= 0 && value < kMostDays)) return General(value);
  const int64_t seconds = std::llround(value * kDaySeconds);
  if (format.kind == Kind::kDuration) return Time(seconds);
  if (format.kind == Kind::kTime) return Time(seconds % kDaySeconds);
  // Day 0 is 1899-12-30, because 1900 counts as a leap year; before that day's end, it is one less.
  int64_t day = seconds / kDaySeconds - 25569;
  if (is_1904) day += 1462;
  if (!is_1904 && seconds / kDaySeconds < 61) ++day;
  std::string text = Date(day);
  if (format.kind == Kind::kDateTime) text += " " + Time(seconds % kDaySeconds);
  return text;
}

}  // namespace lectern::tools
