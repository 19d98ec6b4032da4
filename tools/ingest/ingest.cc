#include "tools/ingest/ingest.h"

#include <algorithm>
#include <utility>

#include "tools/ingest/characters.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/file_kind.h"
#include "tools/ingest/html.h"
#include "tools/ingest/pdf.h"
#include "tools/ingest/text_encoding.h"

namespace lectern::tools {
namespace {

constexpr std::string_view kPdfMagic = "%PDF-";
constexpr std::pair<std::string_view, Format> kFormats[] = {{"text", Format::kText},
                                                            {"markdown", Format::kMarkdown},
                                                            {"html", Format::kHtml},
                                                            {"pdf", Format::kPdf}};
// Endings of file names, in any case.
constexpr std::pair<std::string_view, Format> kEndings[] = {
    {".pdf", Format::kPdf},    {".html", Format::kHtml},   {".htm", Format::kHtml},
    {".xhtml", Format::kHtml}, {".md", Format::kMarkdown}, {".markdown", Format::kMarkdown}};

char Lower(char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

// `lower` is in small letters, ASCII.
bool StartsWithCaseless(std::string_view text, std::string_view lower) {
  return text.size() >= lower.size() && std::equal(lower.begin(), lower.end(), text.begin(),
                                                   [](char l, char c) { return l == Lower(c); });
}

// `text` behind white space, comments and processing instructions at its start; empty where one of
// them is not closed.
std::string_view BehindProlog(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kSkipped[] = {{"<!--", "-->"},
                                                                        {"<?", "?>"}};
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n\f"), text.size()));
    const auto* const found =
        std::find_if(std::begin(kSkipped), std::end(kSkipped),
                     [&](const auto& skipped) { return text.starts_with(skipped.first); });
    if (found == std::end(kSkipped)) return text;
    const size_t end = text.find(found->second);
    if (end == std::string_view::npos) return {};
    text.remove_prefix(end + found->second.size());
  }
}

// The character behind the tag's name is looked at, so that <htmlx> is none.
bool BeginsAsHtml(std::string_view bytes) {
  if (bytes.starts_with(kByteOrderMark)) bytes.remove_prefix(kByteOrderMark.size());
  const std::string_view begin = BehindProlog(bytes);
  for (const std::string_view tag : {"<!doctype html", "<html"}) {
    if (!StartsWithCaseless(begin, tag)) continue;
    const char next = begin.size() > tag.size() ? begin[tag.size()] : '>';
    if (next == '>' || next == ' ' || next == '\t' || next == '\n' || next == '\r') return true;
  }
  return false;
}

std::string Quoted(const std::string& file_name, const char* otherwise) {
  return file_name.empty() ? otherwise : "\"" + file_name + "\"";
}

// The error that the bytes are no text; nothing: they are.
std::optional<api::Error> NoText(std::string_view bytes, const std::string& file_name) {
  const auto kind = KindOfBinary(bytes);
  if (!kind) return std::nullopt;
  return api::Error{LECTERN_INVALID_ARGUMENT,
                    Quoted(file_name, "the file") + " is " + std::string(kind->name) +
                        " and not text: " + std::string(kind->way_out) +
                        "; the format text indexes its bytes all the same",
                    "file"};
}

// Moves a decoded text and what there is to say about it into `ingested`.
void TakeDecoded(DecodedText&& decoded, Ingested& ingested) {
  ingested.text = std::move(decoded.text);
  ingested.note = std::move(decoded.note);
  ingested.is_encoding_assumed = decoded.is_assumed;
}

}  // namespace

std::optional<Format> ParseFormat(std::string_view name) {
  for (const auto& [known, format] : kFormats) {
    if (name == known) return format;
  }
  return std::nullopt;
}

bool IsEncodingLabel(std::string_view name) {
  return name == "auto" || !EncodingOfLabel(name).empty();
}

Format DetectFormat(std::string_view bytes, std::string_view file_name) {
  if (bytes.starts_with(kPdfMagic)) return Format::kPdf;
  if (BeginsAsHtml(bytes)) return Format::kHtml;
  for (const auto& [ending, format] : kEndings) {
    if (file_name.size() >= ending.size() &&
        StartsWithCaseless(file_name.substr(file_name.size() - ending.size()), ending)) {
      return format;
    }
  }
  return Format::kText;
}

std::string PagesNote(const Ingested& ingested) {
  const uint64_t without = ingested.num_pages - ingested.pages.size();
  if (without == 0) return "";
  return std::to_string(without) + " of " + std::to_string(ingested.num_pages) +
         " pages have no text: scans are not read";
}

std::string IngestNote(const Ingested& ingested, std::string_view encoding_option) {
  std::string note = ingested.note, pages = PagesNote(ingested);
  if (ingested.is_encoding_assumed) note += " (" + std::string(encoding_option) + " names another)";
  return note + (note.empty() || pages.empty() ? "" : "; ") + pages;
}

api::Result<Ingested> Ingest(std::string bytes, const IngestOptions& options) {
  const auto named = ParseFormat(options.format);
  if (!named && options.format != "auto") {
    return api::Error{LECTERN_INVALID_ARGUMENT, "format is one of " + std::string(kFormatNames),
                      "format"};
  }
  Ingested ingested;
  ingested.format = named.value_or(DetectFormat(bytes, options.file_name));
  if (!named && ingested.format != Format::kPdf) {
    if (auto error = NoText(bytes, options.file_name)) return *error;
  }
  if (ingested.format == Format::kHtml) {
    HtmlOptions html;
    html.name = Quoted(options.file_name, "the page");
    html.encoding = options.encoding;
    html.is_cancelled = options.is_cancelled;
    if (options.memory_bytes > 0) {
      html.memory_bytes = std::min(html.memory_bytes, options.memory_bytes);
    }
    auto decoded = DecodeHtml(bytes, html);
    if (!decoded.ok()) return decoded.error();
    html.encoding = "UTF-8";
    auto text = ReadHtml(decoded->text, html);
    if (!text.ok()) return text.error();
    decoded->text = std::move(*text);
    TakeDecoded(std::move(*decoded), ingested);
  } else if (ingested.format == Format::kPdf) {
    auto paged = ReadPdf(bytes, {.name = Quoted(options.file_name, "the PDF"),
                                 .is_cancelled = options.is_cancelled});
    if (!paged.ok()) return paged.error();
    ingested.text = std::move(paged->text);
    ingested.pages = std::move(paged->pages);
    ingested.num_pages = paged->num_pages;
  } else {
    auto decoded = DecodeText(std::move(bytes), options.encoding);
    if (!decoded.ok()) return decoded.error();
    TakeDecoded(std::move(*decoded), ingested);
  }
  return ingested;
}

}  // namespace lectern::tools
