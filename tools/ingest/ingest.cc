#include "tools/ingest/ingest.h"

#include <algorithm>
#include <utility>

#include "engine/model/formats/json.h"
#include "engine/model/formats/text.h"
#include "tools/ingest/characters.h"
#include "tools/ingest/charset_conversion.h"
#include "tools/ingest/extracted.h"
#include "tools/ingest/file_kind.h"
#include "tools/ingest/html.h"
#include "tools/ingest/old_word.h"
#include "tools/ingest/package_format.h"
#include "tools/ingest/pdf.h"
#include "tools/ingest/rtf.h"
#include "tools/ingest/text_encoding.h"

namespace lectern::tools {
namespace {

constexpr std::string_view kPdfMagic = "%PDF-";
constexpr std::pair<std::string_view, Format> kFormats[] = {
    {"text", Format::kText},       {"markdown", Format::kMarkdown}, {"html", Format::kHtml},
    {"pdf", Format::kPdf},         {"rtf", Format::kRtf},           {"doc", Format::kDoc},
    {"docx", Format::kDocx},       {"odt", Format::kOdt},           {"pptx", Format::kPptx},
    {"odp", Format::kOdp},         {"xlsx", Format::kXlsx},         {"ods", Format::kOds},
    {"epub", Format::kEpub},       {"xls", Format::kXls},           {"ppt", Format::kPpt},
    {"msg", Format::kMsg},         {"eml", Format::kMail},          {"ipynb", Format::kNotebook},
    {"csv", Format::kCsv},         {"tsv", Format::kTsv},           {"man", Format::kManPage},
    {"srt", Format::kSubtitles},   {"fb2", Format::kFictionBook},   {"rst", Format::kRst},
    {"adoc", Format::kAsciiDoc},   {"org", Format::kOrg},           {"latex", Format::kLatex},
    {"docbook", Format::kDocBook}, {"ics", Format::kCalendar},      {"vcf", Format::kContacts}};
// Endings of file names, in any case.
constexpr std::pair<std::string_view, Format> kEndings[] = {
    {".pdf", Format::kPdf},           {".rtf", Format::kRtf},
    {".html", Format::kHtml},         {".htm", Format::kHtml},
    {".xhtml", Format::kHtml},        {".xht", Format::kHtml},
    {".shtml", Format::kHtml},        {".md", Format::kMarkdown},
    {".markdown", Format::kMarkdown}, {".mkd", Format::kMarkdown},
    {".docx", Format::kDocx},         {".docm", Format::kDocx},
    {".dotx", Format::kDocx},         {".dotm", Format::kDocx},
    {".odt", Format::kOdt},           {".ott", Format::kOdt},
    {".fodt", Format::kOdt},          {".pptx", Format::kPptx},
    {".pptm", Format::kPptx},         {".ppsx", Format::kPptx},
    {".ppsm", Format::kPptx},         {".potx", Format::kPptx},
    {".potm", Format::kPptx},         {".odp", Format::kOdp},
    {".otp", Format::kOdp},           {".fodp", Format::kOdp},
    {".xlsx", Format::kXlsx},         {".xlsm", Format::kXlsx},
    {".xltx", Format::kXlsx},         {".xltm", Format::kXlsx},
    {".ods", Format::kOds},           {".ots", Format::kOds},
    {".fods", Format::kOds},          {".epub", Format::kEpub},
    {".eml", Format::kMail},          {".mbox", Format::kMail},
    {".mht", Format::kMail},          {".mhtml", Format::kMail},
    {".ipynb", Format::kNotebook},    {".csv", Format::kCsv},
    {".tsv", Format::kTsv},           {".tab", Format::kTsv},
    {".man", Format::kManPage},       {".srt", Format::kSubtitles},
    {".vtt", Format::kSubtitles},     {".fb2", Format::kFictionBook},
    {".rst", Format::kRst},           {".rst.txt", Format::kRst},
    {".adoc", Format::kAsciiDoc},     {".asciidoc", Format::kAsciiDoc},
    {".org", Format::kOrg},           {".tex", Format::kLatex},
    {".latex", Format::kLatex},       {".ltx", Format::kLatex},
    {".docbook", Format::kDocBook},   {".dbk", Format::kDocBook},
    {".ics", Format::kCalendar},      {".ical", Format::kCalendar},
    {".vcf", Format::kContacts},      {".vcard", Format::kContacts}};

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

// Whether a file is named as a manual page is: "ls.1", "perl.3pm", "netmap.4freebsd".
bool IsNamedAsManPage(std::string_view file_name) {
  const size_t dot = file_name.rfind('.');
  if (dot == std::string_view::npos) return false;
  const std::string_view section = file_name.substr(dot + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return !section.empty() && section.size() <= 10 && is_digit(section[0]) && section[0] != '0' &&
         (section.size() == 1 || !is_digit(section[1]));
}

// Whether a line begins with a macro that most manual pages have: behind definitions of their own,
// as Pod::Man and docutils write, or as the only line of a page that refers to another one.
bool HasManMacro(std::string_view bytes) {
  constexpr size_t kMacrosWithin = size_t{64} << 10;
  const std::string start = '\n' + std::string(bytes.substr(0, kMacrosWithin));
  constexpr std::string_view kMacros[] = {"\n.TH ", "\n.Dd ", "\n.SH ", "\n.Sh ", "\n.so "};
  return std::any_of(std::begin(kMacros), std::end(kMacros), [&](std::string_view macro) {
    return start.find(macro) != std::string::npos;
  });
}

// The name of the file in a compressed one: "notes.txt" of "notes.txt.gz".
std::string_view NameInside(std::string_view file_name) {
  for (const std::string_view ending :
       {".gz", ".bz2", ".xz", ".lzma", ".lz", ".zst", ".lz4", ".z"}) {
    if (file_name.size() > ending.size() &&
        StartsWithCaseless(file_name.substr(file_name.size() - ending.size()), ending)) {
      return file_name.substr(0, file_name.size() - ending.size());
    }
  }
  return file_name;
}

std::string_view NameOf(Format format) {
  return std::find_if(std::begin(kFormats), std::end(kFormats),
                      [format](const auto& known) { return known.second == format; })
      ->first;
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

// Whether files of the format are written characters, whose encoding is to be found.
bool IsWrittenText(Format format) {
  switch (format) {
    case Format::kText:
    case Format::kMarkdown:
    case Format::kHtml:
    case Format::kNotebook:
    case Format::kCsv:
    case Format::kTsv:
    case Format::kSubtitles:
    case Format::kRst:
    case Format::kAsciiDoc:
    case Format::kOrg:
    case Format::kLatex:
    case Format::kCalendar:
    case Format::kContacts:
      return true;
    default: return false;  // a mail names the encoding of each part, a manual page may be packed
  }
}

// Whether files of the format are zip files of parts; of OpenDocument, some are plain XML.
bool IsZipOfParts(Format format) { return format >= Format::kDocx && format <= Format::kEpub; }

api::Result<Ingested> IngestText(std::string bytes, const IngestOptions& options) {
  auto decoded = DecodeText(std::move(bytes), options.encoding);
  if (!decoded.ok()) return decoded.error();
  return Ingested{.text = std::move(decoded->text),
                  .note = std::move(decoded->note),
                  .is_encoding_assumed = decoded->is_assumed};
}

// Form feeds part pages: those with words, where there are two or more, counted from 1. The engine
// may replace bytes of a text that has a byte order mark or is not UTF-8, which would move pages.
void AddPagesOfText(Ingested& ingested) {
  const std::string_view text = ingested.text;
  if (text.find('\f') == std::string_view::npos || text.starts_with("\xEF\xBB\xBF") ||
      !IsValidUtf8(text))
    return;
  std::vector<lectern_page> pages;
  uint64_t number = 1;
  for (size_t begin = 0; begin < text.size(); ++number) {
    const size_t end = std::min(text.find('\f', begin), text.size());
    const size_t first = text.find_first_not_of(" \t\r\n\v", begin);
    if (first < end) pages.push_back({begin, number});
    begin = end + 1;
  }
  if (pages.size() < 2) return;
  ingested.pages = std::move(pages);
  ingested.num_pages = number - 1;
}

api::Result<Ingested> IngestHtml(std::string_view bytes, const IngestOptions& options) {
  HtmlOptions html;
  html.name = Quoted(options.file_name, "the page");
  html.encoding = options.encoding;
  html.marks_headings = true;
  html.is_cancelled = options.is_cancelled;
  if (options.memory_bytes > 0) {
    html.memory_bytes = std::min(html.memory_bytes, options.memory_bytes);
  }
  auto decoded = DecodeHtml(bytes, html);
  if (!decoded.ok()) return decoded.error();
  html.encoding = "UTF-8";
  auto text = ReadHtml(decoded->text, html);
  if (!text.ok()) return text.error();
  return Ingested{.text = std::move(*text),
                  .note = std::move(decoded->note),
                  .is_encoding_assumed = decoded->is_assumed};
}

api::Result<Ingested> IngestPdf(std::string_view bytes, const IngestOptions& options) {
  PdfOptions pdf = {.name = Quoted(options.file_name, "the PDF"),
                    .is_cancelled = options.is_cancelled,
                    .on_pages = options.on_pages};
  if (options.ocr) {
    pdf.recognition =
        RecognitionOptions{.languages = *options.ocr, .is_cancelled = options.is_cancelled};
  }
  auto paged = ReadPdf(bytes, pdf);
  if (!paged.ok()) return paged.error();
  std::string note = NoteOf(*paged), labels;
  for (const std::string& label : paged->page_labels) labels += label + '\n';
  return Ingested{.text = std::move(paged->text),
                  .pages = std::move(paged->pages),
                  .page_labels = std::move(labels),
                  .num_pages = paged->num_pages,
                  .note = std::move(note)};
}

api::Result<Ingested> IngestRtf(std::string_view bytes, const IngestOptions& options) {
  auto text = ReadRtf(bytes, {.name = Quoted(options.file_name, "the file"),
                              .is_cancelled = options.is_cancelled});
  if (!text.ok()) return text.error();
  return Ingested{.text = std::move(text->text), .note = std::move(text->note)};
}

api::Result<Ingested> IngestOldWord(std::string_view bytes, const IngestOptions& options) {
  auto text = ReadOldWord(
      bytes, {.name = Quoted(options.file_name, "the file"), .is_cancelled = options.is_cancelled});
  if (!text.ok()) return text.error();
  return Ingested{.text = std::move(text->text), .note = std::move(text->note)};
}

// A reader in a child process gets UTF-8 where the format does not say itself what its bytes mean.
api::Result<Ingested> IngestExtracted(std::string bytes, Format format,
                                      const IngestOptions& options) {
  Ingested ingested;
  if (IsWrittenText(format)) {
    auto decoded = IngestText(std::move(bytes), options);
    if (!decoded.ok()) return decoded.error();
    ingested = std::move(*decoded);
    bytes = std::move(ingested.text);
  }
  auto extracted = ReadExtracted(
      bytes, std::string(NameOf(format)),
      {.name = Quoted(options.file_name, "the file"), .is_cancelled = options.is_cancelled});
  if (!extracted.ok()) return extracted.error();
  ingested.text = std::move(extracted->text);
  ingested.pages = std::move(extracted->pages);
  ingested.num_pages = extracted->num_pages;
  if (ingested.note.empty()) {
    ingested.note = std::move(extracted->note);
  } else if (!extracted->note.empty()) {
    ingested.note = extracted->note + "; " + ingested.note;
  }
  return ingested;
}

// A message whose text is there in RTF alone gets it from the reader of RTF, which is a process of
// its own, behind the headers.
api::Result<Ingested> IngestMessage(const std::string& bytes, const IngestOptions& options) {
  auto ingested = IngestExtracted(bytes, Format::kMsg, options);
  if (!ingested.ok() || !ingested->note.starts_with(kRtfAlone)) return ingested;
  const std::string name = Quoted(options.file_name, "the file");
  auto rtf = ReadMessageRtf(bytes, {.name = name, .is_cancelled = options.is_cancelled});
  if (!rtf.ok() || rtf->empty()) return ingested;
  auto text = ReadRtf(*rtf, {.name = name, .is_cancelled = options.is_cancelled});
  if (!text.ok()) {
    if (text.error().code == LECTERN_CANCELLED) return text.error();
    ingested->note += ": " + text.error().message;
    return ingested;
  }
  while (text->text.ends_with('\n')) text->text.pop_back();
  const size_t headers =
      std::min(ingested->text.find("\n\n"), ingested->text.find_last_not_of('\n') + 1);
  ingested->text.insert(headers, "\n\n" + text->text);
  ingested->note.erase(0, kRtfAlone.size());
  if (ingested->note.starts_with("; ")) ingested->note.erase(0, 2);
  if (!text->note.empty()) ingested->note += (ingested->note.empty() ? "" : "; ") + text->note;
  return ingested;
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
  if (bytes.starts_with("{\\rtf")) return Format::kRtf;
  if (const auto format = ParseFormat(OldOfficeFormat(bytes))) return *format;
  if (BeginsAsHtml(bytes)) return Format::kHtml;
  if (const auto format = ParseFormat(ZipFormat(bytes))) return *format;
  if (const auto format = ParseFormat(MarkedTextFormat(bytes))) return *format;
  if (IsNamedAsManPage(file_name) && HasManMacro(bytes)) return Format::kManPage;
  for (const auto& [ending, format] : kEndings) {
    if (file_name.size() >= ending.size() &&
        StartsWithCaseless(file_name.substr(file_name.size() - ending.size()), ending)) {
      return format;
    }
  }
  return Format::kText;
}

std::string IngestNote(const Ingested& ingested, std::string_view encoding_option) {
  if (!ingested.is_encoding_assumed) return ingested.note;
  return ingested.note + " (" + std::string(encoding_option) + " names another)";
}

std::string WithFileNote(std::string_view report, const std::string& note) {
  auto json = ParseJson(report);
  if (!json.ok() || !json->object()) return std::string(report);
  Json::Object object = *json->object();
  object["file_note"] = note.empty() ? Json() : Json(note);
  return Json(std::move(object)).Dump();
}

std::string IngestedJson(const Ingested& ingested, const std::string& note) {
  const CleanText clean = CleanUtf8(ingested.text);
  Json::Array pages;
  std::string_view labels = ingested.page_labels;  // a line each, or none at all
  for (const lectern_page& page : ingested.pages) {
    const std::string_view label = labels.substr(0, labels.find('\n'));
    labels.remove_prefix(std::min(labels.size(), label.size() + 1));
    pages.emplace_back(Json::Object{{"begin", page.text_begin},
                                    {"page", page.page},
                                    {"label", label.empty() ? Json() : Json(label)}});
  }
  return Json(Json::Object{
                  {"text", clean.text},
                  {"pages", std::move(pages)},
                  {"num_pages", ingested.num_pages == 0 ? Json() : Json(ingested.num_pages)},
                  {"replaced_bytes", uint64_t{clean.replaced_bytes}},
                  {"note", note.empty() ? Json() : Json(note)}})
      .Dump();
}

api::Result<Ingested> Ingest(std::string bytes, const IngestOptions& options) {
  const auto named = ParseFormat(options.format);
  if (!named && options.format != "auto") {
    return api::Error{LECTERN_INVALID_ARGUMENT, "format is one of " + std::string(kFormatNames),
                      "format"};
  }
  std::string_view file_name = options.file_name;
  if (const auto kind = KindOfBinary(bytes); kind && kind->is_compressed) {
    auto unpacked = ReadUnpacked(bytes, {.name = Quoted(options.file_name, "the file"),
                                         .is_cancelled = options.is_cancelled});
    if (!unpacked.ok()) return unpacked.error();
    bytes = std::move(*unpacked);
    file_name = NameInside(file_name);
  }
  const Format format = named.value_or(DetectFormat(bytes, file_name));
  // A name may end as an office file's although the bytes are another thing.
  const bool is_other = IsZipOfParts(format) && !bytes.starts_with("PK");
  if (!named && (IsWrittenText(format) || is_other)) {
    if (auto error = NoText(bytes, options.file_name)) return *error;
  }
  auto ingested = format == Format::kHtml   ? IngestHtml(bytes, options)
                  : format == Format::kPdf  ? IngestPdf(bytes, options)
                  : format == Format::kRtf  ? IngestRtf(bytes, options)
                  : format == Format::kDoc  ? IngestOldWord(bytes, options)
                  : format == Format::kMsg  ? IngestMessage(bytes, options)
                  : format >= Format::kDocx ? IngestExtracted(std::move(bytes), format, options)
                                            : IngestText(std::move(bytes), options);
  if (!ingested.ok()) return ingested;
  ingested->format = format;
  if (format == Format::kText || format == Format::kMarkdown) AddPagesOfText(*ingested);
  if (!IsWrittenText(format) && options.encoding != "auto") {
    const std::string unused = "the encoding that was named is not used: a file of the format " +
                               std::string(NameOf(format)) + " says its own";
    ingested->note += (ingested->note.empty() ? "" : "; ") + unused;
  }
  return ingested;
}

}  // namespace lectern::tools
