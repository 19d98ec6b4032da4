#include "tools/ingest/ingest.h"

#include <algorithm>
#include <utility>

#include "tools/ingest/characters.h"
#include "tools/ingest/extracted.h"
#include "tools/ingest/html.h"
#include "tools/ingest/package_format.h"
#include "tools/ingest/pdf.h"
#include "tools/ingest/rtf.h"

namespace lectern::tools {
namespace {

constexpr std::string_view kPdfMagic = "%PDF-";
constexpr std::pair<std::string_view, Format> kFormats[] = {
    {"text", Format::kText}, {"markdown", Format::kMarkdown}, {"html", Format::kHtml},
    {"pdf", Format::kPdf},   {"rtf", Format::kRtf},           {"docx", Format::kDocx},
    {"odt", Format::kOdt},   {"pptx", Format::kPptx},         {"odp", Format::kOdp},
    {"xlsx", Format::kXlsx}, {"ods", Format::kOds},           {"epub", Format::kEpub},
    {"eml", Format::kMail},  {"ipynb", Format::kNotebook},    {"csv", Format::kCsv},
    {"tsv", Format::kTsv},   {"man", Format::kManPage}};
// Endings of file names, in any case.
constexpr std::pair<std::string_view, Format> kEndings[] = {
    {".pdf", Format::kPdf},           {".rtf", Format::kRtf},    {".html", Format::kHtml},
    {".htm", Format::kHtml},          {".xhtml", Format::kHtml}, {".md", Format::kMarkdown},
    {".markdown", Format::kMarkdown}, {".docx", Format::kDocx},  {".docm", Format::kDocx},
    {".dotx", Format::kDocx},         {".odt", Format::kOdt},    {".ott", Format::kOdt},
    {".pptx", Format::kPptx},         {".pptm", Format::kPptx},  {".ppsx", Format::kPptx},
    {".odp", Format::kOdp},           {".xlsx", Format::kXlsx},  {".xlsm", Format::kXlsx},
    {".xltx", Format::kXlsx},         {".ods", Format::kOds},    {".ots", Format::kOds},
    {".epub", Format::kEpub},         {".eml", Format::kMail},   {".ipynb", Format::kNotebook},
    {".csv", Format::kCsv},           {".tsv", Format::kTsv},    {".man", Format::kManPage}};

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

// Whether a file is packed by gzip and named as a manual page is: "ls.1.gz", "perl.3pm.gz".
bool IsPackedManPage(std::string_view bytes, std::string_view file_name) {
  constexpr std::string_view kGzip("\x1F\x8B", 2), kEnding = ".gz";
  if (!bytes.starts_with(kGzip) || !file_name.ends_with(kEnding)) return false;
  file_name.remove_suffix(kEnding.size());
  const size_t dot = file_name.rfind('.');
  return dot != std::string_view::npos && dot + 1 < file_name.size() &&
         file_name.size() - dot <= 6 && file_name[dot + 1] >= '1' && file_name[dot + 1] <= '9';
}

std::string_view NameOf(Format format) {
  return std::find_if(std::begin(kFormats), std::end(kFormats),
                      [format](const auto& known) { return known.second == format; })
      ->first;
}

std::string Quoted(const std::string& file_name, const char* otherwise) {
  return file_name.empty() ? otherwise : "\"" + file_name + "\"";
}

}  // namespace

std::optional<Format> ParseFormat(std::string_view name) {
  for (const auto& [known, format] : kFormats) {
    if (name == known) return format;
  }
  return std::nullopt;
}

Format DetectFormat(std::string_view bytes, std::string_view file_name) {
  if (bytes.starts_with(kPdfMagic)) return Format::kPdf;
  if (bytes.starts_with("{\\rtf")) return Format::kRtf;
  if (BeginsAsHtml(bytes)) return Format::kHtml;
  if (const auto format = ParseFormat(ZipFormat(bytes))) return *format;
  if (const auto format = ParseFormat(MarkedTextFormat(bytes))) return *format;
  if (IsPackedManPage(bytes, file_name)) return Format::kManPage;
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
  if (without == 0 || ingested.format != Format::kPdf) return ingested.note;
  return std::to_string(without) + " of " + std::to_string(ingested.num_pages) +
         " pages have no text: scans are not read" +
         (ingested.note.empty() ? "" : "; " + ingested.note);
}

api::Result<Ingested> Ingest(std::string bytes, const IngestOptions& options) {
  const auto named = ParseFormat(options.format);
  if (!named && options.format != "auto") {
    return api::Error{LECTERN_INVALID_ARGUMENT, "format is one of " + std::string(kFormatNames),
                      "format"};
  }
  Ingested ingested;
  ingested.format = named.value_or(DetectFormat(bytes, options.file_name));
  if (ingested.format == Format::kHtml) {
    HtmlOptions html;
    html.name = Quoted(options.file_name, "the page");
    html.is_cancelled = options.is_cancelled;
    if (options.memory_bytes > 0) {
      html.memory_bytes = std::min(html.memory_bytes, options.memory_bytes);
    }
    auto text = ReadHtml(bytes, html);
    if (!text.ok()) return text.error();
    ingested.text = std::move(*text);
  } else if (ingested.format == Format::kPdf) {
    auto paged = ReadPdf(bytes, {.name = Quoted(options.file_name, "the PDF"),
                                 .is_cancelled = options.is_cancelled});
    if (!paged.ok()) return paged.error();
    ingested.text = std::move(paged->text);
    ingested.pages = std::move(paged->pages);
    ingested.num_pages = paged->num_pages;
  } else if (ingested.format == Format::kRtf) {
    auto text = ReadRtf(bytes, {.name = Quoted(options.file_name, "the file"),
                                .is_cancelled = options.is_cancelled});
    if (!text.ok()) return text.error();
    ingested.text = std::move(*text);
    if (bytes.find("\\footnote") != std::string::npos)
      ingested.note = "footnotes of RTF are not read";
  } else if (ingested.format >= Format::kDocx) {
    auto extracted = ReadExtracted(
        bytes, std::string(NameOf(ingested.format)),
        {.name = Quoted(options.file_name, "the file"), .is_cancelled = options.is_cancelled});
    if (!extracted.ok()) return extracted.error();
    ingested.text = std::move(extracted->text);
    ingested.pages = std::move(extracted->pages);
    ingested.num_pages = extracted->num_pages;
    ingested.note = std::move(extracted->note);
  } else {
    ingested.text = std::move(bytes);
  }
  return ingested;
}

}  // namespace lectern::tools
