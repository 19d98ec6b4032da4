// Scans texts for words and numbers, in the scripts of the languages that asked_value.cc knows.
#ifndef LECTERN_ENGINE_ASKING_WORD_SCAN_H_
#define LECTERN_ENGINE_ASKING_WORD_SCAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lectern {

// The digit that a character stands for, or -1: ASCII, Arabic, Persian, Devanagari and wide ones.
int DigitOf(uint32_t c);
// Whether words are made of it. Marks are the vowel signs of Devanagari.
bool IsOfWord(uint32_t c);
// The text in small letters, with one space for everything between its words and at its ends. Any
// bytes will do, here and below.
std::string SpacedWords(std::string_view text);

// Appends the number that begins at `at`, its digits in ASCII, and moves `at` behind it. "1.5" and
// "10,000" are one number; a full stop behind a number is no part of it.
void TakeNumber(std::string_view text, size_t& at, std::string* number);
// Appends the word that begins at `at`, in small letters, and moves `at` behind it.
void TakeWord(std::string_view text, size_t& at, std::string* word);

}  // namespace lectern

#endif  // LECTERN_ENGINE_ASKING_WORD_SCAN_H_
