#include "tools/ingest/text_plausibility.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdint>
#include <unordered_map>

namespace lectern::tools {
namespace {

constexpr double kForbidden = 4, kMisplaced = 1, kForeign = 1, kRare = 0.5;

// Small letters outside of ASCII by language: CLDR's exemplar characters, with the auxiliary ones
// that loanwords and names bring into ordinary texts.
constexpr std::u32string_view kAlphabets[] = {
    U"äöüßéàè",                               // German, Luxembourgish
    U"àâæçèéêëîïôùûüÿœ",                      // French
    U"áéíñóúüçà",                             // Spanish, Galician, Basque
    U"àçèéíïòóúüñ",                           // Catalan
    U"àèéìíîòóùú",                            // Italian
    U"àáâãçéêíòóôõúü",                        // Portuguese
    U"áäâàèéêëíîïñóôöúûüçœ",                  // Dutch, Afrikaans, English
    U"áéíóúàèìòù",                            // Irish, Gaelic
    U"áéðíóúýþæö",                            // Icelandic
    U"àåäöéüæøèêòóôâ",                        // Swedish, Danish, Norwegian
    U"áæðíóøúý",                              // Faroese
    U"åäöšžéõü",                              // Finnish, Estonian
    U"ąćęłńóśźż",                             // Polish
    U"áčďéěíňóřšťúůýžäĺľŕôöü",                // Czech, Slovak
    U"áéíóöőúüűä",                            // Hungarian
    U"čšžćđ",                                 // Slovene, Croatian, Bosnian
    U"ăâîșțşţé",                              // Romanian
    U"çëé",                                   // Albanian
    U"çğıöşüâîûə",                            // Turkish, Azeri
    U"ąčęėįšųūž",                             // Lithuanian
    U"āčēģīķļņšūžōŗ",                         // Latvian
    U"ĉĝĥĵŝŭ",                                // Esperanto
    U"ċġħżàèìòùé",                            // Maltese
    U"âêîôûŵŷàáäèéëïöẃẁẅỳýÿ",                 // Welsh
    U"áčđŋšŧž",                               // Sami
    U"абвгдежзийклмнопрстуфхцчшщъыьэюяё",     // Russian, Bulgarian
    U"абвгдежзийклмнопрстуфхцчшщьюяєіїґ",     // Ukrainian
    U"абвгдежзйклмнопрстуфхцчшыьэюяёіўґ",     // Belarusian
    U"абвгдежзиклмнопрстуфхцчшђѓѕјљњћќџѐѝ"};  // Serbian, Macedonian

// Scripts that one language has to itself, as far as encodings of 8 bits go; ranges of code points
// that begin and end with it. Vietnamese: its letters are those of Latin with combining marks.
struct Script {
  uint32_t first, last;
};
constexpr Script kScripts[] = {
    {0x0370, 0x03FF}, {0x0590, 0x05FF}, {0x0600, 0x06FF}, {0x0E00, 0x0E7F}};
constexpr std::u32string_view kVietnamese = U"àáâãèéêìíòóôõùúýăđĩũơư\u0300\u0301\u0303\u0309\u0323";

// Symbols and punctuation that ordinary texts have.
constexpr std::u32string_view kCommonSymbols = U"\u00A0¡£§©ª«\u00AD®°±²³µ·º»¼½¾¿×–—‘’‚“”„•…€™№†";
// Characters that stand inside of words.
constexpr std::u32string_view kInWords = U"\u00AD·’‘‐‑\u200C\u200D";

bool Has(std::u32string_view set, uint32_t c) { return set.find(c) != std::u32string_view::npos; }

bool IsLetter(int category) {
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_ME;
}

// A number for the alphabet of a letter, 0 for Latin.
uint32_t AlphabetOf(uint32_t c) {
  if (c < 0x0370 || (c >= 0x1E00 && c <= 0x1EFF)) return 0;
  if (c < 0x0400) return 1;
  return c < 0x0530 ? 2 : 3;
}

bool IsIdeographic(uint32_t c) {
  return (c >= 0x3000 && c <= 0x9FFF) || (c >= 0xAC00 && c <= 0xD7A3) || c >= 0x20000 ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFF00 && c <= 0xFF60) ||
         (c >= 0xFFE0 && c <= 0xFFE6);
}

// Reads a text once and adds up what is odd about it.
class OddnessCounter {
 public:
  double Run(std::string_view text) {
    while (!text.empty()) {
      utf8proc_int32_t c = 0xFFFD;
      const auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                           static_cast<utf8proc_ssize_t>(text.size()), &c);
      text.remove_prefix(static_cast<size_t>(std::max<utf8proc_ssize_t>(length, 1)));
      Take(length > 0 ? static_cast<uint32_t>(c) : 0xFFFD);
    }
    return cost_ + kForeign * static_cast<double>(num_letters_ - MostOfOneLanguage());
  }

 private:
  void Take(uint32_t c) {
    const auto category = static_cast<int>(utf8proc_category(static_cast<utf8proc_int32_t>(c)));
    const bool is_letter = IsLetter(category);
    if (is_letter && has_symbol_in_word_) cost_ += kMisplaced;
    has_symbol_in_word_ = false;
    if (is_letter && is_in_word_ && AlphabetOf(c) != alphabet_) cost_ += kMisplaced;
    alphabet_ = AlphabetOf(c);
    if (c >= 0x80) TakeOther(c, category);
    is_in_word_ = is_letter && !IsIdeographic(c);
    is_behind_small_ = category == UTF8PROC_CATEGORY_LL;
  }

  void TakeOther(uint32_t c, int category) {
    if (IsIdeographic(c)) return;
    if (category == UTF8PROC_CATEGORY_CN || category == UTF8PROC_CATEGORY_CC ||
        category == UTF8PROC_CATEGORY_CO || c == 0xFFFD) {
      cost_ += kForbidden;
    } else if (IsLetter(category) && !Has(kCommonSymbols, c)) {  // µ, ª and º are letters
      if (category == UTF8PROC_CATEGORY_LU && is_behind_small_) cost_ += kMisplaced;
      if (c >= 0xFF61 && c <= 0xFFDC) cost_ += kRare;  // halfwidth katakana and jamo
      ++letters_[static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)))];
      ++num_letters_;
    } else if (!Has(kInWords, c)) {
      if (!Has(kCommonSymbols, c)) cost_ += kRare;
      has_symbol_in_word_ = is_in_word_ && c != 0xA0;
    }
  }

  // Number of the letters that the language has which has most of them.
  uint64_t MostOfOneLanguage() const {
    const auto count = [this](auto has) {
      uint64_t sum = 0;
      for (const auto& [letter, times] : letters_) sum += has(letter) ? times : 0;
      return sum;
    };
    uint64_t most =
        count([](uint32_t c) { return Has(kVietnamese, c) || (c >= 0x1EA0 && c <= 0x1EF9); });
    for (const std::u32string_view alphabet : kAlphabets) {
      most = std::max(most, count([=](uint32_t c) { return Has(alphabet, c); }));
    }
    for (const Script& script : kScripts) {
      most =
          std::max(most, count([=](uint32_t c) { return c >= script.first && c <= script.last; }));
    }
    return most;
  }

  double cost_ = 0;
  std::unordered_map<uint32_t, uint64_t> letters_;  // small letters outside of ASCII
  uint64_t num_letters_ = 0;
  uint32_t alphabet_ = 0;  // of the character before
  bool is_in_word_ = false, is_behind_small_ = false, has_symbol_in_word_ = false;
};

}  // namespace

double Oddness(std::string_view text) { return OddnessCounter().Run(text); }

}  // namespace lectern::tools
