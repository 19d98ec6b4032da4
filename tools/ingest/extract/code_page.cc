#include "tools/ingest/extract/code_page.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/ingest/characters.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/compound_file.h"

namespace lectern::tools {

std::string CodePageEncoding(uint32_t code_page) {
  // The others have labels with their number ("cp1251").
  constexpr std::pair<uint32_t, const char*> kPages[] = {
      {367, "ascii"},         {936, "gbk"},           {1200, "utf-16"},
      {1361, "johab"},        {10000, "macintosh"},   {10007, "maccyrillic"},
      {10029, "x-mac-ce"},    {20127, "ascii"},       {20866, "koi8-r"},
      {21866, "koi8-u"},      {20932, "euc-jp"},      {32768, "macintosh"},
      {32769, "cp1252"},      {50220, "iso-2022-jp"}, {50221, "iso-2022-jp"},
      {50222, "iso-2022-jp"}, {50225, "iso-2022-kr"}, {51932, "euc-jp"},
      {51936, "gbk"},         {51949, "euc-kr"},      {54936, "gb18030"},
      {65001, "utf-8"}};
  constexpr uint32_t kIso8859 = 28590;
  const auto* const found =
      std::ranges::find(kPages, code_page, &std::pair<uint32_t, const char*>::first);
  const bool is_iso = code_page > kIso8859 && code_page <= kIso8859 + 16;
  std::string name = found != std::end(kPages) ? EncodingOfLabel(found->second)
                     : is_iso ? EncodingOfLabel("iso-8859-" + std::to_string(code_page - kIso8859))
                              : EncodingOfLabel("cp" + std::to_string(code_page));
  return name.empty() ? EncodingOfLabel("cp1252") : name;
}

std::string Utf16Text(std::string_view bytes) {
  constexpr uint32_t kReplacement = 0xFFFD;
  std::string text;
  for (size_t i = 0; i + 2 <= bytes.size(); i += 2) {
    uint32_t unit = Uint16At(bytes, i);
    if (unit >= 0xD800 && unit < 0xE000) {
      const uint32_t low = Uint16At(bytes, i + 2);
      if (unit < 0xDC00 && low >= 0xDC00 && low < 0xE000) {
        unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
        i += 2;
      } else {
        unit = kReplacement;
      }
    }
    AppendUtf8(unit, text);
  }
  return text;
}

std::string Latin1Text(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) AppendUtf8(static_cast<uint8_t>(c), text);
  return text;
}

std::string CodePageText(std::string_view bytes, uint32_t code_page) {
  constexpr uint32_t kUtf16 = 1200;
  if (code_page == kUtf16) return Utf16Text(bytes);
  const bool is_ascii =
      std::ranges::all_of(bytes, [](char c) { return static_cast<uint8_t>(c) < 0x80; });
  // In pages of ISO-2022 characters are written in ASCII.
  if (is_ascii && bytes.find('\x1B') == std::string_view::npos) return std::string(bytes);
  return ConvertToUtf8(bytes, CodePageEncoding(code_page)).text;
}

}  // namespace lectern::tools
