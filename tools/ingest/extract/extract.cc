#include "tools/ingest/extract/extract.h"

#include <string>

#include "tools/ingest/extract/readers.h"

namespace lectern::tools {
namespace {

struct Reader {
  std::string_view format;
  api::Result<Extracted> (*read)(std::string_view bytes);
};
constexpr Reader kReaders[] = {
    {"docx", ReadDocx},
    {"odt", ReadOdt},
    {"pptx", ReadPptx},
    {"odp", ReadOdp},
    {"xlsx", ReadXlsx},
    {"ods", ReadOds},
    {"epub", ReadEpub},
    {"eml", ReadMail},
    {"ipynb", ReadNotebook},
    {"csv", [](std::string_view bytes) { return ReadCsv(bytes, false); }},
    {"tsv", [](std::string_view bytes) { return ReadCsv(bytes, true); }},
    {"man", ReadManPage}};

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
