// Classes of characters by utf8proc's tables. Python's rules are in its documentation of str and in
// Objects/unicodetype_db.h; properties that utf8proc lacks are listed here as ranges.
#include "engine/model/template/jinja_unicode.h"

#include <utf8proc.h>

#include <algorithm>

#include "engine/model/formats/text.h"

namespace lectern::jinja {
namespace {

// kInvalid has the category "not assigned".
utf8proc_category_t CategoryOf(uint32_t code) {
  if (code == kInvalid) return UTF8PROC_CATEGORY_CN;
  return utf8proc_category(static_cast<utf8proc_int32_t>(code));
}

// Whether the category is one of these.
bool IsOneOf(uint32_t code, std::initializer_list<utf8proc_category_t> categories) {
  const utf8proc_category_t category = CategoryOf(code);
  return std::find(categories.begin(), categories.end(), category) != categories.end();
}

// Writes the characters that full case folding makes of `code`; returns how many, 0 on failure.
size_t Folded(uint32_t code, utf8proc_int32_t (&folded)[8]) {
  int boundary = 0;
  const utf8proc_ssize_t size = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), folded,
                                                        8, UTF8PROC_CASEFOLD, &boundary);
  return size > 0 && size <= 8 ? static_cast<size_t>(size) : 0;
}

uint32_t Upper(utf8proc_int32_t code) { return static_cast<uint32_t>(utf8proc_toupper(code)); }

// Appends the upper or title case of a character that has several. They are the upper cases of the
// folded characters; in title case only of the first one, except that U+0149 is in upper case
// whole. The title case of the Greek vowels with iota keeps a combining mark for the iota.
void AppendSpecialCase(std::string* text, uint32_t code, const utf8proc_int32_t* folded,
                       size_t size, Case to) {
  constexpr utf8proc_int32_t kIota = 0x3B9;
  if (to == Case::kTitle) {
    const uint32_t title = static_cast<uint32_t>(utf8proc_totitle(static_cast<int32_t>(code)));
    if (CategoryOf(title) == UTF8PROC_CATEGORY_LT) return AppendUtf8(text, title);
  }
  const bool all = to == Case::kUpper || code == 0x149;
  for (size_t i = 0; i < size; ++i) {
    if (i == 0 || all) {
      AppendUtf8(text, Upper(folded[i]));
    } else {
      AppendUtf8(text, folded[i] == kIota ? 0x345 : static_cast<uint32_t>(folded[i]));
    }
  }
}

}  // namespace

Character FirstCharacter(std::string_view text) {
  const uint8_t lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const int length = Utf8CharLength(text);
  if (length <= 0) return {kInvalid, 1};
  // The lead byte's bits below its marker.
  uint32_t code = lead & (0xFFu >> (length + 1));
  for (int i = 1; i < length; ++i) {
    code = code << 6 | (static_cast<uint8_t>(text[static_cast<size_t>(i)]) & 0x3F);
  }
  return {code, static_cast<size_t>(length)};
}

Character LastCharacter(std::string_view text) {
  for (size_t size = 1; size <= 4 && size <= text.size(); ++size) {
    const std::string_view end = text.substr(text.size() - size);
    if ((end[0] & 0xC0) == 0x80) continue;
    const Character character = FirstCharacter(end);
    if (character.size == size) return character;
    break;
  }
  return {kInvalid, 1};
}

void AppendUtf8(std::string* text, uint32_t code) {
  if (code < 0x80) {
    *text += static_cast<char>(code);
    return;
  }
  if (code < 0x800) {
    *text += static_cast<char>(0xC0 | code >> 6);
  } else {
    if (code < 0x10000) {
      *text += static_cast<char>(0xE0 | code >> 12);
    } else {
      *text += static_cast<char>(0xF0 | code >> 18);
      *text += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    }
    *text += static_cast<char>(0x80 | (code >> 6 & 0x3F));
  }
  *text += static_cast<char>(0x80 | (code & 0x3F));
}

bool IsAscii(std::string_view text) {
  uint8_t all = 0;
  for (const char c : text) all |= static_cast<uint8_t>(c);
  return all < 0x80;
}

size_t CountCharacters(std::string_view text) {
  if (IsAscii(text)) return text.size();
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(FirstCharacter(text).size);
  return count;
}

size_t OffsetOf(std::string_view text, size_t index) {
  if (IsAscii(text)) return std::min(index, text.size());
  size_t offset = 0;
  for (; index > 0 && offset < text.size(); --index) {
    offset += FirstCharacter(text.substr(offset)).size;
  }
  return offset;
}

// Unlike Unicode's White_Space, Python also counts U+001C to U+001F.
bool IsSpace(uint32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
  return code == 0x85 ||
         IsOneOf(code, {UTF8PROC_CATEGORY_ZS, UTF8PROC_CATEGORY_ZL, UTF8PROC_CATEGORY_ZP});
}

bool IsAlphabetic(uint32_t code) {
  return IsOneOf(code, {UTF8PROC_CATEGORY_LU, UTF8PROC_CATEGORY_LL, UTF8PROC_CATEGORY_LT,
                        UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_LO});
}

bool IsDecimal(uint32_t code) { return IsOneOf(code, {UTF8PROC_CATEGORY_ND}); }

// Decimal digits, and the characters that Unicode gives the numeric type "digit": superscripts,
// circled digits and the like.
bool IsDigit(uint32_t code) {
  if (IsDecimal(code)) return true;
  static constexpr struct {
    uint32_t first, last;
  } kDigits[] = {{0xB2, 0xB3},       {0xB9, 0xB9},       {0x1369, 0x1371},   {0x19DA, 0x19DA},
                 {0x2070, 0x2070},   {0x2074, 0x2079},   {0x2080, 0x2089},   {0x2460, 0x2468},
                 {0x2474, 0x247C},   {0x2488, 0x2490},   {0x24EA, 0x24EA},   {0x24F5, 0x24FD},
                 {0x24FF, 0x24FF},   {0x2776, 0x277E},   {0x2780, 0x2788},   {0x278A, 0x2792},
                 {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A}, {0x1F100, 0x1F10A}};
  for (const auto& range : kDigits) {
    if (code >= range.first && code <= range.last) return true;
  }
  return false;
}

// str.isnumeric: also fractions, Roman numbers and the ideographs that mean numbers.
bool IsNumeric(uint32_t code) {
  if (IsOneOf(code, {UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_NL, UTF8PROC_CATEGORY_NO})) {
    return true;
  }
  // The other characters that are numeric in Unicode 14.0, as Python 3.11 has it: ideographs,
  // ascending.
  static constexpr uint32_t kNumbers[] = {
      0x3405,  0x3483,  0x382A,  0x3B4D,  0x4E00,  0x4E03,  0x4E07,  0x4E09,  0x4E5D,
      0x4E8C,  0x4E94,  0x4E96,  0x4EBF,  0x4EC0,  0x4EDF,  0x4EE8,  0x4F0D,  0x4F70,
      0x5104,  0x5146,  0x5169,  0x516B,  0x516D,  0x5341,  0x5343,  0x5344,  0x5345,
      0x534C,  0x53C1,  0x53C2,  0x53C3,  0x53C4,  0x56DB,  0x58F1,  0x58F9,  0x5E7A,
      0x5EFE,  0x5EFF,  0x5F0C,  0x5F0D,  0x5F0E,  0x5F10,  0x62FE,  0x634C,  0x67D2,
      0x6F06,  0x7396,  0x767E,  0x8086,  0x842C,  0x8CAE,  0x8CB3,  0x8D30,  0x9621,
      0x9646,  0x964C,  0x9678,  0x96F6,  0xF96B,  0xF973,  0xF978,  0xF9B2,  0xF9D1,
      0xF9D3,  0xF9FD,  0x20001, 0x20064, 0x200E2, 0x20121, 0x2092A, 0x20983, 0x2098C,
      0x2099C, 0x20AEA, 0x20AFD, 0x20B19, 0x22390, 0x22998, 0x23B1B, 0x2626D, 0x2F890};
  return std::binary_search(std::begin(kNumbers), std::end(kNumbers), code);
}

// str.isprintable: no controls, unassigned code points or separators but the space.
bool IsPrintable(uint32_t code) {
  if (code == ' ') return true;
  return !IsOneOf(code, {UTF8PROC_CATEGORY_CC, UTF8PROC_CATEGORY_CF, UTF8PROC_CATEGORY_CS,
                         UTF8PROC_CATEGORY_CO, UTF8PROC_CATEGORY_CN, UTF8PROC_CATEGORY_ZL,
                         UTF8PROC_CATEGORY_ZP, UTF8PROC_CATEGORY_ZS});
}

// Category Ll and the property Other_Lowercase, which utf8proc lacks; IsUpperCase likewise.
bool IsLowerCase(uint32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z';
  if (code == kInvalid) return false;
  // "Other_Lowercase" has modifier letters and signs, too.
  return CategoryOf(code) == UTF8PROC_CATEGORY_LL || code == 0xAA || code == 0xBA ||
         (code >= 0x2B0 && code <= 0x2B8) || code == 0x2C0 || code == 0x2C1 ||
         (code >= 0x2E0 && code <= 0x2E4) || code == 0x345 || code == 0x37A ||
         (code >= 0x1D2C && code <= 0x1D6A) || code == 0x1D78 ||
         (code >= 0x1D9B && code <= 0x1DBF) || code == 0x2071 || code == 0x207F ||
         (code >= 0x2090 && code <= 0x209C) || (code >= 0x2170 && code <= 0x217F) ||
         (code >= 0x24D0 && code <= 0x24E9) || code == 0x2C7C || code == 0x2C7D;
}

bool IsUpperCase(uint32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z';
  if (code == kInvalid) return false;
  return CategoryOf(code) == UTF8PROC_CATEGORY_LU || (code >= 0x2160 && code <= 0x216F) ||
         (code >= 0x24B6 && code <= 0x24CF) || (code >= 0x1F130 && code <= 0x1F149) ||
         (code >= 0x1F150 && code <= 0x1F169) || (code >= 0x1F170 && code <= 0x1F189);
}

bool IsTitleCase(uint32_t code) { return CategoryOf(code) == UTF8PROC_CATEGORY_LT; }

bool IsWord(uint32_t code) { return code == '_' || IsAlphabetic(code) || IsNumeric(code); }

// Nearly XID_Start and XID_Continue: by categories, without Unicode's few exceptions.
bool IsIdentifier(std::string_view text) {
  bool is_first = true;
  for (; !text.empty(); is_first = false) {
    const Character character = FirstCharacter(text);
    const uint32_t code = character.code;
    const bool starts =
        code == '_' || IsAlphabetic(code) || CategoryOf(code) == UTF8PROC_CATEGORY_NL;
    const bool goes_on = IsOneOf(code, {UTF8PROC_CATEGORY_ND, UTF8PROC_CATEGORY_MN,
                                        UTF8PROC_CATEGORY_MC, UTF8PROC_CATEGORY_PC});
    if (!starts && (is_first || !goes_on)) return false;
    text.remove_prefix(character.size);
  }
  return !is_first;
}

// ASCII first: most text is. Then Unicode's simple mapping, or its full one, where a character
// becomes several.
void AppendInCase(std::string* text, uint32_t code, Case to) {
  if (code < 0x80) {
    const bool is_upper = code >= 'A' && code <= 'Z', is_lower = code >= 'a' && code <= 'z';
    const bool to_upper = to == Case::kUpper || to == Case::kTitle;
    *text += static_cast<char>((to_upper ? is_lower : is_upper) ? code ^ 0x20 : code);
    return;
  }
  // Two characters whose folding has several characters and whose upper case is themselves.
  constexpr uint32_t kCapitalIWithDot = 0x130, kCapitalSharpS = 0x1E9E;
  const utf8proc_int32_t c = static_cast<utf8proc_int32_t>(code);
  utf8proc_int32_t folded[8];
  const size_t size = to == Case::kLower ? 0 : Folded(code, folded);
  if (to == Case::kLower) {
    if (code == kCapitalIWithDot) return text->append("i\u0307"), void();
    AppendUtf8(text, static_cast<uint32_t>(utf8proc_tolower(c)));
  } else if (to == Case::kFold) {
    for (size_t i = 0; i < size; ++i) AppendUtf8(text, static_cast<uint32_t>(folded[i]));
  } else if (size > 1 && code != kCapitalIWithDot && code != kCapitalSharpS) {
    AppendSpecialCase(text, code, folded, size, to);
  } else {
    AppendUtf8(text, to == Case::kUpper ? Upper(c) : static_cast<uint32_t>(utf8proc_totitle(c)));
  }
}

// Unicode's condition Final_Sigma (SpecialCasing.txt): a letter with case comes before, and none
// behind, when characters that do not count are passed over.
bool IsFinalSigma(std::string_view text, size_t offset) {
  // Characters between letters that do not count, such as marks and apostrophes.
  const auto is_ignored = [](uint32_t code) {
    return code == '\'' || code == '.' || code == ':' || code == '^' || code == '`' ||
           code == 0xB7 || code == 0x2019 ||
           IsOneOf(code, {UTF8PROC_CATEGORY_MN, UTF8PROC_CATEGORY_ME, UTF8PROC_CATEGORY_CF,
                          UTF8PROC_CATEGORY_LM, UTF8PROC_CATEGORY_SK});
  };
  const auto is_cased = [](uint32_t code) {
    return IsLowerCase(code) || IsUpperCase(code) || IsTitleCase(code);
  };
  std::string_view before = text.substr(0, offset);
  while (!before.empty() && is_ignored(LastCharacter(before).code)) {
    before.remove_suffix(LastCharacter(before).size);
  }
  if (before.empty() || !is_cased(LastCharacter(before).code)) return false;
  std::string_view after = text.substr(offset);
  after.remove_prefix(FirstCharacter(after).size);
  while (!after.empty() && is_ignored(FirstCharacter(after).code)) {
    after.remove_prefix(FirstCharacter(after).size);
  }
  return after.empty() || !is_cased(FirstCharacter(after).code);
}

size_t LeadingSpace(std::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const Character character = FirstCharacter(text.substr(size));
    if (character.code == kInvalid || !IsSpace(character.code)) break;
    size += character.size;
  }
  return size;
}

std::string_view WithoutTrailingSpace(std::string_view text) {
  while (!text.empty()) {
    const Character character = LastCharacter(text);
    if (character.code == kInvalid || !IsSpace(character.code)) break;
    text.remove_suffix(character.size);
  }
  return text;
}

}  // namespace lectern::jinja
