#include "tools/ingest/charset_conversion.h"

#include <algorithm>
#include <cerrno>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/charset_converter.h"

namespace lectern::tools {
namespace {

// iconv's names of the encodings that a file may choose, by its bytes or its own word, and their
// labels without '-' and '_': those of encoding.spec.whatwg.org, and usual names of the others.
// iconv knows 150 more, some stateful and with a history of security holes: those are the user's to
// choose alone.
struct EncodingLabels {
  const char* encoding;
  std::string_view labels;
};
constexpr EncodingLabels kEncodings[] = {
    {"UTF-8", "unicode11utf8 unicode20utf8 utf8 xunicode20utf8 utf8sig"},
    {"CP866", "866 cp866 csibm866 ibm866"},
    {"ISO-8859-2", "csisolatin2 iso88592 isoir101 iso88592:1987 l2 latin2"},
    {"ISO-8859-3", "csisolatin3 iso88593 isoir109 iso88593:1988 l3 latin3"},
    {"ISO-8859-4", "csisolatin4 iso88594 isoir110 iso88594:1988 l4 latin4"},
    {"ISO-8859-5", "csisolatincyrillic cyrillic iso88595 isoir144 iso88595:1988"},
    {"ISO-8859-6",
     "arabic asmo708 csiso88596e csiso88596i csisolatinarabic ecma114 iso88596"
     " iso88596e iso88596i isoir127 iso88596:1987"},
    {"ISO-8859-7",
     "csisolatingreek ecma118 elot928 greek greek8 iso88597 isoir126"
     " iso88597:1987 suneugreek"},
    {"ISO-8859-8",
     "csiso88598e csisolatinhebrew hebrew iso88598 iso88598e isoir138"
     " iso88598:1988 visual csiso88598i iso88598i logical"},
    {"ISO-8859-10", "csisolatin6 iso885910 isoir157 l6 latin6"},
    {"ISO-8859-13", "iso885913"},
    {"ISO-8859-14", "iso885914"},
    {"ISO-8859-15", "csisolatin9 iso885915 l9"},
    {"ISO-8859-16", "iso885916"},
    {"KOI8-R", "cskoi8r koi koi8 koi8r"},
    {"KOI8-U", "koi8ru koi8u"},
    {"MACINTOSH", "csmacintosh mac macintosh xmacroman macroman"},
    {"CP874", "dos874 iso885911 tis620 windows874 cp874"},
    {"windows-1250", "cp1250 windows1250 xcp1250"},
    {"windows-1251", "cp1251 windows1251 xcp1251"},
    {"windows-1252",
     "ansix3.41968 ascii cp1252 cp819 csisolatin1 ibm819 iso88591 isoir100"
     " iso88591:1987 l1 latin1 usascii windows1252 xcp1252"},
    {"windows-1253", "cp1253 windows1253 xcp1253"},
    {"windows-1254",
     "cp1254 csisolatin5 iso88599 isoir148 iso88599:1989 l5 latin5 windows1254"
     " xcp1254"},
    {"windows-1255", "cp1255 windows1255 xcp1255"},
    {"windows-1256", "cp1256 windows1256 xcp1256"},
    {"windows-1257", "cp1257 windows1257 xcp1257"},
    {"windows-1258", "cp1258 windows1258 xcp1258"},
    {"MAC-CYRILLIC", "xmaccyrillic xmacukrainian maccyrillic"},
    {"GB18030",
     "chinese csgb2312 csiso58gb231280 gb2312 gb231280 gbk isoir58 xgbk gb18030"
     " cp936 euccn"},
    {"BIG5-HKSCS", "big5 big5hkscs cnbig5 csbig5 xxbig5 cp950"},
    {"EUC-JP-MS", "cseucpkdfmtjapanese eucjp xeucjp eucjpms"},
    {"ISO-2022-JP", "csiso2022jp iso2022jp"},
    {"ISO-2022-KR", "csiso2022kr iso2022kr"},
    {"CP932", "csshiftjis ms932 mskanji shiftjis sjis windows31j xsjis cp932"},
    {"CP949",
     "cseuckr csksc56011987 euckr isoir149 korean ksc56011987 ksc56011989 ksc5601"
     " windows949 cp949 uhc"},
    {"JOHAB", "johab cp1361 ms1361 mscp1361 windows1361 xjohab ksc56011992"},
    {"UTF-16BE", "unicodefffe utf16be"},
    {"UTF-16LE", "csunicode iso10646ucs2 ucs2 unicode unicodefeff utf16 utf16le"},
    {"UTF-32LE", "utf32le utf32"},
    {"UTF-32BE", "utf32be"},
    {"CP437", "cp437 ibm437 437"},
    {"CP850", "cp850 ibm850 850"},
    {"CP852", "cp852 ibm852 852"},
    {"IBM855", "cp855 ibm855 855"},
    {"CP737", "cp737 ibm737 737"},
    {"CP775", "cp775 ibm775 775"},
    {"CP857", "cp857 ibm857 857"},
    {"CP860", "cp860 ibm860 860"},
    {"CP863", "cp863 ibm863 863"},
    {"CP865", "cp865 ibm865 865"},
    {"IBM869", "cp869 ibm869 869"},
    {"CP1125", "cp1125 cp866u ruscii"},
    {"VISCII", "viscii"},
    {"MAC-CENTRALEUROPE", "maccentraleurope xmacce maclatin2"}};

// The label in small letters, without white space around it; without '-' and '_' where
// `is_bare`.
std::string Normalized(std::string_view label, bool is_bare) {
  while (!label.empty() && IsHtmlSpace(label.front())) label.remove_prefix(1);
  while (!label.empty() && IsHtmlSpace(label.back())) label.remove_suffix(1);
  std::string normalized;
  for (const char c : label) {
    if (is_bare && (c == '-' || c == '_')) continue;
    normalized += static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  }
  return normalized;
}

// Number of bytes that one U+FFFD stands for where a character is invalid.
size_t UnitBytes(std::string_view encoding) {
  if (encoding.starts_with("UTF-16") || encoding.starts_with("UCS-2")) return 2;
  if (encoding.starts_with("UTF-32") || encoding.starts_with("UCS-4")) return 4;
  return 1;
}

}  // namespace

std::string EncodingOfLabel(std::string_view label) {
  const std::string bare = Normalized(label, true);
  if (bare.empty() || bare.find(' ') != std::string::npos) return "";
  for (const auto& [encoding, labels] : kEncodings) {
    if ((" " + std::string(labels) + " ").find(" " + bare + " ") != std::string::npos) {
      return CharsetConverter(encoding).is_open() ? encoding : "";
    }
  }
  return "";
}

std::string EncodingOfIconv(std::string_view name) {
  std::string known = Normalized(name, false);
  // iconv takes "NAME//TRANSLIT" and its like, and an empty name for the locale's encoding.
  const bool is_name =
      !known.empty() && known.size() <= 64 &&
      known.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.:+()") == std::string::npos;
  if (!is_name) return "";
  for (char& c : known) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return CharsetConverter(known).is_open() ? known : "";
}

ConvertedText ConvertToUtf8(std::string_view bytes, const std::string& encoding) {
  ConvertedText converted;
  CharsetConverter converter(encoding);
  std::string& text = converted.text;
  if (!converter.is_open()) {
    for (const char c : bytes) {
      if (static_cast<uint8_t>(c) < 0x80) {
        text += c;
      } else {
        text += kReplacementCharacter;
        ++converted.num_replaced;
      }
    }
    return converted;
  }
  text.reserve(bytes.size() + bytes.size() / 8);
  const size_t unit = UnitBytes(encoding);
  for (;;) {
    const int error = converter.Convert(&bytes, text);
    if (error == 0) break;
    if (error == E2BIG) continue;
    text += kReplacementCharacter;
    ++converted.num_replaced;
    if (error != EILSEQ) break;  // EINVAL: cut off at the end
    bytes.remove_prefix(std::min(unit, bytes.size()));
  }
  converter.Convert(nullptr, text);
  if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
  // Some of glibc's tables lead to code points that are no characters of UTF-8.
  if (!IsValidUtf8(text)) text = CleanUtf8(text).text;
  return converted;
}

}  // namespace lectern::tools
