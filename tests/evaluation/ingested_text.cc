// Prints the text that index-document would index, so that it can be compared with other programs'
// (pdf_text.py): ingested_text FILE [LANGUAGES] > TEXT. With Tesseract's languages, pages without
// text are recognised. Notes go to stderr.
#include <cstdio>
#include <fstream>
#include <iterator>

#include "tools/ingest/ingest.h"

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fputs("usage: ingested_text FILE [LANGUAGES]\n", stderr);
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), {});
  lectern::tools::IngestOptions options;
  options.file_name = argv[1];
  if (argc == 3) options.ocr = argv[2];
  auto ingested = lectern::tools::Ingest(std::move(bytes), options);
  if (!ingested.ok()) {
    std::fprintf(stderr, "%s\n", ingested.error().message.c_str());
    return 1;
  }
  std::fwrite(ingested->text.data(), 1, ingested->text.size(), stdout);
  if (const std::string note = IngestNote(*ingested, "--encoding"); !note.empty()) {
    std::fprintf(stderr, "%s\n", note.c_str());
  }
  return 0;
}
