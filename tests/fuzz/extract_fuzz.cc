// Whatever a file is: valid text with pages that ascend, or an error that says why. The first byte
// chooses the format; with a high one, the rest becomes a part of an office file, or the streams of
// an old one, so that mutations reach the readers behind the zip layer and the compound file.
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/tools/compound_writer.h"
#include "tests/tools/zip_writer.h"
#include "tools/ingest/compound_file.h"
#include "tools/ingest/extract/compressed_rtf.h"
#include "tools/ingest/extract/extract.h"
#include "tools/ingest/extract/unpack.h"
#include "tools/ingest/file_kind.h"
#include "tools/ingest/package_format.h"

namespace {

constexpr std::string_view kFormats[] = {
    "docx", "odt", "pptx", "odp",  "xlsx", "ods",     "epub", "eml", "ipynb", "csv", "tsv", "man",
    "srt",  "fb2", "rst",  "adoc", "org",  "docbook", "ics",  "vcf", "latex", "xls", "ppt", "msg"};
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

// An old office file whose streams stand in the bytes: the size of a name, the name, the content's
// size in four bytes, the content.
std::string OldOfficeFile(std::string_view bytes) {
  constexpr size_t kMostStreams = 200;  // so that runs stay short
  std::vector<std::pair<std::string, std::string>> streams;
  const auto take = [&bytes](size_t size) {
    const std::string taken(bytes.substr(0, size));
    bytes.remove_prefix(taken.size());
    return taken;
  };
  while (bytes.size() > 5 && streams.size() < kMostStreams) {
    const auto name_size = static_cast<uint8_t>(take(1)[0]);
    std::string name = take(name_size);
    const std::string size = take(4);
    streams.emplace_back(std::move(name), take(lectern::tools::Uint32At(size, 0)));
  }
  return lectern::tools::CompoundWriter::Write(streams);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  lectern::tools::ZipFormat(bytes);
  lectern::tools::MarkedTextFormat(bytes);
  (void)lectern::tools::Unpack(bytes);
  (void)lectern::tools::DecompressRtf(bytes);
  lectern::tools::OldOfficeFormat(bytes);
  const std::string_view format = kFormats[data[0] % 0x80 % kNumFormats];
  const bool is_old = format == "xls" || format == "ppt" || format == "msg";
  if (data[0] >= 0x80) bytes = is_old ? OldOfficeFile(bytes) : OfficeFile(bytes);
  auto extracted = lectern::tools::Extract(format, bytes);
  if (!extracted.ok() && extracted.error().message.empty()) std::abort();
  // The parent process takes every result that the program can have.
  if (!lectern::tools::ParseExtracted(lectern::tools::WriteExtracted(extracted))) std::abort();
  lectern::tools::ParseExtracted(bytes);
  return 0;
}
