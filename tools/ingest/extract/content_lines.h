// Reads the lines of calendars and address books: "NAME;PARAMETER=VALUE:VALUE", as iCalendar
// (RFC 5545) and vCard (RFC 6350, and versions 2.1 and 3.0) write them.
#ifndef LECTERN_TOOLS_INGEST_EXTRACT_CONTENT_LINES_H_
#define LECTERN_TOOLS_INGEST_EXTRACT_CONTENT_LINES_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lectern::tools {

struct ContentLine {
  std::string name;   // in capitals
  std::string group;  // "item1" of "item1.EMAIL", or empty
  // Names are in capitals; version 2.1's parameters without a name ("HOME") are those of TYPE.
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string value;  // as it is written, but decoded where it was quoted-printable

  // The values of a parameter, with commas between them; empty: it has none.
  std::string Parameter(std::string_view parameter) const;
};

class ContentLines {
 public:
  // `text` must outlive it.
  explicit ContentLines(std::string_view text) : rest_(text) {}
  // Reads the next line with a name, which may go on over several lines of the text; false: there
  // is none.
  bool Next(ContentLine& line);

 private:
  std::string_view TakeLine();
  std::string TakeUnfolded();

  std::string_view rest_;
};

// A value without its escapes: "\n" is a line's end, and "\," a comma.
std::string UnescapeValue(std::string_view value);

// The parts of a value between separators that are not escaped, still with their escapes.
std::vector<std::string_view> SplitValue(std::string_view value, char separator);

// A date or time as it is read: "Friday, 2024-03-01, 08:15 (Europe/Berlin)" of "20240301T081500",
// "2024-03-01" without a weekday where it has none; other values as they are. `zone`: of the
// parameter TZID, or empty.
std::string ReadableTime(std::string_view value, std::string_view zone);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_EXTRACT_CONTENT_LINES_H_
