// iCalendar (RFC 5545): events, tasks and journals.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <string>
#include <vector>

#include "tools/ingest/characters.h"
#include "tools/ingest/extract/content_lines.h"
#include "tools/ingest/extract/readers.h"

namespace lectern::tools {
namespace {

// Properties that are shown as they are, in the order of the file.
struct ShownProperty {
  std::string_view property, name;
};
constexpr ShownProperty kTextProperties[] = {
    {"LOCATION", "Location"},   {"STATUS", "Status"},        {"CATEGORIES", "Categories"},
    {"COMMENT", "Comment"},     {"CONTACT", "Contact"},      {"URL", "Web address"},
    {"RESOURCES", "Resources"}, {"PRIORITY", "Priority"},    {"PERCENT-COMPLETE", "Percent done"},
    {"CLASS", "Class"},         {"CONFERENCE", "Conference"}};
constexpr ShownProperty kTimeProperties[] = {
    {"DTSTART", "Start"}, {"DUE", "Due"},    {"COMPLETED", "Completed"},
    {"EXDATE", "Except"}, {"RDATE", "Also"}, {"RECURRENCE-ID", "Instead of"},
    {"FREEBUSY", "Busy"}};
// Components that are entries of a calendar, and the titles of those that have none.
constexpr ShownProperty kEntries[] = {{"vevent", "Event"},
                                      {"vtodo", "Task"},
                                      {"vjournal", "Journal"},
                                      {"vfreebusy", "Busy times"},
                                      {"vavailability", "Availability"},
                                      {"available", "Available"}};

// "NEEDS-ACTION" as "needs action"; values with small letters as they are.
std::string Words(std::string text) {
  if (std::any_of(text.begin(), text.end(), IsAsciiLower)) return text;
  for (char& c : text) c = c == '-' || c == '_' ? ' ' : Lower(c);
  return text;
}

// The day before "20240302", as all-day events end on the day before the one that is written.
std::string DayBefore(const std::string& date) {
  const auto number = [&](size_t at, size_t size) {
    int value = 0;
    std::from_chars(date.data() + at, date.data() + at + size, value);
    return value;
  };
  if (date.size() != 8 || !std::all_of(date.begin(), date.end(), IsAsciiDigit)) return date;
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)),
                                        std::chrono::month(static_cast<unsigned>(number(4, 2))),
                                        std::chrono::day(static_cast<unsigned>(number(6, 2)))};
  if (!day.ok()) return date;
  const std::chrono::year_month_day before(std::chrono::sys_days(day) - std::chrono::days(1));
  const int all = static_cast<int>(before.year()) * 10000 +
                  static_cast<int>(static_cast<unsigned>(before.month())) * 100 +
                  static_cast<int>(static_cast<unsigned>(before.day()));
  return all > 9999999 ? std::to_string(all) : date;
}

std::string ReadableDuration(std::string_view value);

// "20240301T081500/PT1H" as a time, "to" or "for", and the other one; a time alone as it is read.
std::string ReadablePeriod(std::string_view value, std::string_view zone) {
  const size_t slash = value.find('/');
  const std::string begin = ReadableTime(value.substr(0, slash), zone);
  if (slash == value.npos) return begin;
  const std::string_view end = value.substr(slash + 1);
  return end.starts_with('P') ? begin + " for " + ReadableDuration(end)
                              : begin + " to " + ReadableTime(end, zone);
}

// "PT1H30M" as "1 hour 30 minutes"; another value as it is.
std::string ReadableDuration(std::string_view value) {
  constexpr std::pair<char, std::string_view> kUnits[] = {
      {'W', "week"}, {'D', "day"}, {'H', "hour"}, {'M', "minute"}, {'S', "second"}};
  std::string out;
  std::string_view text = value;
  for (const char sign : {'+', 'P'}) {
    if (text.starts_with(sign)) text.remove_prefix(1);
  }
  while (!text.empty()) {
    if (text.starts_with('T')) text.remove_prefix(1);
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    if (digits == 0 || digits == text.size()) return std::string(value);
    const auto* const unit = std::find_if(std::begin(kUnits), std::end(kUnits),
                                          [&](const auto& u) { return u.first == text[digits]; });
    if (unit == std::end(kUnits)) return std::string(value);
    const std::string_view number = text.substr(0, digits);
    const bool is_zero = number.find_first_not_of('0') == number.npos;
    if (!is_zero) {
      out += (out.empty() ? "" : " ") + std::string(number) + " " + std::string(unit->second) +
             (number == "1" ? "" : "s");
    }
    text.remove_prefix(digits + 1);
  }
  return out;
}

// "MO", "2MO" and "-1FR" as "Monday", "2nd Monday" and "last Friday".
std::string DayName(std::string_view day) {
  constexpr std::pair<std::string_view, std::string_view> kDays[] = {
      {"MO", "Monday"}, {"TU", "Tuesday"},  {"WE", "Wednesday"}, {"TH", "Thursday"},
      {"FR", "Friday"}, {"SA", "Saturday"}, {"SU", "Sunday"}};
  for (const auto& [sign, name] : kDays) {
    if (!day.ends_with(sign)) continue;
    const std::string_view number = day.substr(0, day.size() - sign.size());
    const std::string_view place = number.starts_with('+') ? number.substr(1) : number;
    const std::string ordinal = place.empty()   ? ""
                                : place == "1"  ? "first "
                                : place == "2"  ? "second "
                                : place == "3"  ? "third "
                                : place == "4"  ? "fourth "
                                : place == "-1" ? "last "
                                                : std::string(place) + ". ";
    return ordinal + std::string(name);
  }
  return std::string(day);
}

// "FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE;COUNT=5" as "every 2 weeks, on Monday, Wednesday, 5 times".
std::string ReadableRule(std::string_view rule) {
  constexpr std::pair<std::string_view, std::string_view> kUnits[] = {
      {"SECONDLY", "second"}, {"MINUTELY", "minute"}, {"HOURLY", "hour"}, {"DAILY", "day"},
      {"WEEKLY", "week"},     {"MONTHLY", "month"},   {"YEARLY", "year"}};
  std::string unit, interval, rest;
  for (const std::string_view part : SplitValue(rule, ';')) {
    const size_t equals = part.find('=');
    if (equals == part.npos) continue;
    const std::string_view name = part.substr(0, equals), value = part.substr(equals + 1);
    if (name == "FREQ") {
      for (const auto& [frequency, word] : kUnits) {
        if (value == frequency) unit = word;
      }
    } else if (name == "INTERVAL") {
      interval = value;
    } else if (name == "COUNT") {
      rest += ", " + std::string(value) + " times";
    } else if (name == "UNTIL") {
      rest += ", until " + ReadableTime(value, "");
    } else if (name == "BYDAY") {
      std::string days;
      for (const std::string_view day : SplitValue(value, ','))
        days += (days.empty() ? "" : ", ") + DayName(day);
      rest += ", on " + days;
    } else if (name == "BYMONTHDAY") {
      rest += ", on day " + std::string(value) + " of the month";
    } else if (name == "BYMONTH") {
      rest += ", in month " + std::string(value);
    } else if (name != "WKST") {
      rest += ", " + std::string(part);
    }
  }
  if (unit.empty()) return std::string(rule);
  const bool is_one = interval.empty() || interval == "1";
  return "every " + (is_one ? unit : interval + " " + unit + "s") + rest;
}

// "Ada Brok <ada@example.org>" of an organiser's or guest's line.
std::string PersonOf(const ContentLine& line) {
  std::string address = line.value;
  if (Lower(address).starts_with("mailto:")) address.erase(0, 7);
  const std::string name = UnescapeValue(line.Parameter("CN"));
  if (name.empty() || name == address) return address;
  return address.empty() ? name : name + " <" + address + ">";
}

class CalendarReader {
 public:
  Extracted Read(std::string_view bytes) {
    ContentLines lines(bytes);
    for (ContentLine line; lines.Next(line);) Take(line);
    WriteEntry();                                   // of a file that is cut off
    if (!has_components_) writer_.Verbatim(bytes);  // another text, named as a calendar
    return writer_.Finish(0, "");
  }

 private:
  void Take(const ContentLine& line) {
    if (line.name == "BEGIN" || line.name == "END") {
      const std::string component = Lower(line.value);
      const auto* const entry = std::find_if(
          std::begin(kEntries), std::end(kEntries),
          [&](const ShownProperty& known) { return component.starts_with(known.property); });
      const bool is_begin = line.name == "BEGIN";
      has_components_ = true;
      if (entry != std::end(kEntries)) {
        WriteEntry();
        untitled_ = entry->name;
        is_in_entry_ = is_begin;
        depth_ = 0;
      } else if (!component.starts_with("vcalendar")) {
        // Alarms and rules of time zones have properties of the same names.
        depth_ += is_begin ? 1 : depth_ > 0 ? -1 : 0;
      }
    } else if (depth_ == 0) {
      is_in_entry_ ? Property(line) : OfCalendar(line);
    }
  }

  void OfCalendar(const ContentLine& line) {
    if (line.name == "X-WR-CALNAME" || line.name == "NAME") {
      const std::string name = UnescapeValue(line.value);
      if (name != calendar_name_) writer_.Heading(1, name);
      calendar_name_ = name;
    } else if (line.name == "X-WR-CALDESC" || line.name == "DESCRIPTION") {
      writer_.Paragraph(UnescapeValue(line.value));
    }
  }

  void Property(const ContentLine& line) {
    const std::string zone = line.Parameter("TZID");
    if (line.name == "SUMMARY") {
      title_ = UnescapeValue(line.value);
    } else if (line.name == "DESCRIPTION") {
      description_ = UnescapeValue(line.value);
    } else if (line.name == "DTEND") {
      end_ = line.value;
      end_zone_ = zone;
    } else if (line.name == "DURATION") {
      Add("Duration", ReadableDuration(line.value));
    } else if (line.name == "RRULE") {
      Add("Repeats", ReadableRule(line.value));
    } else if (line.name == "ORGANIZER") {
      Add("Organizer", PersonOf(line));
    } else if (line.name == "ATTENDEE") {
      const std::string answer = line.Parameter("PARTSTAT");
      Add("Attendee", PersonOf(line) + (answer.empty() ? "" : " (" + Words(answer) + ")"));
    }
    for (const auto& [property, name] : kTextProperties) {
      if (line.name != property) continue;
      const bool is_word = property == "STATUS" || property == "CLASS";
      const std::string value = UnescapeValue(line.value);
      Add(name, is_word ? Words(value) : value);
    }
    for (const auto& [property, name] : kTimeProperties) {
      if (line.name != property) continue;
      if (property == "DTSTART") start_ = line.value;
      std::string times;
      for (const std::string_view time : SplitValue(line.value, ','))
        times += (times.empty() ? "" : "; ") + ReadablePeriod(time, zone);
      Add(name, times);
    }
  }

  void Add(std::string_view name, const std::string& value) {
    const std::string line = CollapseSpace(value, false);
    if (!line.empty()) lines_.push_back(std::string(name) + ": " + line);
    // The end stands behind the start.
    if (name == "Start") end_at_ = lines_.size();
  }

  void WriteEntry() {
    if (!end_.empty() && end_ != start_) {
      const bool is_day = end_.size() == 8 && start_.size() == 8;
      const std::string last = is_day ? DayBefore(end_) : end_;
      if (last != start_) {
        lines_.insert(lines_.begin() + static_cast<ptrdiff_t>(end_at_),
                      "End: " + ReadableTime(last, end_zone_));
      }
    }
    const bool is_empty = lines_.empty() && description_.empty();
    if (!title_.empty() || !is_empty)
      writer_.Heading(2, title_.empty() ? std::string(untitled_) : title_);
    for (const std::string& line : lines_) writer_.Line(line);
    writer_.Gap();
    writer_.Paragraph(description_);
    lines_.clear();
    for (std::string* text : {&title_, &description_, &start_, &end_, &end_zone_}) text->clear();
    end_at_ = 0;
  }

  TextBuilder writer_;
  std::string calendar_name_;
  bool is_in_entry_ = false, has_components_ = false;
  int depth_ = 0;  // of components that are not read
  // The entry that is read:
  std::string_view untitled_ = "Event";  // the title of an entry without one
  std::string title_, description_, start_, end_, end_zone_;
  std::vector<std::string> lines_;
  size_t end_at_ = 0;  // the line before which its end is written
};

}  // namespace

api::Result<Extracted> ReadCalendar(std::string_view bytes) { return CalendarReader().Read(bytes); }

}  // namespace lectern::tools
