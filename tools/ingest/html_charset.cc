// Finds out in which encoding a page is and turns it into UTF-8 (DecodeHtml of html.h).
#include <optional>

#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/encoding_guess.h"
#include "tools/ingest/html.h"
#include "tools/ingest/text_encoding.h"

namespace lectern::tools {
namespace {

// Where a declaration is looked for. Browsers look at 1,024 bytes; pages exist that put it later.
constexpr size_t kDeclaredWithin = 4096;

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

// The encoding that a page declares, as EncodingOfLabel names it; empty: none, or one that it
// cannot be in. A declaration that can be read is not in UTF-16 or UTF-32.
std::string DeclaredEncoding(std::string_view bytes) {
  const auto declared = Declared(bytes);
  const std::string encoding = declared ? EncodingOfLabel(*declared) : "";
  const bool is_wide = encoding.starts_with("UTF-16") || encoding.starts_with("UTF-32") ||
                       encoding.starts_with("UCS-") || encoding.starts_with("UNICODE");
  return is_wide ? "" : encoding;
}

// Whether the bytes contradict the declared encoding: they are no UTF-8, or they are UTF-8 where
// windows-1252 was declared, which often is a server's or an editor's default, or where they are
// invalid in the declared one.
bool IsContradicted(std::string_view bytes, const std::string& encoding) {
  const Utf8Counts counts = CountUtf8(bytes);
  if (encoding == "UTF-8") return !IsMostlyUtf8(counts);
  if (counts.multibyte == 0 || !counts.is_valid()) return false;
  return encoding == "windows-1252" || ConvertToUtf8(bytes, encoding).num_replaced > 0;
}

}  // namespace

api::Result<DecodedText> DecodeHtml(std::string_view bytes, const HtmlOptions& options) {
  if (bytes.size() > options.most_bytes) {
    return api::Error{LECTERN_LIMIT_EXCEEDED,
                      options.name + " is too long for HTML; give its text, or split it", "file"};
  }
  std::string encoding = options.encoding;
  if (encoding == "auto" && !HasByteOrderMark(bytes)) {
    const std::string declared = DeclaredEncoding(bytes);
    if (!declared.empty() && !IsContradicted(bytes, declared)) encoding = declared;
  }
  auto decoded = DecodeText(std::string(bytes), encoding);
  if (decoded.ok() && decoded->encoding == "UTF-8") decoded->text = CleanUtf8(decoded->text).text;
  return decoded;
}

}  // namespace lectern::tools
