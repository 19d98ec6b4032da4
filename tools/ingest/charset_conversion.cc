#include "tools/ingest/charset_conversion.h"

#include <iconv.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"

namespace lectern::tools {
namespace {

// Labels of encoding.spec.whatwg.org, without '-' and '_', for which iconv has no such name or reads
// less than a browser does. iconv knows the others by themselves.
constexpr std::pair<std::string_view, const char*> kLabels[] = {
    {"unicode11utf8", "UTF-8"},          {"unicode20utf8", "UTF-8"},
    {"xunicode20utf8", "UTF-8"},         {"utf8", "UTF-8"},
    {"utf8sig", "UTF-8"},                {"ascii", "windows-1252"},
    {"usascii", "windows-1252"},         {"ansix3.41968", "windows-1252"},
    {"latin1", "windows-1252"},          {"l1", "windows-1252"},
    {"iso88591", "windows-1252"},        {"iso88591:1987", "windows-1252"},
    {"isoir100", "windows-1252"},        {"csisolatin1", "windows-1252"},
    {"cp819", "windows-1252"},           {"ibm819", "windows-1252"},
    {"xcp1252", "windows-1252"},         {"latin5", "windows-1254"},
    {"l5", "windows-1254"},              {"iso88599", "windows-1254"},
    {"iso88599:1989", "windows-1254"},   {"isoir148", "windows-1254"},
    {"csisolatin5", "windows-1254"},     {"xcp1254", "windows-1254"},
    {"xcp1250", "windows-1250"},         {"xcp1251", "windows-1251"},
    {"xcp1253", "windows-1253"},         {"xcp1255", "windows-1255"},
    {"xcp1256", "windows-1256"},         {"xcp1257", "windows-1257"},
    {"xcp1258", "windows-1258"},         {"tis620", "CP874"},
    {"windows874", "CP874"},             {"dos874", "CP874"},
    {"iso885911", "CP874"},              {"gb2312", "GB18030"},
    {"gb231280", "GB18030"},             {"gbk", "GB18030"},
    {"xgbk", "GB18030"},                 {"cp936", "GB18030"},
    {"chinese", "GB18030"},              {"csgb2312", "GB18030"},
    {"csiso58gb231280", "GB18030"},      {"isoir58", "GB18030"},
    {"euccn", "GB18030"},                {"big5", "BIG5-HKSCS"},
    {"cnbig5", "BIG5-HKSCS"},            {"csbig5", "BIG5-HKSCS"},
    {"xxbig5", "BIG5-HKSCS"},            {"cp950", "BIG5-HKSCS"},
    {"shiftjis", "CP932"},               {"sjis", "CP932"},
    {"csshiftjis", "CP932"},             {"mskanji", "CP932"},
    {"xsjis", "CP932"},                  {"eucjp", "EUC-JP-MS"},
    {"xeucjp", "EUC-JP-MS"},             {"cseucpkdfmtjapanese", "EUC-JP-MS"},
    {"euckr", "CP949"},                  {"cseuckr", "CP949"},
    {"korean", "CP949"},                 {"ksc56011987", "CP949"},
    {"ksc56011989", "CP949"},            {"ksc5601", "CP949"},
    {"csksc56011987", "CP949"},          {"isoir149", "CP949"},
    {"windows949", "CP949"},
    {"uhc", "CP949"},             {"koi", "KOI8-R"},
    {"koi8", "KOI8-R"},                  {"koi8r", "KOI8-R"},
    {"koi8ru", "KOI8-U"},                {"cp1252", "windows-1252"},
    {"iso10646ucs2", "UTF-16LE"},
    {"iso88598e", "ISO-8859-8"},         {"iso88598i", "ISO-8859-8"},
    {"csiso88598e", "ISO-8859-8"},       {"csiso88598i", "ISO-8859-8"},
    {"logical", "ISO-8859-8"},           {"visual", "ISO-8859-8"},
    {"iso88596e", "ISO-8859-6"},         {"iso88596i", "ISO-8859-6"},
    {"csiso88596e", "ISO-8859-6"},       {"csiso88596i", "ISO-8859-6"},
    {"suneugreek", "ISO-8859-7"},        {"csisolatin9", "ISO-8859-15"},
    {"l9", "ISO-8859-15"},               {"xmacroman", "MACINTOSH"},
    {"xmaccyrillic", "MAC-CYRILLIC"},    {"xmacukrainian", "MAC-UK"},
    {"unicodefffe", "UTF-16BE"},         {"unicodefeff", "UTF-16LE"}};

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

// A descriptor of iconv that converts into UTF-8.
class Converter {
 public:
  explicit Converter(const std::string& encoding)
      : descriptor_(iconv_open("UTF-8", encoding.c_str())) {}
  ~Converter() {
    if (is_open()) iconv_close(descriptor_);
  }
  Converter(const Converter&) = delete;
  Converter& operator=(const Converter&) = delete;

  bool is_open() const { return descriptor_ != reinterpret_cast<iconv_t>(-1); }

  // Converts from the front of `in` into `out`, and takes the converted bytes off `in`. Returns 0
  // at the end of `in`, else iconv's errno: E2BIG, EILSEQ, EINVAL. With `in` null it writes the
  // characters that an encoding of combining parts (windows-1258, Big5-HKSCS) still holds.
  int Convert(std::string_view* in, std::string& out) {
    char buffer[1 << 14];
    char* to = buffer;
    size_t room = sizeof buffer, left = in ? in->size() : 0;
    char* from = in ? const_cast<char*>(in->data()) : nullptr;  // iconv does not write to it
    const size_t result = iconv(descriptor_, in ? &from : nullptr, &left, &to, &room);
    const int error = result == static_cast<size_t>(-1) ? errno : 0;
    out.append(buffer, to);
    if (in) in->remove_prefix(in->size() - left);
    return error;
  }

 private:
  iconv_t descriptor_;
};

// Number of bytes that one U+FFFD stands for where a character is invalid.
size_t UnitBytes(std::string_view encoding) {
  if (encoding.starts_with("UTF-16") || encoding.starts_with("UCS-2")) return 2;
  if (encoding.starts_with("UTF-32") || encoding.starts_with("UCS-4")) return 4;
  return 1;
}

}  // namespace

std::string EncodingOfLabel(std::string_view label) {
  const std::string bare = Normalized(label, true);
  for (const auto& [known, encoding] : kLabels) {
    if (bare == known) return encoding;
  }
  std::string name = Normalized(label, false);
  // iconv takes "NAME//TRANSLIT" and its like, and an empty name for the locale's encoding.
  const bool is_name =
      !name.empty() && name.size() <= 64 &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.:+()") == std::string::npos;
  if (!is_name) return "";
  if (!name.starts_with("windows-")) {
    for (char& c : name) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  }
  return Converter(name).is_open() ? name : "";
}

ConvertedText ConvertToUtf8(std::string_view bytes, const std::string& encoding) {
  ConvertedText converted;
  Converter converter(encoding);
  if (!converter.is_open()) return converted;
  std::string& text = converted.text;
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
