// Writes the numbers of list items and headings, which office files and web pages do not hold but
// count.
#ifndef LECTERN_TOOLS_INGEST_LIST_NUMBERS_H_
#define LECTERN_TOOLS_INGEST_LIST_NUMBERS_H_

#include <string>

namespace lectern::tools {

enum class NumberStyle { kDecimal, kLowerLetter, kUpperLetter, kLowerRoman, kUpperRoman };

// 3 is "3", "c", "C", "iii" or "III". Letters go on as in Word: 27 is "aa", 28 "bb". Numbers that
// a style has none for (0, Roman ones from 4,000) are decimal.
std::string NumberText(int number, NumberStyle style);

}  // namespace lectern::tools

#endif  // LECTERN_TOOLS_INGEST_LIST_NUMBERS_H_
