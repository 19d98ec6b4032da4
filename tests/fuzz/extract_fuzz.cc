// Whatever a file is: valid text with pages that ascend, or an error that says why. The first byte
// chooses the format; with a high one, the rest becomes a part of an office file, so that mutations
// reach the readers behind the zip layer.
#include <cstdlib>
#include <string>

#include "tests/tools/zip_writer.h"
#include "tools/ingest/extract/extract.h"
#include "tools/ingest/extract/unpack.h"
#include "tools/ingest/package_format.h"

namespace {

constexpr std::string_view kFormats[] = {
    "docx", "odt", "pptx", "odp", "xlsx", "ods", "epub",    "eml", "ipynb", "csv",  "tsv",
    "man",  "srt", "fb2",  "rst", "adoc", "org", "docbook", "ics", "vcf",   "latex"};
constexpr size_t kNumFormats = sizeof kFormats / sizeof kFormats[0];

std::string Related(const std::string& name, const std::string& target) {
  return "<Relationship Id=\"" + name + "\" Type=\"x/" + name + "\" Target=\"" + target + "\"/>";
}

// An office file whose parts are all `xml`, but for the relationships between them.
std::string OfficeFile(const std::string& xml) {
  const std::string main =
      "<Relationships>" + Related("officeDocument", "main.xml") + "</Relationships>";
  std::string parts = "<Relationships>";
  for (const char* const type :
       {"styles", "numbering", "footnotes", "endnotes", "sharedStrings", "worksheet", "slide",
        "notesSlide", "diagramData", "chart", "comments", "aFChunk", "table"})
    parts += Related(type, "main.xml");
  parts += "</Relationships>";
  return lectern::tools::WriteZip(
      {{"_rels/.rels", main},
       {"_rels/main.xml.rels", parts},
       {"META-INF/container.xml",
        "<c><rootfiles><rootfile full-path=\"main.xml\"/></rootfiles></c>"},
       {"main.xml", xml},
       {"content.xml", xml},
       {"Object 1/content.xml", xml},
       {"styles.xml", xml}});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  lectern::tools::ZipFormat(bytes);
  lectern::tools::MarkedTextFormat(bytes);
  (void)lectern::tools::Unpack(bytes);
  if (data[0] >= 0x80) bytes = OfficeFile(bytes);
  auto extracted = lectern::tools::Extract(kFormats[data[0] % 0x80 % kNumFormats], bytes);
  if (!extracted.ok() && extracted.error().message.empty()) std::abort();
  // The parent process takes every result that the program can have.
  if (!lectern::tools::ParseExtracted(lectern::tools::WriteExtracted(extracted))) std::abort();
  lectern::tools::ParseExtracted(bytes);
  return 0;
}
