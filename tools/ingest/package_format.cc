#include "tools/ingest/package_format.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

namespace lectern::tools {
namespace {

// Media types of OpenDocument and EPUB, which the first entry, stored as it is, holds. Templates
// have the same with "-template".
constexpr std::pair<std::string_view, std::string_view> kMediaTypes[] = {
    {"application/vnd.oasis.opendocument.text", "odt"},
    {"application/vnd.oasis.opendocument.presentation", "odp"},
    {"application/vnd.oasis.opendocument.spreadsheet", "ods"},
    {"application/epub+zip", "epub"}};
// Parts that only one kind of Office Open XML has, without a number (Word's "document2.xml") and
// ".xml".
constexpr std::pair<std::string_view, std::string_view> kParts[] = {
    {"word/document", "docx"}, {"ppt/presentation", "pptx"}, {"xl/workbook", "xlsx"}};

// A number of 2 or 4 bytes, the lowest first; 0 behind the end.
uint32_t Number(std::string_view bytes, size_t at, size_t size) {
  if (at > bytes.size() || bytes.size() - at < size) return 0;
  uint32_t number = 0;
  for (size_t i = size; i-- > 0;) number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  return number;
}

// Where the directory at a zip file's end begins (APPNOTE.TXT 4.3.16); npos: there is none.
size_t DirectoryBegin(std::string_view bytes) {
  constexpr std::string_view kEnd("PK\5\6", 4);
  constexpr size_t kMostComment = 65536 + 22;
  const size_t from = bytes.size() - std::min(bytes.size(), kMostComment);
  const size_t found = bytes.substr(from).rfind(kEnd);
  return found == std::string_view::npos ? found : Number(bytes, from + found + 16, 4);
}

char ToLower(char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

std::string LowerText(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), ToLower);
  return lower;
}

// A flat OpenDocument file is one XML file, whose first element names the media type.
std::string_view FlatFormat(std::string_view bytes) {
  constexpr size_t kHead = 8192;  // LibreOffice's first element has 3 kB of namespaces
  const std::string_view head = bytes.substr(0, kHead);
  if (head.find("<?xml") > 3 || head.find("<office:document ") == head.npos) return "";
  for (const auto& [type, format] : kMediaTypes) {
    const size_t at = head.find("office:mimetype=\"" + std::string(type) + '"');
    if (at != std::string_view::npos) return format;
  }
  return "";
}

// Whether XML is a document of DocBook: its document type or namespace says so, or its first
// element is one of DocBook's and paragraphs or the parts of a manual page follow.
bool IsDocBook(std::string_view bytes) {
  constexpr size_t kHead = 65536;  // entities and licences stand at the start
  constexpr std::string_view kSpaces = " \t\r\n>",
                             kRoots[] = {"set",       "book",     "part",        "article",
                                         "chapter",   "appendix", "preface",     "section",
                                         "sect1",     "refentry", "refsect1",    "glossary",
                                         "reference", "topic",    "bibliography"};
  std::string_view head = bytes.substr(0, kHead);
  std::string_view space = head;
  if (space.starts_with("\xEF\xBB\xBF")) space.remove_prefix(3);
  space.remove_prefix(std::min(space.find_first_not_of(" \t\r\n"), space.size()));
  if (!space.starts_with('<')) return false;
  // The first element, behind comments, instructions and a document type.
  for (size_t at = head.find('<'); at < head.size(); at = head.find('<', at)) {
    const std::string_view rest = head.substr(at);
    if (rest.starts_with("<!--") || rest.starts_with("<?")) {
      const size_t end = rest.find(rest[1] == '?' ? "?>" : "-->", 2);
      if (end == std::string_view::npos) return false;
      at += end;
    } else if (rest.starts_with("<!DOCTYPE")) {
      const std::string_view type = rest.substr(0, rest.find_first_of("[>"));
      if (type.find("DocBook") != type.npos || type.find("docbook") != type.npos) return true;
      const size_t end =
          rest.find(type.size() < rest.size() && rest[type.size()] == '[' ? "]" : ">");
      if (end == std::string_view::npos) return false;
      at += end;
    } else {
      const std::string_view tag = rest.substr(1, rest.find('>'));
      std::string_view name = tag.substr(0, tag.find_first_of(kSpaces));
      name.remove_prefix(name.find(':') == name.npos ? 0 : name.find(':') + 1);
      if (std::find(std::begin(kRoots), std::end(kRoots), name) == std::end(kRoots)) return false;
      return tag.find("http://docbook.org/ns/docbook") != tag.npos ||
             rest.find("<para>") != rest.npos || rest.find("<refnamediv") != rest.npos;
    }
  }
  return false;
}

// "ics" or "vcf", if the first line says so.
std::string_view CardFormat(std::string_view bytes) {
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  bytes.remove_prefix(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
  const std::string line =
      LowerText(bytes.substr(0, std::min(bytes.find_first_of("\r\n"), size_t{40})));
  const std::string_view text = std::string_view(line).substr(0, line.find_last_not_of(" \t") + 1);
  return text == "begin:vcalendar" ? "ics" : text == "begin:vcard" ? "vcf" : "";
}

// Whether a line stands before a message of a mailbox: "From ada@example.org Fri May 17 09:30:00
// 2024" (RFC 4155).
bool IsMailboxLine(std::string_view line) {
  if (!line.starts_with("From ")) return false;
  bool has_time = false, has_year = false;
  for (size_t i = 5; i + 4 < line.size() + 1; ++i) {
    const auto digit = [&](size_t at) {
      return at < line.size() && line[at] >= '0' && line[at] <= '9';
    };
    has_time |= digit(i) && digit(i + 1) && line[i + 2] == ':' && digit(i + 3);
    has_year |= line[i - 1] == ' ' && (line[i] == '1' || line[i] == '2') && digit(i + 1) &&
                digit(i + 2) && digit(i + 3) && !digit(i + 4);
  }
  return has_time && has_year;
}

}  // namespace

std::string_view ZipFormat(std::string_view bytes) {
  constexpr std::string_view kEntry("PK\3\4", 4), kListed("PK\1\2", 4);
  constexpr size_t kEntryBytes = 30, kListedBytes = 46;
  if (!bytes.starts_with(kEntry) || bytes.size() < kEntryBytes) return "";
  const size_t name_bytes = Number(bytes, 26, 2), extra_bytes = Number(bytes, 28, 2);
  if (bytes.substr(kEntryBytes).starts_with("mimetype")) {
    const size_t begin = kEntryBytes + name_bytes + extra_bytes;
    const std::string_view content = bytes.substr(std::min(begin, bytes.size()));
    for (const auto& [type, format] : kMediaTypes) {
      if (!content.starts_with(type)) continue;
      // "…text-master" and others of more parts are none of these.
      const std::string_view behind = content.substr(type.size());
      if (!behind.starts_with('-') || behind.starts_with("-template")) return format;
    }
  }
  for (size_t at = DirectoryBegin(bytes); at < bytes.size();) {
    if (!bytes.substr(at).starts_with(kListed) || bytes.size() - at < kListedBytes) break;
    const size_t length = Number(bytes, at + 28, 2);
    const std::string name = LowerText(bytes.substr(at + kListedBytes, length));
    for (const auto& [part, format] : kParts) {
      if (name.starts_with(part) &&
          (name.substr(part.size()) == ".xml" || name.substr(part.size() + 1) == ".xml"))
        return format;
    }
    // Books whose media type does not stand first.
    if (name == "meta-inf/container.xml") return "epub";
    at += kListedBytes + length + Number(bytes, at + 30, 2) + Number(bytes, at + 32, 2);
  }
  return "";
}

std::string_view MarkedTextFormat(std::string_view bytes) {
  if (const std::string_view flat = FlatFormat(bytes); !flat.empty()) return flat;
  constexpr size_t kHead = 8192;  // comments may stand before the first element
  const std::string_view head = bytes.substr(0, kHead);
  if (head.find("<?xml") <= 3 && head.find("<FictionBook") != head.npos) return "fb2";
  if (const std::string_view card = CardFormat(bytes); !card.empty()) return card;
  if (IsDocBook(bytes)) return "docbook";
  // The mark of WebVTT stands alone in its line, or before a remark.
  const size_t mark = bytes.starts_with("\xEF\xBB\xBF") ? 3 : 0;
  if (bytes.substr(mark, 6) == "WEBVTT" &&
      bytes.substr(mark + 6, 1).find_first_not_of(" \t\r\n") == std::string_view::npos)
    return "srt";
  constexpr size_t kMostLines = 200;
  bool is_mail = true, has_sender = false, has_mark = false;
  size_t num_lines = 0;
  for (std::string_view rest = bytes; !rest.empty() && num_lines < kMostLines; ++num_lines) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (num_lines == 0 && IsMailboxLine(line)) {
      has_mark = true;
      continue;
    }
    const bool is_comment = line.starts_with(".\\\"") || line.starts_with("'\\\"") || line == "." ||
                            line == "'" || line.empty();
    if (line.starts_with(".TH ") || line.starts_with(".Dd ") || line.starts_with(".Dd\t"))
      return "man";
    if (is_comment && !is_mail) continue;
    if (line.empty()) return is_mail && has_sender && has_mark ? "eml" : "";
    const size_t colon = line.find(':');
    const std::string name = LowerText(line.substr(0, std::min(colon, size_t{40})));
    const bool is_header = colon != std::string_view::npos && colon > 0 &&
                           name.find(' ') == std::string::npos &&
                           name.find('\t') == std::string::npos;
    const bool goes_on = num_lines > 0 && (line[0] == ' ' || line[0] == '\t');
    is_mail = is_mail && (is_header || goes_on);
    has_sender |= name == "from";
    has_mark |= name == "message-id" || name == "mime-version" || name == "received" ||
                name == "return-path" || name == "delivered-to";
    // Requests of roff may stand before the title's.
    if (!is_mail && !is_comment && !line.starts_with('.') && !line.starts_with('\'')) return "";
  }
  return "";
}

}  // namespace lectern::tools
