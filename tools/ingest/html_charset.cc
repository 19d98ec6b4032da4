// Finds out in which encoding a page is and turns it into UTF-8 (DecodeHtml of html.h). UTF-8 and
// windows-1252 are read; a page in another encoding is refused by name.
#include <algorithm>
#include <array>
#include <optional>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/html.h"

namespace lectern::tools {
namespace {

// Where a declaration is looked for. Browsers look at 1,024 bytes; pages exist that put it later.
constexpr size_t kDeclaredWithin = 4096;

// Characters of the bytes 0x80 to 0x9F (encoding.spec.whatwg.org, windows-1252); all other bytes
// are themselves.
constexpr std::array<uint16_t, 32> kWindows1252 = {
    0x20AC, 0x0081, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0x008D, 0x017D, 0x008F, 0x0090, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x009D, 0x017E, 0x0178};

// Cannot fail: every byte is a character.
std::string FromWindows1252(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() + bytes.size() / 8);
  for (const char c : bytes) {
    const auto byte = static_cast<uint8_t>(c);
    AppendUtf8(byte >= 0x80 && byte < 0xA0 ? kWindows1252[byte - 0x80] : byte, text);
  }
  return text;
}

// ASCII letters alone.
std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

// The value behind `key` and "=" in a tag, bare or in quotes; nothing where there is none. It looks
// for the key anywhere, so that it finds the charset inside of content="text/html; charset=…", too.
std::optional<std::string> ValueOf(std::string_view tag, std::string_view key) {
  for (size_t at = tag.find(key); at != std::string_view::npos; at = tag.find(key, at + 1)) {
    std::string_view rest = tag.substr(at + key.size());
    const auto skip_spaces = [&rest] {
      while (!rest.empty() && IsHtmlSpace(rest.front())) rest.remove_prefix(1);
    };
    skip_spaces();
    if (!rest.starts_with('=')) continue;
    rest.remove_prefix(1);
    skip_spaces();
    if (rest.starts_with('"') || rest.starts_with('\'')) rest.remove_prefix(1);
    const size_t end = rest.find_first_of(" \t\r\n\f\"';/>?");
    return std::string(rest.substr(0, end));
  }
  return std::nullopt;
}

// The encoding that the page declares, in small letters, by <?xml encoding="…"?>, <meta charset=…>
// or <meta content="…; charset=…">; nothing where it declares none.
std::optional<std::string> Declared(std::string_view bytes) {
  const std::string head = Lower(bytes.substr(0, kDeclaredWithin));
  const std::string_view view = head;
  if (view.starts_with("<?xml")) {
    if (auto encoding = ValueOf(view.substr(0, view.find('>')), "encoding")) return encoding;
  }
  for (size_t at = view.find("<meta"); at != std::string_view::npos;
       at = view.find("<meta", at + 1)) {
    const std::string_view tag = view.substr(at, view.find('>', at) - at);
    if (auto charset = ValueOf(tag, "charset")) return charset;
  }
  return std::nullopt;
}

bool IsOneOf(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

api::Result<std::string> DecodeHtml(std::string_view bytes, const HtmlOptions& options) {
  const auto refuse = [&options](std::string_view encoding) {
    return api::Error{LECTERN_INVALID_ARGUMENT,
                      options.name + " is in " + std::string(encoding) +
                          "; UTF-8, latin-1 and windows-1252 are read: convert it first (iconv)",
                      "file"};
  };
  if (bytes.starts_with(kByteOrderMark)) return CleanUtf8(bytes).text;
  if (bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF")) return refuse("UTF-16");
  const auto declared = Declared(bytes);
  if (!declared) {
    return IsValidUtf8(bytes) ? std::string(bytes) : FromWindows1252(bytes);
  }
  if (IsOneOf(*declared, {"utf-8", "utf8"})) return CleanUtf8(bytes).text;
  if (IsOneOf(*declared, {"iso-8859-1", "iso8859-1", "iso_8859-1", "latin1", "latin-1", "l1",
                          "windows-1252", "cp1252", "x-cp1252", "us-ascii", "ascii"})) {
    return FromWindows1252(bytes);
  }
  return refuse("\"" + CleanUtf8(declared->substr(0, 40)).text + "\"");  // the page's own text
}

}  // namespace lectern::tools
