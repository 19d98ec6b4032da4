#include "tools/ingest/extract/extract.h"

#include <string>

#include "tools/ingest/extract/readers.h"
#include "tools/ingest/extract/text_builder.h"
#include "tools/ingest/extract/zip_parts.h"

namespace lectern::tools {
namespace {

struct Reader {
  std::string_view format;
  api::Result<Extracted> (*read)(std::string_view bytes);
};
// A zip file of parts, which may be cut off.
template <api::Result<Extracted> (*read)(std::string_view)>
api::Result<Extracted> ReadZip(std::string_view bytes) {
  auto extracted = read(bytes);
  if (extracted.ok() && bytes.starts_with("PK") && ZipParts::IsCutOff(bytes))
    AddNote("the file is cut off, so that parts of it may be missing", extracted->note);
  return extracted;
}

constexpr Reader kReaders[] = {
    {"docx", ReadZip<ReadDocx>},
    {"odt", ReadZip<ReadOdt>},
    {"pptx", ReadZip<ReadPptx>},
    {"odp", ReadZip<ReadOdp>},
    {"xlsx", ReadZip<ReadXlsx>},
    {"ods", ReadZip<ReadOds>},
    {"xls", ReadXls},
    {"ppt", ReadPpt},
    {"msg", ReadMsg},
    {"epub", ReadZip<ReadEpub>},
    {"eml", ReadMail},
    {"ipynb", ReadNotebook},
    {"csv", [](std::string_view bytes) { return ReadCsv(bytes, false); }},
    {"tsv", [](std::string_view bytes) { return ReadCsv(bytes, true); }},
    {"man", ReadManPage},
    {"srt", ReadSubtitles},
    {"fb2", ReadFictionBook},
    {"rst", ReadRestructuredText},
    {"adoc", ReadAsciiDoc},
    {"org", ReadOrg},
    {"latex", ReadLatex},
    {"docbook", ReadDocBook},
    {"ics", ReadCalendar},
    {"vcf", ReadContacts}};

}  // namespace

api::Result<Extracted> Extract(std::string_view format, std::string_view bytes) {
  for (const Reader& reader : kReaders) {
    if (reader.format != format) continue;
    auto extracted = reader.read(bytes);
    if (extracted.ok() && extracted->text.empty())
      return api::Error{LECTERN_EMPTY_DOCUMENT, "has no text in it", "file"};
    return extracted;
  }
  return api::Error{LECTERN_INVALID_ARGUMENT, "has an unknown format", "file"};
}

}  // namespace lectern::tools
