// Whatever the bytes are: text without NULs, which is valid UTF-8 where it was converted, and a
// name for its encoding; and a kind of file that has a name and a way out.
#include <iconv.h>

#include <cstdlib>
#include <vector>

#include "engine/model/formats/text.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/file_kind.h"
#include "tools/ingest/html.h"

// Converters that stay open: else glibc loads and drops 20 libraries for each input.
static std::vector<iconv_t> OpenConverters() {
  std::vector<iconv_t> open;
  for (const char* name :
       {"windows-1250", "windows-1251", "windows-1252", "windows-1253", "windows-1254",
        "windows-1255", "windows-1256", "windows-1257", "windows-1258", "ISO-8859-2",
        "ISO-8859-4",   "ISO-8859-5",   "ISO-8859-13",  "ISO-8859-15",  "KOI8-R",
        "KOI8-U",       "CP866",        "CP874",        "GB18030",      "BIG5-HKSCS",
        "CP932",        "EUC-JP-MS",    "CP949",        "UTF-16LE",     "UTF-32LE"}) {
    open.push_back(iconv_open("UTF-8", name));
  }
  return open;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lectern::tools;
  static const auto* const converters = new std::vector<iconv_t>(OpenConverters());
  if (converters->empty()) std::abort();
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto kind = KindOfBinary(bytes);
  if (kind && (kind->name.empty() || kind->way_out.empty())) std::abort();
  const auto check = [](lectern::api::Result<DecodedText> decoded, bool is_clean) {
    if (!decoded.ok() || decoded->encoding.empty()) std::abort();
    if (decoded->text.find('\0') != std::string::npos) std::abort();
    if (is_clean && !lectern::IsValidUtf8(decoded->text)) std::abort();
    if (decoded->is_assumed && decoded->note.empty()) std::abort();
  };
  auto decoded = DecodeText(bytes, "auto");
  const bool is_converted = decoded.ok() && decoded->encoding != "UTF-8";
  check(decoded, is_converted);
  check(DecodeHtml(bytes, {}), true);
  // The last byte chooses an encoding that a file may name.
  constexpr const char* kNames[] = {"utf-16", "utf-32be", "gb18030", "big5",        "shift_jis",
                                    "euc-jp", "euc-kr",   "cp1258",  "iso-2022-jp", "koi8-u"};
  if (size > 0) check(DecodeText(bytes, kNames[data[size - 1] % std::size(kNames)]), true);
  return 0;
}
