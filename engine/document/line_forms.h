// Recognises lines by their form alone: list items, headings, table rows, code, "key: value". Which
// of these a line really is, its neighbours decide (text_blocks.h).
#ifndef LECTERN_ENGINE_DOCUMENT_LINE_FORMS_H_
#define LECTERN_ENGINE_DOCUMENT_LINE_FORMS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace lectern {

// All lines are without space at both ends and not empty. Any bytes will do.

// Whether it has a letter or digit; beyond ASCII a mark or connector is enough.
bool HasWords(std::string_view line);
// Whether it only rules off: "-----", "|---|---|", "* * *".
bool IsRule(std::string_view line);

// "```" or "~~~": the number of marks, at least 3, else 0. "```code```" is no fence.
size_t FenceLength(std::string_view line);

// Bytes of a bullet ("- ", "* ", "• ") and its spaces; 0: none, or nothing stands behind it. An "o"
// is one only before two spaces, and "・" and the like need none before Chinese or Japanese. "[ ] "
// of a task belongs to it.
size_t BulletLength(std::string_view line);
// The mark of a numbered item: "1." "12)" "(3)" "a)" "(ii)" "iv." "§ 3." Numbers have three digits
// at most; i, v and x alone are Roman; a capital counts before ")" alone, as "A." is an initial.
struct ItemNumber {
  size_t length = 0;   // bytes with the spaces behind it; 0: none, or nothing stands behind it
  uint32_t value = 0;  // of the number or letter; "a" is 1
  char kind = 0;       // '1', 'a', 'i', or '\xA7' for "§"
};
ItemNumber ReadItemNumber(std::string_view line);

// "# Title": the level, 1 to 6, and where the title lies in the line; level 0: none.
struct MarkedHeading {
  uint8_t level = 0;
  size_t begin = 0, end = 0;
};
MarkedHeading ReadMarkedHeading(std::string_view line);
// "=====" and the like under a title: the level by its character (1 "=", 2 "-", 3 "~" and "^"),
// else 0.
uint8_t UnderlineLevel(std::string_view line);
// "Chapter 2", "Section 4: Rent", "Anhang A", "第三章": the level, 1 or 2, else 0.
uint8_t NamedHeadingLevel(std::string_view line);
// "2.1 Rent": the number of its numbers (of three digits at most), 1 to 6, else 0. A capital, or a
// letter of a script without capitals, must follow them.
uint8_t NumberedHeadingLevel(std::string_view line);
// "4.13.2. ", "A.1. ": bytes of a section's number of two parts or more, a stop and a space behind
// it; 0: none, or nothing stands behind it. So do entries of tables of contents begin.
size_t SectionNumberLength(std::string_view line);
// At least three capital letters, no small one, and none of a script without capitals.
bool IsAllCaps(std::string_view line);
size_t CountWords(std::string_view line);  // parts between spaces and tabs

// "Town: Osk": a colon behind at most four words and 34 bytes, which begin with a letter, digit or
// "_" and have none of ".!?,;". White space or nothing follows the colon.
bool IsKeyValue(std::string_view line);

// Whether it begins with a date and time, or a time to the second, as the records of logs do:
// "2024-03-01 08:15:02", "[01/Mar/2024:08:15", "Mar  1 08:15:02", "[10:15]", "[   12.345678]"; or
// with a host and the time in brackets, as those of web servers.
bool BeginsWithTime(std::string_view line);

// Whether it has signs of a program or command that prose does not have.
bool LooksLikeCode(std::string_view line);
// Whether it is mostly words, at least five.
bool LooksLikeProse(std::string_view line);

// How many times a comma or semicolon parts the fields of a row, as spreadsheets write them; 0 if
// white space stands behind one, or nothing behind the last, as in prose and programs. Those in
// double quotes are text.
size_t CountSeparators(std::string_view line, char mark);

// How a line could be cut into cells.
struct Cells {
  static constexpr size_t kMost = 12;
  size_t num_pipes = 0, num_tabs = 0, num_cells = 0;  // num_cells: entries of `cells` in use
  bool has_leaders = false;  // "Rent ........ 5"
  bool has_dots = false;     // the same before any text: "Dogs ....... free", five dots at least
  bool is_boxed = false;     // begins and ends with a pipe, or a box's line
  size_t widest_gap = 0;     // spaces before a cell; 0: no cells
  struct Cell {
    uint16_t begin, end;  // columns, one a character; UINT16_MAX: that or beyond
    bool is_wide;         // three spaces or more before it
  };
  // Those behind gaps of two spaces or more; two spaces behind a sentence are no gap. The text
  // before the first gap is no cell.
  std::array<Cell, kMost> cells;
};
// `indent`: columns before the line. Cells beyond the first Cells::kMost are left out.
Cells ReadCells(std::string_view line, size_t indent);
// Whether two lines that follow each other can be rows of one table: both have leaders or dots,
// equally many pipes (or are boxed) or equally many tabs, or two cells of theirs, or one behind a
// wide gap, begin or end in the same columns.
bool AreRows(const Cells& a, const Cells& b);

}  // namespace lectern

#endif  // LECTERN_ENGINE_DOCUMENT_LINE_FORMS_H_
