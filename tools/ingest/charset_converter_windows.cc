#include <windows.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

#include "tools/ingest/charset_converter.h"

namespace lectern::tools {
namespace {

// Windows' numbers of encodings whose names do not have them.
constexpr std::pair<std::string_view, UINT> kCodePages[] = {
    {"UTF-8", CP_UTF8},      {"ISO-8859-2", 28592},
    {"ISO-8859-3", 28593},   {"ISO-8859-4", 28594},
    {"ISO-8859-5", 28595},   {"ISO-8859-6", 28596},
    {"ISO-8859-7", 28597},   {"ISO-8859-8", 28598},
    {"ISO-8859-9", 28599},   {"ISO-8859-13", 28603},
    {"ISO-8859-15", 28605},  {"KOI8-R", 20866},
    {"KOI8-U", 21866},       {"MACINTOSH", 10000},
    {"MAC-CYRILLIC", 10007}, {"MAC-CENTRALEUROPE", 10029},
    {"GB18030", 54936},      {"BIG5-HKSCS", 950},
    {"EUC-JP-MS", 20932},    {"ISO-2022-JP", 50220},
    {"ISO-2022-KR", 50225},  {"JOHAB", 1361}};

bool IsSame(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return (x | 0x20) == (y | 0x20);  // of letters; other characters of names differ all the same
  });
}

// The code page of an encoding's name; 0: Windows has none.
UINT CodePage(std::string_view name) {
  for (const auto& [known, page] : kCodePages) {
    if (!IsSame(known, name)) continue;
    if (IsValidCodePage(page)) return page;
    // Wine 8 has no GB18030. Its beginning, GBK, has nearly all characters of today's texts.
    return IsSame(name, "GB18030") && IsValidCodePage(936) ? 936 : 0;
  }
  for (const std::string_view prefix : {"CP", "IBM", "WINDOWS-"}) {
    if (name.size() <= prefix.size() || !IsSame(name.substr(0, prefix.size()), prefix)) continue;
    UINT page = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, page);
    // Those below 37 stand for whatever this machine is set to.
    if (error == std::errc() && stop == end && page >= 37 && IsValidCodePage(page)) return page;
  }
  return 0;
}

void AppendUtf8(const wchar_t* wide, int units, std::string& out) {
  char buffer[64];
  const int bytes =
      WideCharToMultiByte(CP_UTF8, 0, wide, units, buffer, sizeof buffer, nullptr, nullptr);
  out.append(buffer, static_cast<size_t>(std::max(bytes, 0)));
}

void AppendCodePoint(uint32_t c, std::string& out) {
  if (c < 0x10000) {
    const auto unit = static_cast<wchar_t>(c);
    return AppendUtf8(&unit, 1, out);
  }
  const wchar_t pair[] = {static_cast<wchar_t>(0xD800 + ((c - 0x10000) >> 10)),
                          static_cast<wchar_t>(0xDC00 + (c & 0x3FF))};
  AppendUtf8(pair, 2, out);
}

bool IsSurrogate(uint32_t c) { return c >= 0xD800 && c < 0xE000; }

}  // namespace

struct CharsetConverter::State {
  UINT page = 0;
  size_t unit_bytes = 0;  // 2 and 4: UTF-16 and UTF-32; 0: of a code page
  bool is_big_endian = false;

  uint32_t Unit(std::string_view in, size_t at) const {
    uint32_t unit = 0;
    for (size_t i = 0; i < unit_bytes; ++i) {
      const size_t byte = is_big_endian ? i : unit_bytes - 1 - i;
      unit = unit << 8 | static_cast<uint8_t>(in[at + byte]);
    }
    return unit;
  }

  // Converts one character of UTF-16 or UTF-32.
  int ConvertUnit(std::string_view& in, std::string& out) const {
    if (in.size() < unit_bytes) return EINVAL;
    uint32_t c = Unit(in, 0);
    size_t bytes = unit_bytes;
    if (unit_bytes == 2 && c >= 0xD800 && c < 0xDC00) {
      if (in.size() < 4) return EINVAL;
      const uint32_t low = Unit(in, 2);
      if (low < 0xDC00 || low > 0xDFFF) return EILSEQ;
      c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
      bytes = 4;
    }
    if (c > 0x10FFFF || IsSurrogate(c)) return EILSEQ;
    AppendCodePoint(c, out);
    in.remove_prefix(bytes);
    return 0;
  }

  // Converts one character of a code page, of 1 to 4 bytes: the shortest that is one.
  int ConvertCharacter(std::string_view& in, std::string& out) const {
    for (size_t bytes = 1; bytes <= std::min<size_t>(in.size(), 4); ++bytes) {
      wchar_t wide[8];
      const int units = MultiByteToWideChar(page, MB_ERR_INVALID_CHARS, in.data(),
                                            static_cast<int>(bytes), wide, 8);
      if (units <= 0) continue;
      AppendUtf8(wide, units, out);
      in.remove_prefix(bytes);
      return 0;
    }
    return in.size() < 2 && IsDBCSLeadByteEx(page, static_cast<BYTE>(in[0])) ? EINVAL : EILSEQ;
  }

  // Converts all of a text with states, in which no byte has a meaning of its own.
  int ConvertAll(std::string_view& in, std::string& out) const {
    const int bytes = static_cast<int>(std::min<size_t>(in.size(), size_t{1} << 30));
    std::wstring wide(static_cast<size_t>(bytes) + 1, L'\0');
    const int units = MultiByteToWideChar(page, 0, in.data(), bytes, wide.data(), bytes + 1);
    for (int at = 0; at < units;) {
      const bool is_pair = IsSurrogate(static_cast<uint16_t>(wide[at])) && at + 1 < units;
      AppendUtf8(wide.data() + at, is_pair ? 2 : 1, out);
      at += is_pair ? 2 : 1;
    }
    in.remove_prefix(static_cast<size_t>(bytes));
    return 0;
  }
};

CharsetConverter::CharsetConverter(const std::string& encoding) {
  State state;
  for (const auto& [prefix, bytes] :
       {std::pair(std::string_view("UTF-16"), size_t{2}), {"UTF-32", size_t{4}}}) {
    if (!encoding.starts_with(prefix)) continue;
    state.unit_bytes = bytes;
    state.is_big_endian = encoding.ends_with("BE");
  }
  if (state.unit_bytes == 0) state.page = CodePage(encoding);
  if (state.unit_bytes != 0 || state.page != 0) state_ = std::make_unique<State>(state);
}

CharsetConverter::~CharsetConverter() = default;

int CharsetConverter::Convert(std::string_view* in, std::string& out) {
  if (in == nullptr) return 0;
  while (!in->empty()) {
    const int error = state_->unit_bytes != 0 ? state_->ConvertUnit(*in, out)
                      : state_->page == 50220 ? state_->ConvertAll(*in, out)
                                              : state_->ConvertCharacter(*in, out);
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace lectern::tools
